"""Reads groups, their members and their offsets from any Kafka broker."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from cli import output
from cli.client.at_once import Call, at_once
from cli.client.cluster import Cluster, Connection
from cli.client.offsets_at import Partition
from cli.client.streams_tasks import inputs_of, tasks_text
from cli.errors import CommandError, check, refused
from cli.names import owned
from cli.patterns import nearest
from client.connection import Value
from protocol.consumer_protocol import assigned_partitions
from protocol.errors import GROUP_ID_NOT_FOUND, ProtocolError
from verdicts.spelling import plain_host

CLASSIC, CONSUMER, SHARE, STREAMS = TYPES = "classic", "consumer", "share", "streams"
"""The group types in ListGroups."""
GROUPS_AT_ONCE = 100
"""The maximum number of groups in one request."""
GONE_STATES = ("Dead", "")
WITHOUT_MEMBERS = ("Empty", *GONE_STATES)
"""The group states in which a client that is not a member may change the group's offsets."""
_DESCRIBES = {SHARE: ("ShareGroupDescribe", 1), STREAMS: ("StreamsGroupDescribe", 0)}
"""The API that describes groups of a type, and its lowest version."""


class Committed(NamedTuple):
    """One committed offset. ``leader_epoch`` is -1 if unknown."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


Offsets = dict[Partition, Committed]


class Group(NamedTuple):
    """A group, as its coordinator describes it."""

    group_id: str
    kind: str
    state: str
    protocol_type: str
    protocol: str
    coordinator: str
    members: list[output.Row]
    owners: dict[Partition, str]
    """The id of the member that owns each assigned partition. Empty for a share group, whose
    members share partitions."""

    @property
    def exists(self) -> bool:
        return self.state not in GONE_STATES


def list_groups(
    cluster: Cluster, states: Collection[str] = (), kinds: Collection[str] = ()
) -> list[output.Row]:
    """Returns the groups of the cluster ordered by id. ``states`` and ``kinds`` (group types)
    restrict the result if they are not empty."""
    calls = []
    for broker in cluster.brokers():
        if states and broker.version_of("ListGroups") < 4:
            raise CommandError(
                "this broker is older than Kafka 2.6 and can't filter groups by state; omit --state"
            )
        calls.append(
            Call(broker, "ListGroups", {"states_filter": list(states), "types_filter": []})
        )  # before Kafka 3.8 a broker can't filter by type, so the rows are filtered here
    rows: dict[str, output.Row] = {}
    for answer in at_once(cluster, calls):
        check("groups", answer)
        for group in answer["groups"]:
            rows[group["group_id"]] = {
                "group": group["group_id"],
                "state": group["group_state"] or None,
                "type": group["group_type"].lower() or CLASSIC,
                "protocol_type": group["protocol_type"] or None,
            }
    return [rows[group] for group in sorted(rows) if not kinds or rows[group]["type"] in kinds]


# ------------------------------------------------------------------------------------- groups


def read_group(cluster: Cluster, group_id: str) -> Group:
    """Returns a group. A group that the coordinator does not know has the state Dead and no
    members."""
    return read_groups(cluster, cluster.coordinators([group_id]))[group_id]


def read_groups(cluster: Cluster, coordinators: Mapping[str, Connection]) -> dict[str, Group]:
    """Returns groups by id. ``coordinators`` contains the coordinator of each group."""
    answers = _described(cluster, coordinators, "DescribeGroups", "groups")
    found: dict[str, Group] = {}
    unknown: dict[str, Connection] = {}
    for group_id, coordinator in coordinators.items():
        answer = answers[group_id]
        check(f"group {group_id}", answer, GROUP_ID_NOT_FOUND)
        if answer["error_code"] or answer["group_state"] in GONE_STATES:
            unknown[group_id] = coordinator
            continue
        members = [
            _member(each, each["group_instance_id"], _assigned(bytes(each["member_assignment"])))
            for each in answer["members"]
        ]
        found[group_id] = _group(coordinator, group_id, CLASSIC, answer, members)
    if unknown:
        found |= _of_other_kinds(cluster, unknown)
    return {group_id: found[group_id] for group_id in coordinators}


def _described(
    cluster: Cluster,
    coordinators: Mapping[str, Connection],
    name: str,
    field: str,
    more: Value | None = None,
) -> dict[str, Value]:
    """Returns the coordinators' descriptions of groups, by group id. One request describes many
    groups."""
    calls = [
        Call(
            coordinator,
            name,
            {field: group_ids, "include_authorized_operations": False, **(more or {})},
        )
        for coordinator, group_ids in batches(coordinators)
    ]
    return {
        group["group_id"]: group
        for answer in at_once(cluster, calls, "reading groups")
        for group in answer["groups"]
    }


def batches(
    coordinators: Mapping[str, Connection], size: int = GROUPS_AT_ONCE
) -> Iterator[tuple[Connection, list[str]]]:
    """Yields pairs of a coordinator and up to ``size`` of its groups, until all groups were
    yielded."""
    by_coordinator: dict[Connection, list[str]] = {}
    for group_id, coordinator in coordinators.items():
        by_coordinator.setdefault(coordinator, []).append(group_id)
    for coordinator, group_ids in by_coordinator.items():
        for start in range(0, len(group_ids), size):
            yield coordinator, group_ids[start : start + size]


def _of_other_kinds(cluster: Cluster, coordinators: Mapping[str, Connection]) -> dict[str, Group]:
    """Returns the groups that DescribeGroups does not know: groups of the KIP-848 protocol, share
    groups, streams groups, and unknown groups."""
    able = {
        group_id: each
        for group_id, each in coordinators.items()
        if each.supports("ConsumerGroupDescribe", 0)
    }
    found = _of_kind(cluster, able, CONSUMER)
    kinds = {}
    if able.keys() - found:  # a broker with share groups lists their type
        kinds = {row["group"]: row for row in list_groups(cluster)}
        listed: dict[str, dict[str, Connection]] = {
            kind: {
                group_id: each
                for group_id, each in able.items()
                if kinds.get(group_id, {}).get("type") == kind and each.supports(*api)
            }
            for kind, api in _DESCRIBES.items()
        }
        found |= _of_kind(cluster, listed[SHARE], SHARE)
        found |= _of_streams(cluster, listed[STREAMS])
    for group_id in coordinators.keys() - found:
        row = kinds.get(group_id, {})
        found[group_id] = Group(
            group_id,
            row.get("type", CLASSIC),
            row.get("state") or "Dead",
            row.get("protocol_type") or "",
            "",
            coordinators[group_id].address,
            [],
            {},
        )
    return found


def _of_kind(
    cluster: Cluster, coordinators: Mapping[str, Connection], kind: str
) -> dict[str, Group]:
    """Returns those groups in ``coordinators`` that are of type ``kind`` (CONSUMER or SHARE)."""
    name = "ShareGroupDescribe" if kind == SHARE else "ConsumerGroupDescribe"
    return {
        group_id: _group(
            coordinators[group_id],
            group_id,
            kind,
            answer,
            [
                _member(each, each.get("instance_id"), _owned(each["assignment"]))
                for each in answer["members"]
            ],
        )
        for group_id, answer in _described(cluster, coordinators, name, "group_ids").items()
        if not answer["error_code"]
    }


def _of_streams(cluster: Cluster, coordinators: Mapping[str, Connection]) -> dict[str, Group]:
    """Returns the streams groups (KIP-1071) among the groups whose ids are the keys of
    ``coordinators``. The result shows a member as owner of the partitions that its active tasks
    read."""
    more = {"include_topology_description": False}
    answers = _described(cluster, coordinators, "StreamsGroupDescribe", "group_ids", more)
    found: dict[str, Group] = {}
    for group_id, answer in answers.items():
        if not answer["error_code"]:
            members = [
                {
                    **_member(each, each["instance_id"], inputs_of(answer["topology"], each)),
                    "tasks": tasks_text(each["assignment"]),
                }
                for each in answer["members"]
            ]
            found[group_id] = _group(coordinators[group_id], group_id, STREAMS, answer, members)
    return found


def _member(member: Value, instance: str | None, assigned: Mapping[str, list[int]]) -> Value:
    return {
        "member": member["member_id"],
        "instance": instance,
        "client": member["client_id"],
        "host": plain_host(member["client_host"]),
        "owned": assigned,
    }


def _group(
    coordinator: Connection, group_id: str, kind: str, answer: Value, members: list[Value]
) -> Group:
    owners = {
        (topic, partition): member["member"]
        for member in ([] if kind == SHARE else members)
        for topic, partitions in member["owned"].items()
        for partition in partitions
    }
    rows = [
        {
            **{name: member[name] for name in ("member", "instance", "client", "host")},
            "partitions": owned(member["owned"]),
            **({"tasks": member["tasks"]} if kind == STREAMS else {}),
        }
        for member in sorted(members, key=lambda member: str(member["member"]))
    ]
    is_classic = kind == CLASSIC
    return Group(
        group_id,
        kind,
        answer["group_state"],
        answer["protocol_type"] if is_classic else kind,
        answer["protocol_data"] if is_classic else answer["assignor_name"],
        coordinator.address,
        rows,
        owners,
    )


def _owned(assignment: Value) -> dict[str, list[int]]:
    given = assignment["topic_partitions"]
    return {topic["topic_name"]: list(topic["partitions"]) for topic in given}


def _assigned(assignment: bytes) -> dict[str, list[int]]:
    try:
        return assigned_partitions(assignment)
    except ProtocolError:
        return {}  # not the consumer protocol: only the members can read it


# ------------------------------------------------------------------------------------ offsets


def committed_of_groups(
    cluster: Cluster, coordinators: Mapping[str, Connection]
) -> dict[str, Offsets]:
    """Returns all committed offsets of each group. A group that does not exist has none."""
    asked: list[tuple[Connection, list[str]]] = []
    for coordinator in dict.fromkeys(coordinators.values()):
        version = coordinator.version_of("OffsetFetch")
        if version < 2:
            raise CommandError(
                "this broker is older than Kafka 0.10.2 and can't list the offsets of a group"
            )
        mine = {group_id: at for group_id, at in coordinators.items() if at is coordinator}
        asked += batches(mine, GROUPS_AT_ONCE if version >= 8 else 1)
    answers = at_once(
        cluster, [Call(at, "OffsetFetch", _fetch(ids)) for at, ids in asked], "reading offsets"
    )
    found = {
        group_id: _committed(group_id, group)
        for (_, group_ids), answer in zip(asked, answers, strict=True)
        for group_id, group in _by_group(group_ids, answer)
    }
    return {group_id: found[group_id] for group_id in coordinators}


def _fetch(group_ids: Sequence[str]) -> Value:
    """Returns an OffsetFetch request for all offsets of the groups. Before version 8, the request
    is for the first group only."""
    return {
        "group_id": group_ids[0],
        "topics": None,
        "groups": [{"group_id": group_id, "topics": None} for group_id in group_ids],
        "require_stable": False,
    }


def _by_group(group_ids: Sequence[str], answer: Value) -> Iterator[tuple[str, Value]]:
    if answer["groups"]:
        yield from ((group["group_id"], group) for group in answer["groups"])
    else:
        yield group_ids[0], answer


def _committed(group_id: str, answer: Value) -> Offsets:
    check(f"offsets of group {group_id}", answer, GROUP_ID_NOT_FOUND)
    return {
        (topic["name"], p["partition_index"]): Committed(
            p["committed_offset"], p["metadata"] or "", p["committed_leader_epoch"]
        )
        for topic in answer["topics"] or ()
        for p in topic["partitions"]
        if p["committed_offset"] >= 0
    }


# --------------------------------------------------------------------------------------- both


class Known(NamedTuple):
    """A group and all its committed offsets."""

    group: Group
    committed: Offsets

    @property
    def exists(self) -> bool:
        """True if the group exists or has a committed offset."""
        return self.group.exists or bool(self.committed)


def known_group(cluster: Cluster, group_id: str) -> Known:
    """Returns a group and its committed offsets. Raises CommandError if there is neither a group
    nor a committed offset."""
    return known_groups(cluster, [group_id])[group_id]


def known_groups(
    cluster: Cluster,
    group_ids: Iterable[str],
    note: str | None = None,
    *,
    new_ones: bool = False,
    share_groups: bool = False,
) -> dict[str, Known]:
    """Returns groups and their committed offsets.

    Unless ``share_groups`` is set, raises CommandError for a share group, which has no committed
    offsets. Unless ``new_ones`` is set, raises CommandError with ``note`` for groups that do not
    exist.
    """
    found = groups_with_offsets(cluster, group_ids)
    missing = [name for name, known in found.items() if not known.exists]
    if missing and not new_ones:
        named = "group" if len(missing) == 1 else "groups"
        meant = nearest(missing, [row["group"] for row in list_groups(cluster)])
        shown = ", ".join(name or "''" for name in missing)
        raise refused(f"{named} {shown}", GROUP_ID_NOT_FOUND, note, meant)
    for name, known in found.items():
        if known.group.kind == SHARE and not share_groups:
            raise CommandError(
                f"group {name} is a share group and has no committed offsets;"
                f" `muster share describe {name}` shows its records"
            )
    return found


def groups_with_offsets(cluster: Cluster, group_ids: Iterable[str]) -> dict[str, Known]:
    """Returns each group with its committed offsets. Groups that do not exist are included."""
    coordinators = cluster.coordinators(group_ids)
    groups = read_groups(cluster, coordinators)
    committed = committed_of_groups(cluster, coordinators)
    return {group_id: Known(groups[group_id], committed[group_id]) for group_id in coordinators}
