"""Computes the lag of groups in records and in seconds, by partition and by member.

The lag in records is the log end offset minus the committed offset, as in Apache's tools.
Transaction markers also have offsets. A client that commits its position has no lag after a marker.
A client that commits the offset after its last record has a lag of one record and 0 seconds if a
marker follows.

The lag in records needs only the cache of committed offsets and the log end offsets. The lag in
seconds is the age of the first unread record, which must be read from the log.
broker/metrics/record_times.py looks up the record's timestamp. It keeps the timestamp until the
committed offset moves or the log start offset passes the record. Before the lookup, the lag in
seconds is unknown, not 0. If a group commits faster than records are looked up, the last known age
is used.

In a cluster, another broker may lead the partition. If this broker has an in-sync replica, it uses
the log of this replica. Otherwise it requests the log start and end offsets from the leader, but
not the ages of records. These offsets may be older than a commit. A committed offset above the
known end offset then counts as the end offset, until the broker knows a newer end offset.

`/metrics`, `/api` and the web page use this module. Its code runs in the event loop's thread. Long
work is an iterator, so that the caller can pause between two blocks of partitions.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from broker.cores.groups.runtime import GroupRuntime, HostedGroups
from broker.cores.hosted_shard import LOADED
from broker.metrics.record_times import Key, RecordTimes
from broker.time import Time
from broker.topics.logs import LogManager
from broker.topics.partition import Partition
from coordinator.expiring import condition_of
from coordinator.read_only import GroupView, MemberView
from offsets.cache import FetchedColumns
from offsets.expiry import ExpiryRule, GroupCondition, expires_at, rule_for
from protocol.consumer_protocol import CONSUMER, assigned_partitions
from protocol.errors import NONE, ProtocolError

if TYPE_CHECKING:
    from broker.cluster.topics.remote_end_offsets import RemoteEndOffsets

BLOCK = 128
"""The maximum number of partitions whose lag one step computes."""

_made: Callable[..., PartitionLag] = tuple.__new__
"""Creates a PartitionLag from a tuple, in half the time of the constructor."""

_NOWHERE: Mapping[int, Partition] = {}

TopicPartition = tuple[str, int]
Commits = Iterable[tuple[int, int, int, int]]
"""The partition, offset, commit timestamp and expire timestamp of each commit."""
ByTopic = Mapping[str, Mapping[int, "PartitionLag"]]
"""The lags of a group, by topic and partition."""


class PartitionLag(NamedTuple):
    """The lag of a group in one partition. Fields that are unknown are None."""

    topic: str
    partition: int
    offset: int
    log_start_offset: int | None
    """The log start offset of the partition. Both the log start offset and the log end offset are
    None if the partition does not exist, or if its leader has not yet reported them."""
    log_end_offset: int | None
    records: int | None
    """The number of records from the committed offset, or from the log start offset if that is
    higher, to the log end offset. It is at least 0."""
    age_ms: int | None
    """The age of the first unread record in ms; 0 if all records are read; None if it has not been
    looked up."""
    approximate: bool
    """True if ``age_ms`` is the age of the large batch that has the first unread record."""
    committed_ms: int
    """The wall time of the commit."""
    expires_ms: int | None
    """The wall time in ms after which the offset may expire, unless the group becomes active
    before. None if the offset does not expire."""

    @property
    def lag(self) -> int | None:
        """The lag in records; negative if the committed offset is above the log end, as in
        Kafka."""
        if self.log_end_offset is None or self.offset <= self.log_end_offset:
            return self.records
        return self.log_end_offset - self.offset

    @property
    def lost(self) -> int:
        """The number of records that were deleted before the group read them. ``lag`` and
        ``records`` do not include them."""
        start = self.log_start_offset
        return 0 if start is None else max(0, start - self.offset)

    @property
    def seconds(self) -> float | None:
        return None if self.age_ms is None else self.age_ms / 1000


class MemberLag(NamedTuple):
    """The total lag of one member in all its partitions."""

    member: MemberView
    partitions: int
    """The number of partitions that are assigned to the member."""
    committed: int
    topics: Mapping[str, int]
    """The number of the member's partitions, by topic."""
    records: int
    seconds: float | None
    """The largest known lag in seconds of the member's partitions; None if no lag is known."""


