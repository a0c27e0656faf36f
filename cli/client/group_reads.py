"""What the group commands ask of brokers: a group with its members and its offsets.

Only requests of Kafka's protocol, so all of it works with any broker.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from cli import output
from cli.client.cluster import Cluster, Connection, Value
from cli.client.offsets_at import Partition
from cli.errors import CommandError, check, refused
from cli.names import owned, plain_host
from protocol.consumer_protocol import assigned_partitions
from protocol.errors import GROUP_ID_NOT_FOUND, ProtocolError

WITHOUT_MEMBERS = ("Empty", "Dead", "")
"""States of a group in which its offsets may be changed from outside."""


class Committed(NamedTuple):
    """One committed offset; ``leader_epoch`` is -1 where it is not known."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class Group(NamedTuple):
    """A group as its coordinator describes it."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    coordinator: str
    members: list[output.Row]
    owners: dict[Partition, str]
    """Who was assigned a partition, by member id."""

    @property
    def exists(self) -> bool:
        """Whether the coordinator knows it; one without members may still have offsets."""
        return self.state not in ("Dead", "")


def list_groups(cluster: Cluster, states: Collection[str] = ()) -> list[output.Row]:
    """Every group of the cluster by its id, in a line each."""
    rows: dict[str, output.Row] = {}
    for broker in cluster.brokers():
        if states and broker.version_of("ListGroups") < 4:
            raise CommandError(
                "this broker cannot filter groups by state (needs Kafka 2.6); leave out --state"
            )
        answer = broker.call("ListGroups", {"states_filter": list(states), "types_filter": []})
        check("groups", answer)
        for group in answer["groups"]:
            rows[group["group_id"]] = {
                "group": group["group_id"],
                "state": group["group_state"] or None,
                "type": group["group_type"].lower() or "classic",
                "protocol_type": group["protocol_type"] or None,
            }
    return [rows[group] for group in sorted(rows)]


def read_group(cluster: Cluster, group_id: str) -> Group:
    """A group; one that the coordinator does not know has state Dead and no members."""
    coordinator = cluster.coordinator(group_id)
    answer = coordinator.call(
        "DescribeGroups", {"groups": [group_id], "include_authorized_operations": False}
    )["groups"][0]
    check(f"group {group_id}", answer, GROUP_ID_NOT_FOUND)
    if answer["error_code"] or answer["group_state"] in ("Dead", ""):
        return _of_the_new_protocol(coordinator, group_id) or Group(
            group_id, "Dead", "", "", coordinator.address, [], {}
        )
    members = [
        _member(member, member["group_instance_id"], _assigned(bytes(member["member_assignment"])))
        for member in answer["members"]
    ]
    return _group(coordinator, group_id, answer, answer["protocol_data"], members)


def _of_the_new_protocol(coordinator: Connection, group_id: str) -> Group | None:
    """A group of KIP-848, which DescribeGroups does not know; None for any other."""
    if not coordinator.supports("ConsumerGroupDescribe", 0):
        return None
    asked = {"group_ids": [group_id], "include_authorized_operations": False}
    answer = coordinator.call("ConsumerGroupDescribe", asked)["groups"][0]
    if answer["error_code"]:
        return None
    members = []
    for member in answer["members"]:
        given = member["assignment"]["topic_partitions"]
        assigned = {topic["topic_name"]: list(topic["partitions"]) for topic in given}
        members.append(_member(member, member["instance_id"], assigned))
    answer = {**answer, "protocol_type": "consumer"}
    return _group(coordinator, group_id, answer, answer["assignor_name"], members)


def _member(member: Value, instance: str | None, assigned: Mapping[str, list[int]]) -> Value:
    return {
        "member": member["member_id"],
        "instance": instance,
        "client": member["client_id"],
        "host": plain_host(member["client_host"]),
        "owned": assigned,
    }


def _group(
    coordinator: Connection, group_id: str, answer: Value, protocol: str, members: list[Value]
) -> Group:
    owners = {
        (topic, partition): member["member"]
        for member in members
        for topic, partitions in member["owned"].items()
        for partition in partitions
    }
    rows = [
        {
            **{name: member[name] for name in ("member", "instance", "client", "host")},
            "partitions": owned(member["owned"]),
        }
        for member in sorted(members, key=lambda member: str(member["member"]))
    ]
    return Group(
        group_id,
        answer["group_state"],
        answer["protocol_type"],
        protocol,
        coordinator.address,
        rows,
        owners,
    )


def _assigned(assignment: bytes) -> dict[str, list[int]]:
    try:
        return assigned_partitions(assignment)
    except ProtocolError:
        return {}  # not the consumer protocol: nobody but the members can read it


def committed_of(cluster: Cluster, group_id: str) -> dict[Partition, Committed]:
    """All that a group has committed; nothing for one that is not there."""
    coordinator = cluster.coordinator(group_id)
    if coordinator.version_of("OffsetFetch") < 2:
        raise CommandError("this broker cannot list a group's offsets (needs Kafka 0.10.2)")
    answer = coordinator.call(
        "OffsetFetch",
        {
            "group_id": group_id,
            "topics": None,
            "groups": [{"group_id": group_id, "topics": None}],
            "require_stable": False,
        },
    )
    group = answer["groups"][0] if answer["groups"] else answer
    check(f"offsets of group {group_id}", group, GROUP_ID_NOT_FOUND)
    return {
        (topic["name"], p["partition_index"]): Committed(
            p["committed_offset"], p["metadata"] or "", p["committed_leader_epoch"]
        )
        for topic in group["topics"] or ()
        for p in topic["partitions"]
        if p["committed_offset"] >= 0
    }


def known_group(cluster: Cluster, group_id: str) -> tuple[Group, dict[Partition, Committed]]:
    """A group and its offsets; CommandError when there is neither."""
    group = read_group(cluster, group_id)
    committed = committed_of(cluster, group_id)
    if not committed and not group.exists:
        raise refused(f"group {group_id}", GROUP_ID_NOT_FOUND)
    return group, committed
