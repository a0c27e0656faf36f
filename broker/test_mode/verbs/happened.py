"""The verbs that read groups, members, committed offsets, the journal and records. For a group that
does not exist, the result is empty, since the group may be created later."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from broker.cores.groups.runtime import HostedGroups
from broker.test_mode.arguments import COUNT, POSITIVE, TEXT, Argument
from broker.test_mode.finding import groups as all_groups
from broker.test_mode.finding import hosted_of
from broker.test_mode.journal import events
from broker.test_mode.refusals import NotNow
from broker.test_mode.requests.decoded import record_view
from broker.test_mode.tested_broker import TestedBroker
from broker.test_mode.verbs.verb import Answer, Verb
from broker.topics.partition import Partition
from broker.web.views.groups import reconciliation
from coordinator.classic.heartbeats import silent_ms
from coordinator.read_only import GroupView, MemberView
from coordinator.share.group import SHARE
from coordinator.wording import plain_host
from log.errors import OffsetOutOfRange
from protocol.consumer_protocol import CONSUMER, assigned_partitions, subscribed_topics
from protocol.errors import ProtocolError
from protocol.now import Now
from protocol.records.stored import iter_stored, stored_records

READ_BYTES = 1024 * 1024
"""The maximum number of bytes of a log that one read returns."""


async def groups(tested: TestedBroker, group: str | None) -> Answer:
    where = tested.addresses.bootstrap_servers
    return {
        "groups": [
            {
                "group": each.group_id,
                "kind": each.type,
                "state": each.state.value,
                "generation_id": each.generation_id,
                "protocol_type": each.protocol_type,
                "protocol": each.protocol_name,
                "coordinator": where,
                "members": len(each.members),
            }
            for _, each in all_groups(tested.broker)
            if group in (None, each.group_id)
        ]
    }


def _found(tested: TestedBroker, verb: str, group_id: str) -> tuple[HostedGroups, GroupView] | None:
    """Returns a group and its shard; None if the group does not exist. Raises NotNow if the
    coordinator is not available."""
    if not tested.broker.groups.is_started:
        return None
    hosted = hosted_of(tested.broker, verb, group_id)
    group = hosted.core.view.groups.get(group_id)
    return None if group is None else (hosted, group)


async def members(tested: TestedBroker, group: str) -> Answer:
    """Returns a group's members. A member of a classic group has an assignment only while the group
    is stable."""
    found = _found(tested, "GET /test/members", group)
    if found is None:
        return {"members": []}
    there, now = found[1], tested.time.now()
    return {"members": [_member(there, each, now) for each in there.members.values()]}


def _member(group: GroupView, member: MemberView, now: Now) -> dict[str, Any]:
    silent = silent_ms(member, now) or 0  # None while the member's request is parked
    return {
        "member": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "host": plain_host(member.client_host),
        "session_timeout_ms": member.session_timeout_ms,
        "last_heard_ms": now.wall_ms - silent,
        "assignment": _assignment(group, member),
        "subscription": _subscription(group, member),
        "reconciliation": reconciliation(member.reconciliation, now),
    }


def _assignment(group: GroupView, member: MemberView) -> list[list[Any]]:
    if group.protocol_type not in (CONSUMER, SHARE) or not group.is_assigned:
        return []
    try:
        assigned = assigned_partitions(member.assignment)
    except ProtocolError:
        return []
    return [[topic, each] for topic, partitions in assigned.items() for each in partitions]


def _subscription(group: GroupView, member: MemberView) -> list[str]:
    if (subscribed := member.subscription) is not None:
        return list(subscribed)
    topics: dict[str, None] = {}
    if group.protocol_type == CONSUMER:
        for _, metadata in member.protocols:
            try:
                topics.update(dict.fromkeys(subscribed_topics(metadata)))
            except ProtocolError:
                continue
    return list(topics)


async def committed(tested: TestedBroker, group: str) -> Answer:
    found = _found(tested, "GET /test/committed", group)
    if found is None:
        return {"offsets": []}
    hosted = found[0]
    rows = []
    for lag in tested.broker.lags.of_group(hosted, group):
        entry = hosted.core.view.offsets.get(group, lag.topic, lag.partition)
        if entry is not None:
            rows.append(
                {
                    "topic": lag.topic,
                    "partition": lag.partition,
                    "offset": lag.offset,
                    "leader_epoch": entry.leader_epoch if entry.leader_epoch >= 0 else None,
                    "metadata": entry.metadata,
                    "commit_ms": lag.committed_ms,
                    "lag": lag.lag,
                }
            )
    return {"offsets": rows}


async def journal(tested: TestedBroker, group: str) -> Answer:
    broker = tested.broker
    return {"events": events(broker.sources, broker.groups.hosted_for(group), group)}


async def records(
    tested: TestedBroker, topic: str, partition: int | None, first: int, limit: int
) -> Answer:
    """Returns a topic's records by partition, with whole keys and values."""
    verb = "GET /test/records"
    entry = tested.broker.logs.topics.get(topic)
    if entry is None:
        there = ", ".join(sorted(tested.broker.logs.topics)) or "none"
        raise NotNow(f"{verb}: topic {topic!r} does not exist; existing topics: {there}")
    found = [each for each in entry.partitions if partition in (None, each.index)]
    if not found:
        raise NotNow(
            f"{verb}: partition {partition} does not exist; {topic!r} has"
            f" {len(entry.partitions)} partitions"
        )
    rows: list[dict[str, Any]] = []
    for each in found:
        for more in _records(each, first):
            rows += more
            if len(rows) > limit:
                return {"records": rows[:limit], "truncated": True}
            await tested.system.sleep(0)
    return {"records": rows, "truncated": False}


def _records(partition: Partition, first: int) -> Iterator[list[dict[str, Any]]]:
    """Yields the readable records from the offset ``first`` on, a few batches at a time."""
    log = partition.log
    offset = max(first, log.log_start_offset)
    while offset < partition.high_watermark:
        try:
            data = log.read(offset, READ_BYTES, max_offset=partition.high_watermark).data
        except OffsetOutOfRange:  # the records were deleted after the last read
            return
        rows = []
        before = offset
        for header, _ in iter_stored(data, partial=True):
            offset = header.last_offset + 1
            if header.is_control and header.magic == 2:
                continue
            rows += [
                {"partition": partition.index, **record_view(record)}
                for record in stored_records(data, header)
                if record.offset >= before
            ]
        yield rows
        if offset == before:
            return


_GROUP = Argument("group", TEXT, "the group's id", required=True)

VERBS = (
    Verb(
        "GET",
        "/groups",
        "returns all groups, or one group",
        groups,
        (Argument("group", TEXT, "only this group"),),
    ),
    Verb("GET", "/members", "returns a group's members with their assignments", members, (_GROUP,)),
    Verb(
        "GET",
        "/committed",
        "returns a group's committed offsets with their lag",
        committed,
        (_GROUP,),
    ),
    Verb(
        "GET",
        "/journal",
        "returns why a group rebalanced, as `muster groups why` does",
        journal,
        (_GROUP,),
    ),
    Verb(
        "GET",
        "/records",
        "returns a topic's records with whole keys and values",
        records,
        (
            Argument("topic", TEXT, "the topic's name", required=True),
            Argument("partition", COUNT, "only this partition"),
            Argument("from", COUNT, "the first offset", default=0, keyword="first"),
            Argument("limit", POSITIVE, "the maximum number of records", default=100_000),
        ),
    ),
)