class Lags:
    """Computes the lag of this broker's groups. Only the event loop's thread may use this class."""

    def __init__(
        self,
        groups: GroupRuntime,
        logs: LogManager,
        time: Time,
        elsewhere: RemoteEndOffsets | None = None,
    ) -> None:
        """``elsewhere`` has the end offsets of partitions that other brokers lead; None for a
        standalone broker."""
        self.groups = groups
        self.logs = logs
        self.time = time
        self._elsewhere = elsewhere
        self.times = RecordTimes(time.real, self._live)

    def _live(self) -> int:
        return sum(hosted.core.view.offsets.count() for hosted in self.groups.hosted_shards)

    # -- the logs

    def here(self, topic: str) -> Mapping[int, Partition]:
        """Returns those partitions of a topic, by index, whose replica on this broker is the leader
        or in sync."""
        if self._elsewhere is not None:
            return self._elsewhere.trusted(topic)
        entry = self.logs.topics.get(topic)
        return _NOWHERE if entry is None else entry.by_index

    def topic_id(self, topic: str) -> bytes:
        """Returns the id of a topic, or its name if it has no id; b"" for an unknown topic."""
        if self._elsewhere is not None:
            return self._elsewhere.topic_id(topic)
        entry = self.logs.topics.get(topic)
        return b"" if entry is None else entry.topic.topic_id

    def high_watermarks(self, topic: str) -> array[int]:
        """Returns the high watermark of each partition, by index; 0 if it is unknown."""
        if self._elsewhere is not None:
            return self._elsewhere.high_watermarks(topic)
        entry = self.logs.topics.get(topic)
        return array(
            "q", [] if entry is None else [each.high_watermark for each in entry.partitions]
        )

    def ends(
        self, topic: str, partition: int, at: Partition | None, offset: int, committed_ms: int
    ) -> tuple[int, int] | None:
        """Returns the log start offset and the log end offset for the lag of a commit; None if they
        are unknown.

        ``at`` is this broker's replica (see `here`). If the committed offset is not above the
        replica's high watermark, the caller can read both from ``at`` without this call.
        """
        if at is not None and (self._elsewhere is None or offset <= at.high_watermark):
            return at.log.log_start_offset, at.high_watermark
        if self._elsewhere is None:
            return None
        if at is not None and at.serving_error(-1) == NONE:
            return at.log.log_start_offset, at.high_watermark
        said = self._elsewhere.ends(topic, partition)
        if said is None:
            return None if at is None else (at.log.log_start_offset, offset)
        start, end = said.start, said.end
        if at is not None:
            start, end = max(start, at.log.log_start_offset), max(end, at.high_watermark)
        if offset > end and said.asked_ms <= committed_ms:
            end = offset  # the commit is newer
        return start, end

    # -- queries

    def records_of(self, hosted: HostedGroups, group: GroupView) -> int | None:
        """Returns the number of records that a group has not read, over all its committed offsets.

        Returns None if the group has no committed offset. Only its members then know where they
        begin to read.
        """
        fetched = hosted.core.view.offsets.fetch_all(group.group_id)
        if not fetched:
            return None
        return sum([self._records(each) for each in fetched])

    def in_topic(self, hosted: HostedGroups, group_id: str, topic: str) -> tuple[int, int] | None:
        """Returns the number of partitions of a topic in which the group has a commit, and their
        total lag in records; None without a commit."""
        if topic not in hosted.core.view.offsets.topics(group_id):
            return None
        for fetched in hosted.core.view.offsets.fetch_all(group_id):
            if fetched.topic == topic:
                return len(fetched.partitions), self._records(fetched)
        return None

    def _records(self, fetched: FetchedColumns) -> int:
        here = self.here(fetched.topic)
        behind = 0
        for index, offset in zip(fetched.partitions, fetched.offsets, strict=True):
            partition = here.get(index)
            if partition is not None:
                first = max(offset, partition.log.log_start_offset)
                behind += max(0, partition.high_watermark - first)
            elif self._elsewhere is not None:
                ends = self._elsewhere.ends(fetched.topic, index)
                behind += 0 if ends is None else max(0, ends.end - max(offset, ends.start))
        return behind

    def of_group(self, hosted: HostedGroups, group_id: str) -> Iterator[PartitionLag]:
        """Yields the lag at each committed offset of a group, by topic, then partition."""
        for topic in list(hosted.core.view.offsets.topics(group_id)):
            yield from self.of_topic(hosted, group_id, topic)

    def of_topic(self, hosted: HostedGroups, group_id: str, topic: str) -> Iterator[PartitionLag]:
        """Yields the lag at each committed offset of a group in one topic."""
        for block in self.blocks(hosted, group_id, topic):
            yield from block

    def blocks(
        self, hosted: HostedGroups, group_id: str, topic: str
    ) -> Iterator[list[PartitionLag]]:
        """Yields the lags in one topic in blocks of at most BLOCK partitions, and queues lookups of
        unknown ages.

        Later blocks include changes that happen during the iteration.
        """
        for block in self.blocks_or_none(hosted, group_id, topic, ask=True, whole=True):
            assert block is not None
            yield block

    def blocks_or_none(
        self, hosted: HostedGroups, group_id: str, topic: str, *, ask: bool, whole: bool
    ) -> Iterator[list[PartitionLag] | None]:
        """Yields the lags of a group in one topic, in blocks of at most BLOCK partitions. Yields
        None and ends when a lag in seconds is not known yet, unless ``whole`` is True. If ``ask``
        is False, the caller must have called the method `ask` for the group before."""
        rule = expiry_rule(hosted.core.view.groups.get(group_id))
        if rule is not None and topic in rule.kept_topics:
            rule = None
        for commits in hosted.core.view.offsets.commits(group_id, topic, BLOCK):
            rows = list(commits) if ask else commits
            if ask:
                self._ask(group_id, topic, rows)
            block = self._block(group_id, topic, rows, rule, whole)
            if block is None:
                yield None
                return
            if block:
                yield block

    def ask(self, hosted: HostedGroups, group_id: str) -> Iterator[int]:
        """Queues lookups of the unknown timestamps of a group's first unread records.
        ``times.settled()`` waits for the results.

        The method runs in steps of at most BLOCK offsets, and yields the number of offsets after
        each step. It is five times as fast as `blocks`, which computes the lag too.
        """
        for topic in list(hosted.core.view.offsets.topics(group_id)):
            for commits in hosted.core.view.offsets.commits(group_id, topic, BLOCK):
                yield self._ask(group_id, topic, commits)

    def _ask(self, group_id: str, topic: str, commits: Commits) -> int:
        here = self.here(topic)
        topic_id = self.topic_id(topic)
        now_ms = self.time.now().wall_ms
        recent = self.times.recent
        count = 0
        unknown: list[Key] = []
        for partition, offset, _, _ in commits:
            count += 1
            at = here.get(partition)
            if at is not None:
                start = at.log.log_start_offset
                first = offset if offset > start else start
                if first < at.high_watermark:
                    key = (topic_id, partition, first)
                    time = recent.get(key)
                    if time is None or 0 < time.none_below < at.high_watermark:
                        unknown.append(key)
        if unknown:
            self.times.ask(group_id, unknown, here, now_ms)
        return count

    def _block(
        self, group_id: str, topic: str, commits: Commits, rule: ExpiryRule | None, whole: bool
    ) -> list[PartitionLag] | None:
        """Returns the lag of a group in some partitions of one topic. A scrape calls this method
        more often than any other method.

        If ``whole`` is False, returns None as soon as the age of an unread record is unknown.
        """
        now_ms = self.time.now().wall_ms
        retention_ms = self.groups.settings.core.offsets_retention_ms
        here = self.here(topic)
        topic_id = self.topic_id(topic)
        times = self.times
        recent = times.recent
        expires_ms: int | None = None
        stamped_ms = stamped_asked_ms = -2
        lags: list[PartitionLag] = []
        for partition, offset, committed_ms, asked_ms in commits:
            # offsets of one commit agree
            if committed_ms != stamped_ms or asked_ms != stamped_asked_ms:
                stamped_ms, stamped_asked_ms = committed_ms, asked_ms
                if rule is not None:
                    expires_ms = expires_at(rule, committed_ms, asked_ms, retention_ms=retention_ms)
            at = here.get(partition)
            start = end = -1
            if at is not None:
                start, end = at.log.log_start_offset, at.high_watermark
            if offset > end:
                ends = self.ends(topic, partition, at, offset, committed_ms)
                if ends is None:
                    unknown = None, None, None, None, False, committed_ms, expires_ms
                    lags.append(PartitionLag(topic, partition, offset, *unknown))
                    continue
                start, end = ends
            first = offset if offset > start else start
            age_ms: int | None = 0
            approximate = False
            records = end - first if end > first else 0
            if records:
                key = (topic_id, partition, first)
                time = recent.get(key) or times.known(key)
                at_ms = now_ms
                if time is None:
                    if not whole and at is not None:
                        return None
                    time, at_ms = times.before(group_id, key, now_ms)
                timestamp_ms, approximate = time.timestamp_ms, time.approximate
                age_ms = None
                if timestamp_ms >= 0:
                    age_ms = at_ms - timestamp_ms if timestamp_ms < at_ms else 0
                elif time.none_below >= end:
                    age_ms = 0
            lags.append(
                _made(
                    PartitionLag,
                    (topic, partition, offset, start, end, records, age_ms, approximate,
                     committed_ms, expires_ms),
                )
            )  # fmt: skip
        return lags

    def of_member(self, group: GroupView, member: MemberView, lags: ByTopic) -> MemberLag | None:
        """Returns the lag of a member, from the lags of its group. Returns None if the assignment
        is not in the format of consumers."""
        owned = self.owned_by(group, member)
        if owned is None:
            return None
        mine: list[PartitionLag] = []
        for topic, partitions in owned.items():
            of_topic = lags.get(topic)
            if of_topic is not None:
                mine += [of_topic[each] for each in partitions if each in of_topic]
        ages_ms = [lag.age_ms for lag in mine if lag.age_ms is not None]
        records = sum([lag.records or 0 for lag in mine])
        topics = {topic: len(partitions) for topic, partitions in owned.items()}
        oldest = max(ages_ms) / 1000 if ages_ms else None
        return MemberLag(member, sum(topics.values()), len(mine), topics, records, oldest)

    @staticmethod
    def owned_by(group: GroupView, member: MemberView) -> dict[str, list[int]] | None:
        """Returns the partitions that are assigned to a member, by topic. Returns None if the
        assignment is not in the format of consumers."""
        if group.protocol_type != CONSUMER:
            return None
        try:
            return assigned_partitions(member.assignment)
        except ProtocolError:
            return None


def readable(groups: GroupRuntime) -> list[HostedGroups]:
    """Returns the loaded shards of groups."""
    return [each for each in groups.hosted_shards if each.phase in LOADED]


def expiry_rule(group: GroupView | None) -> ExpiryRule | None:
    """Returns the rule by which a group's offsets expire; None if they do not expire in the group's
    current state."""
    return rule_for(GroupCondition() if group is None else condition_of(group))
