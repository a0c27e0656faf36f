"""Writes the series with labels for group, member, topic or partition: kafka_exporter's series and
Muster's own.

This module only writes what other modules have counted. docs/operate/metrics.md lists the names,
labels and meanings.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import gt, lt
from typing import cast

from broker.metrics.lag import MemberLag, PartitionLag, TopicPartition
from broker.metrics.scan import Seen, View, is_led
from broker.metrics.sources import Sources
from broker.metrics.text_format import Families, label
from broker.topics.partition import Partition
from broker.topics.topic_logs import TopicLogs
from coordinator.read_only import GroupView, MemberView
from protocol.now import Now
from verdicts.spelling import plain_host

PARTS = [f".{each:03d}" for each in range(1000)]
"""The decimals of a number of seconds, for each number of milliseconds. They are precomputed, since
formatting a float takes twice as long."""


class NativeView(View):
    """Writes the series under kafka_exporter's names and Muster's own names."""

    def __init__(self, sources: Sources, families: Families) -> None:
        self.sources = sources
        self.families = families
        self.now: Now = sources.time.now()
        family = families.family
        self._members = family("kafka_consumergroup_members", "Members of the group.")
        self._verdict = family("muster_group_verdict", "1 for the current verdict of the group.")
        self._reads_nothing = family(
            "muster_group_reads_nothing_seconds",
            "How long no member of the group has read, although the group has unread records.",
        )
        self._outside = family(
            "muster_group_offset_out_of_range", "1 if the committed offset is outside the log."
        )
        self._generation = family("muster_consumergroup_generation", "Generation of the group.")
        self._state_age = family(
            "muster_consumergroup_state_seconds", "Time since the group entered its current state."
        )
        self._committed = family("kafka_consumergroup_current_offset", "Committed offset.")
        self._committed_sum = family(
            "kafka_consumergroup_current_offset_sum",
            "Sum of the group's committed offsets in the topic.",
        )
        self._lag = family(
            "kafka_consumergroup_lag", "Records from the committed offset to the log end offset."
        )
        self._lag_sum = family(
            "kafka_consumergroup_lag_sum", "Sum of the lags of the topic's partitions."
        )
        self._seconds = family(
            "muster_consumergroup_lag_seconds", "Age of the first unread record."
        )
        self._seconds_max = family(
            "muster_consumergroup_lag_seconds_max", "Age of the group's oldest unread record."
        )
        self._approximate = family(
            "muster_consumergroup_lag_seconds_approximate",
            "1 if the lag in seconds is the age of the first unread batch, not of the record.",
        )
        self._commit_age = family(
            "muster_consumergroup_commit_age_seconds",
            "Age of the group's last commit for the topic.",
        )
        self._expiry = family(
            "muster_consumergroup_offsets_expire_seconds",
            "Time until the group's next offset in the topic may expire.",
        )
        self._member_lag = family("muster_consumergroup_member_lag", "Lag of the member.")
        self._member_seconds = family(
            "muster_consumergroup_member_lag_seconds",
            "Age of the oldest unread record of the member.",
        )
        self._member_partitions = family(
            "muster_consumergroup_member_partitions", "Partitions assigned to the member."
        )
        self._topic_families()
        self._group = ""
        self._group_id = ""
        self._reset_topic()
        self._topic_size = self._topic_segments = self._topic_dirty = 0

    def _topic_families(self) -> None:
        family = self.families.family
        self._size = family("muster_log_size_bytes", "Size of the topic's segments.")
        self._segments = family("muster_log_segments", "Number of the topic's segments.")
        self._dirty = family(
            "muster_log_dirty_bytes", "Bytes of the compacted topic that are not cleaned yet."
        )
        self._bytes_in = family(
            "muster_topic_bytes_in_total", "Bytes of batches appended by producers.", "counter"
        )
        self._bytes_out = family(
            "muster_topic_bytes_out_total", "Bytes of batches sent to consumers.", "counter"
        )
        self._partitions = family("kafka_topic_partitions", "Partitions of the topic.")
        self._end = family(
            "kafka_topic_partition_current_offset", "Log end offset of the partition."
        )
        self._start = family(
            "kafka_topic_partition_oldest_offset", "Log start offset of the partition."
        )
        self._leader = family(
            "kafka_topic_partition_leader", "Broker id of the partition's leader."
        )
        self._preferred = family(
            "kafka_topic_partition_leader_is_preferred", "1 if the leader is the preferred replica."
        )
        self._replicas = family("kafka_topic_partition_replicas", "Number of replicas.")
        self._in_sync = family(
            "kafka_topic_partition_in_sync_replica", "Number of replicas in sync."
        )
        self._held_back = family(
            "muster_partition_held_back_records",
            "Number of offsets from the last stable offset to the high watermark; open"
            " transactions block these records.",
        )
        self._held_seconds = family(
            "muster_partition_held_back_seconds",
            "Age of the oldest open transaction of the partition.",
        )
        self._behind = family(
            "kafka_topic_partition_under_replicated_partition",
            "1 if a replica of the partition is out of sync.",
        )

    def _reset_topic(self) -> None:
        self._sum = self._behind_sum = 0
        self._oldest_ms: int | None = None
        self._last_commit_ms = -1
        self._first_expiry_ms: int | None = None

    def begin_group(self, seen: Seen) -> None:
        """Adds the group's verdict, number of members, generation and age of its state."""
        self._group = label("consumergroup", seen.group_id)
        group = seen.group
        if group is None or not self.families.has_room(5):
            return
        held = self.sources.verdicts.of(seen.hosted, group)
        self._verdict.add(f'{self._group},verdict="{held.verdict}"', 1)
        since_ms = held.reads_nothing_since_ms
        seconds = 0.0 if since_ms is None else max(0, self.now.wall_ms - since_ms) / 1000
        self._reads_nothing.add(self._group, seconds)
        self._members.add(self._group, len(group.members))
        self._generation.add(self._group, group.generation_id)
        age_s = state_age_s(group, self.now)
        if age_s is not None:
            self._state_age.add(f'{self._group},state="{group.state.value}"', age_s)

    def offsets(
        self,
        lags: Sequence[PartitionLag],
        owners: dict[TopicPartition, MemberView],  # noqa: ARG002 - other views need them
    ) -> None:
        topics, partitions, offsets, starts, ends, records, ages, inexact, committed, expires = zip(
            *lags, strict=True
        )
        self._sum += sum(offsets)
        self._behind_sum += sum(known(records))
        self._last_commit_ms = max(self._last_commit_ms, *committed)
        self._first_expiry_ms = least([self._first_expiry_ms, *expires])
        self._oldest_ms = max(known([self._oldest_ms, *ages]), default=None)
        if not self.families.has_room(3 * len(lags)):
            return
        if None in ends or any(map(lt, offsets, starts)) or any(map(gt, offsets, ends)):
            self._add_outside(lags)
            records = tuple([lag.lag for lag in lags])
        start, end = f'{{{self._group},partition="', f'",{label("topic", topics[0])}}} '
        places = [f"{start}{partition}{end}" for partition in partitions]
        name = "kafka_consumergroup_current_offset"
        self._committed.add_lines(
            [f"{name}{at}{value}\n" for at, value in zip(places, offsets, strict=True)]
        )
        name = "kafka_consumergroup_lag"
        self._lag.add_lines(
            [
                f"{name}{at}{value}\n"
                for at, value in zip(places, records, strict=True)
                if value is not None
            ]
        )
        name = "muster_consumergroup_lag_seconds"
        self._seconds.add_lines(
            [
                f"{name}{at}{value // 1000}{PARTS[value % 1000]}\n"
                for at, value in zip(places, ages, strict=True)
                if value is not None
            ]
        )
        if True in inexact:
            name = "muster_consumergroup_lag_seconds_approximate"
            self._approximate.add_lines(
                [f"{name}{at}1\n" for at, value in zip(places, inexact, strict=True) if value]
            )

    def _add_outside(self, lags: Sequence[PartitionLag]) -> None:
        for lag in lags:
            is_above = lag.lag is not None and lag.lag < 0
            if (is_above or lag.lost) and self.families.has_room(1):
                side = "above" if is_above else "below"
                at = f'partition="{lag.partition}",{label("topic", lag.topic)},side="{side}"'
                self._outside.add(f"{self._group},{at}", 1)

    def end_topic(self, topic: str) -> None:
        if self.families.has_room(5):
            labels = f"{self._group},{label('topic', topic)}"
            self._committed_sum.add(labels, self._sum)
            self._lag_sum.add(labels, self._behind_sum)
            if self._oldest_ms is not None:
                self._seconds_max.add(labels, self._oldest_ms / 1000)
            if self._last_commit_ms >= 0:
                self._commit_age.add(labels, seconds_between(self._last_commit_ms, self.now))
            if self._first_expiry_ms is not None:
                left_ms = max(0, self._first_expiry_ms - self.now.wall_ms)
                self._expiry.add(labels, left_ms / 1000)
        self._reset_topic()

    def members(self, lags: Sequence[MemberLag]) -> None:
        for lag in lags:
            if not self.families.has_room(3):
                continue
            member = lag.member
            host = plain_host(member.client_host)
            labels = (
                f"{self._group},{label('member', member.member_id)},"
                f"{label('client', member.client_id)},{label('host', host)}"
            )
            self._member_partitions.add(labels, lag.partitions)
            self._member_lag.add(labels, lag.records)
            if lag.seconds is not None:
                self._member_seconds.add(labels, lag.seconds)

    def end_group(self) -> None:
        """Does nothing, since this view has no series that sum up a group."""

    def partitions(self, entry: TopicLogs, partitions: Sequence[Partition]) -> None:
        cleaned = self.sources.cleaning.checkpoint
        topic = label("topic", entry.topic.name)
        node_id, lso_blockers = self.sources.registry.node_id, self.sources.lso_blockers
        cluster, in_cluster = self.sources.cluster, self.sources.member is not None
        has_room = self.families.has_room(7 * len(partitions))
        for partition in partitions:
            log = partition.log
            self._topic_size += log.size_bytes
            self._topic_segments += len(log.segments)
            if log.config.compacts:
                self._topic_dirty += cleaned.dirty_bytes(log)
            if not has_room or (in_cluster and not is_led(partition)):
                continue  # its leader exports it
            labels = f'partition="{partition.index}",{topic}'
            self._end.add(labels, partition.high_watermark)
            self._start.add(labels, log.log_start_offset)
            view = cluster.partition(partition.topic, partition.index) if in_cluster else None
            replicas, isr = ((node_id,), (node_id,)) if view is None else (view.replicas, view.isr)
            self._leader.add(labels, node_id)
            self._preferred.add(labels, int(replicas[0] == node_id))
            self._replicas.add(labels, len(replicas))
            self._in_sync.add(labels, len(isr))
            self._behind.add(labels, int(len(isr) < len(replicas)))
            blocker = lso_blockers.of(partition)
            if blocker is not None and self.families.has_room(2):
                stable = partition.last_stable_offset
                self._held_back.add(labels, partition.high_watermark - stable)
                self._held_seconds.add(labels, seconds_between(blocker.since_ms, self.now))

    def topic(self, entry: TopicLogs) -> None:
        if self.families.has_room(6):
            topic = label("topic", entry.topic.name)
            first = entry.partition(0)
            if first is not None and is_led(first):
                self._partitions.add(topic, entry.topic.partitions)
            self._size.add(topic, self._topic_size)
            self._segments.add(topic, self._topic_segments)
            self._bytes_in.add(topic, entry.bytes_in)
            self._bytes_out.add(topic, entry.bytes_out)
            if entry.partitions and entry.partitions[0].log.config.compacts:
                self._dirty.add(topic, self._topic_dirty)
        self._topic_size = self._topic_segments = self._topic_dirty = 0


def state_age_s(group: GroupView, now: Now) -> float | None:
    """Returns the time in seconds for which the group has been in its state; None if the log does
    not say since when."""
    if group.state_since_ms:
        return max(0, now.mono_ms - group.state_since_ms) / 1000
    if group.state_timestamp_ms < 0:
        return None
    return seconds_between(group.state_timestamp_ms, now)


def seconds_between(wall_ms: int, now: Now) -> float:
    """Returns the time in seconds from the wall time ``wall_ms`` to ``now``; 0 if ``wall_ms`` is
    later."""
    return max(0, now.wall_ms - wall_ms) / 1000


def least(values: Sequence[int | None]) -> int | None:
    """Returns the lowest number in ``values``; None if all are None."""
    return min(known(values), default=None)


def known(values: Sequence[int | None]) -> Sequence[int]:
    if None in values:
        return [value for value in values if value is not None]
    return cast(Sequence[int], values)
