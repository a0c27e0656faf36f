"""Series of which there is one a group, member, topic or partition: read and written in slices.

A broker may have hundreds of thousands of them, and answers nobody else while it writes one slice.
`Walk` looks at everything once, in steps of bounded work, and shows each thing to its views: here to
the one with kafka_exporter's names and ours, and to those of ``metrics.compat`` (compat.py).
Nothing is counted here; names, labels and meanings stand in docs/metrics.md.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple, Protocol

from broker.families import Families, label
from broker.lag import MemberLag, PartitionLag, TopicPartition
from broker.logs import TopicLogs
from broker.shard_log import ShardLog
from coordinator.calls import Now
from coordinator.group import CONSUMER, Group
from coordinator.member import Member
from coordinator.states import State
from log.partition_log import PartitionLog

if TYPE_CHECKING:
    from broker.broker import Broker

SLICE_S = 0.004
"""How long one slice may hold the loop, less the last of its steps."""
STEP = 128
"""Offsets, members or partitions in one step at most."""
ASSIGNMENT_BYTES_MAX = 64 * 1024
"""The lag of a member with a longer assignment (16,000 partitions) is left out."""


class Seen(NamedTuple):
    """A group as a walk shows it; ``group`` is None where only its offsets are there."""

    host: ShardLog
    group_id: str
    group: Group | None


class View(Protocol):
    """What is shown to a view, in this order: a group, its offsets, its members; then topics."""

    def begin_group(self, seen: Seen) -> None:
        """A group."""

    def offsets(self, lags: Sequence[PartitionLag], owners: dict[TopicPartition, Member]) -> None:
        """Some of its offsets, all in one topic; whose each is, where the view asked for that."""

    def end_topic(self, topic: str) -> None:
        """That was all in this topic."""

    def members(self, lags: Sequence[MemberLag]) -> None:
        """Some of its members."""

    def end_group(self) -> None:
        """That was all of the group."""

    def partitions(self, entry: TopicLogs, logs: Sequence[PartitionLog]) -> None:
        """Some partitions of a topic."""

    def topic(self, entry: TopicLogs) -> None:
        """A topic, behind its partitions."""


class Walk:
    """One look at all groups and topics."""

    def __init__(self, broker: Broker, views: Sequence[View], with_owners: bool = False) -> None:
        self.broker = broker
        self.views = views
        self.with_owners = with_owners
        self.states: Counter[str] = Counter({state.value: 0 for state in State})
        """Groups by state."""
        self.everybody = 0
        """Members of all groups."""
        self.assignments_left_out = 0
        """Members whose assignment was too long to be read here."""

    async def run(self) -> None:
        """All of it; others get their turn between two slices.

        What changes meanwhile is seen as it was or as it is.
        """
        since = perf_counter()
        for _ in self.steps():
            if perf_counter() - since > SLICE_S:
                await asyncio.sleep(0)
                since = perf_counter()

    def steps(self) -> Iterator[int]:
        """Does it step by step; yields how much each looked at, at most STEP or one member."""
        for host in list(self.broker.runtime.hosts):
            alone = [each for each in host.shard.cache.groups() if each not in host.shard.groups]
            yield 1
            for group in list(host.shard.groups.values()):
                self.states[group.state.value] += 1
                self.everybody += len(group.members)
                yield from self._group(Seen(host, group.group_id, group))
            for group_id in alone:
                yield from self._group(Seen(host, group_id, None))
        for entry in list(self.broker.logs.topics.values()):
            yield from self._topic(entry)

    def _group(self, seen: Seen) -> Iterator[int]:
        views = self.views
        for view in views:
            view.begin_group(seen)
        owners: dict[TopicPartition, Member] = {}
        members = self._readable_members(seen.group)
        lags = self.broker.lags
        if self.with_owners and seen.group is not None:
            for member in members:
                owned = lags.owned_by(seen.group, member) or ()
                owners.update(dict.fromkeys(owned, member))
                yield 1
        found: dict[TopicPartition, PartitionLag] = {}
        for topic in list(seen.host.shard.cache.topics(seen.group_id)):
            offsets = lags.of_topic(seen.host, seen.group_id, topic)
            while some := list(islice(offsets, STEP)):
                for view in views:
                    view.offsets(some, owners)
                if members:
                    found.update([((lag.topic, lag.partition), lag) for lag in some])
                yield len(some)
            for view in views:
                view.end_topic(topic)
        if seen.group is not None:
            for member in members:
                lag = lags.of_member(seen.group, member, found)
                if lag is not None:
                    for view in views:
                        view.members((lag,))
                yield 1
        for view in views:
            view.end_group()
        yield 1

    def _readable_members(self, group: Group | None) -> list[Member]:
        if group is None or group.protocol_type != CONSUMER:
            return []
        members = list(group.members.values())
        short = [each for each in members if len(each.assignment) <= ASSIGNMENT_BYTES_MAX]
        self.assignments_left_out += len(members) - len(short)
        return short

    def _topic(self, entry: TopicLogs) -> Iterator[int]:
        for start in range(0, len(entry.logs), STEP):
            logs = entry.logs[start : start + STEP]
            for view in self.views:
                view.partitions(entry, logs)
            yield len(logs)
        for view in self.views:
            view.topic(entry)
        yield 1


class NativeView:
    """kafka_exporter's names, and ours for what it has none for."""

    def __init__(self, broker: Broker, families: Families) -> None:
        self.broker = broker
        self.families = families
        self.now: Now = broker.clock.now()
        family = families.family
        self._members = family("kafka_consumergroup_members", "Members of the group.")
        self._generation = family("muster_consumergroup_generation", "Generation of the group.")
        self._state_age = family(
            "muster_consumergroup_state_seconds", "For how long the group has been in its state."
        )
        self._committed = family("kafka_consumergroup_current_offset", "Committed offset.")
        self._committed_sum = family(
            "kafka_consumergroup_current_offset_sum", "Sum of the committed offsets."
        )
        self._lag = family(
            "kafka_consumergroup_lag", "Records from the committed offset to the end."
        )
        self._lag_sum = family("kafka_consumergroup_lag_sum", "Sum of the lags.")
        self._seconds = family(
            "muster_consumergroup_lag_seconds", "Age of the first unread record."
        )
        self._seconds_max = family(
            "muster_consumergroup_lag_seconds_max", "Largest age of a first unread record."
        )
        self._approximate = family(
            "muster_consumergroup_lag_seconds_approximate",
            "1 where the seconds are those of a large batch's first record.",
        )
        self._commit_age = family(
            "muster_consumergroup_commit_age_seconds", "Age of the last commit in the topic."
        )
        self._expiry = family(
            "muster_consumergroup_offsets_expire_seconds",
            "Until retention may drop the first of the group's offsets in the topic.",
        )
        self._member_lag = family("muster_consumergroup_member_lag", "Lag of the member.")
        self._member_seconds = family(
            "muster_consumergroup_member_lag_seconds", "Largest lag of the member in seconds."
        )
        self._member_partitions = family(
            "muster_consumergroup_member_partitions", "Partitions assigned to the member."
        )
        self._size = family("muster_log_size_bytes", "Size of the topic's segments.")
        self._segments = family("muster_log_segments", "Number of the topic's segments.")
        self._dirty = family(
            "muster_log_dirty_bytes", "Bytes of the compacted topic that no cleaning has seen."
        )
        self._bytes_in = family(
            "muster_topic_bytes_in_total", "Bytes of batches appended by producers.", "counter"
        )
        self._bytes_out = family(
            "muster_topic_bytes_out_total", "Bytes of batches given to consumers.", "counter"
        )
        self._partitions = family("kafka_topic_partitions", "Partitions of the topic.")
        self._end = family("kafka_topic_partition_current_offset", "End offset.")
        self._start = family("kafka_topic_partition_oldest_offset", "Start offset.")
        self._leader = family(
            "kafka_topic_partition_leader", "Broker id of the partition's leader."
        )
        self._preferred = family(
            "kafka_topic_partition_leader_is_preferred", "1 if the leader is the preferred one."
        )
        self._replicas = family("kafka_topic_partition_replicas", "Number of replicas.")
        self._in_sync = family(
            "kafka_topic_partition_in_sync_replica", "Number of replicas in sync."
        )
        self._behind = family(
            "kafka_topic_partition_under_replicated_partition", "1 if a replica is behind."
        )
        self._group = ""
        self._group_id = ""
        self._reset_topic()
        self._topic_size = self._topic_segments = self._topic_dirty = 0

    def _reset_topic(self) -> None:
        self._sum = self._behind_sum = 0
        self._oldest: float | None = None
        self._last_commit_ms = -1
        self._first_expiry_ms: int | None = None

    def begin_group(self, seen: Seen) -> None:
        """Its members, generation and the time in its state."""
        self._group = label("consumergroup", seen.group_id)
        group = seen.group
        if group is None or not self.families.has_room(3):
            return
        self._members.add(self._group, len(group.members))
        self._generation.add(self._group, group.generation_id)
        age_s = state_age_s(group, self.now)
        if age_s is not None:
            self._state_age.add(f'{self._group},state="{group.state.value}"', age_s)

    def offsets(self, lags: Sequence[PartitionLag], owners: dict[TopicPartition, Member]) -> None:
        """Committed offset, lag in records and in seconds of each."""
        has_room = self.families.has_room(3 * len(lags))
        ending = f",{label('topic', lags[0].topic)}"
        for _, partition, offset, _, _, records, seconds, approximate, at_ms, expires_ms in lags:
            self._sum += offset
            if at_ms > self._last_commit_ms:
                self._last_commit_ms = at_ms
            if expires_ms is not None and (
                self._first_expiry_ms is None or expires_ms < self._first_expiry_ms
            ):
                self._first_expiry_ms = expires_ms
            if seconds is not None and (self._oldest is None or seconds > self._oldest):
                self._oldest = seconds
            if records is not None:
                self._behind_sum += records
            if not has_room:
                continue
            labels = f'{self._group},partition="{partition}"{ending}'
            self._committed.add(labels, offset)
            if records is not None:
                self._lag.add(labels, records)
            if seconds is not None:
                self._seconds.add(labels, seconds)
                if approximate:
                    self._approximate.add(labels, 1)

    def end_topic(self, topic: str) -> None:
        """What is one a group and topic."""
        if self.families.has_room(5):
            labels = f"{self._group},{label('topic', topic)}"
            self._committed_sum.add(labels, self._sum)
            self._lag_sum.add(labels, self._behind_sum)
            if self._oldest is not None:
                self._seconds_max.add(labels, self._oldest)
            if self._last_commit_ms >= 0:
                self._commit_age.add(labels, seconds_between(self._last_commit_ms, self.now))
            if self._first_expiry_ms is not None:
                left_ms = max(0, self._first_expiry_ms - self.now.wall_ms)
                self._expiry.add(labels, left_ms / 1000)
        self._reset_topic()

    def members(self, lags: Sequence[MemberLag]) -> None:
        """Each member's lag."""
        for lag in lags:
            if not self.families.has_room(3):
                continue
            member = lag.member
            labels = (
                f"{self._group},{label('member', member.member_id)},"
                f"{label('client', member.client_id)},{label('host', member.client_host)}"
            )
            self._member_partitions.add(labels, lag.partitions)
            self._member_lag.add(labels, lag.records)
            if lag.seconds is not None:
                self._member_seconds.add(labels, lag.seconds)

    def end_group(self) -> None:
        """Nothing more."""

    def partitions(self, entry: TopicLogs, logs: Sequence[PartitionLog]) -> None:
        """Offsets and replicas of each partition."""
        cleaning = self.broker.cleaning
        topic = label("topic", entry.topic.name)
        node_id = self.broker.registry.node_id
        has_room = self.families.has_room(7 * len(logs))
        for log in logs:
            self._topic_size += log.size_bytes
            self._topic_segments += len(log.segments)
            if log.config.compacts:
                self._topic_dirty += cleaning.dirty_bytes(log)
            if not has_room:
                continue
            labels = f'partition="{log.partition}",{topic}'
            self._end.add(labels, log.high_watermark)
            self._start.add(labels, log.log_start_offset)
            self._leader.add(labels, node_id)
            self._preferred.add(labels, 1)
            self._replicas.add(labels, 1)
            self._in_sync.add(labels, 1)
            self._behind.add(labels, 0)

    def topic(self, entry: TopicLogs) -> None:
        """What is one a topic."""
        if self.families.has_room(6):
            topic = label("topic", entry.topic.name)
            self._partitions.add(topic, len(entry.logs))
            self._size.add(topic, self._topic_size)
            self._segments.add(topic, self._topic_segments)
            self._bytes_in.add(topic, entry.bytes_in)
            self._bytes_out.add(topic, entry.bytes_out)
            if entry.logs and entry.logs[0].config.compacts:
                self._dirty.add(topic, self._topic_dirty)
        self._topic_size = self._topic_segments = self._topic_dirty = 0


def state_age_s(group: Group, now: Now) -> float | None:
    """How long the group has been in its state; None where a load did not find it."""
    if group.state_since_ms:
        return max(0, now.mono_ms - group.state_since_ms) / 1000
    if group.state_timestamp_ms < 0:
        return None
    return seconds_between(group.state_timestamp_ms, now)


def seconds_between(wall_ms: int, now: Now) -> float:
    """From a wall time to now, at least 0."""
    return max(0, now.wall_ms - wall_ms) / 1000
