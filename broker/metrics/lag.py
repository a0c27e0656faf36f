"""The lag of groups: in records and seconds, by partition and by member.

Lag in records is what Apache's tools say: the difference of two offsets, and a transaction's marker
has one. A client that commits its position is behind no marker; one that commits the offset behind
its last record is one behind, and zero seconds, since nothing is left to read.

Lag in records needs only the cache and the logs' ends. Lag in seconds is the age of the first
unread record, which only the log knows: broker/metrics/record_times.py looks it up, and keeps it
until the commit moves (or the log's start passes it). Until then it is unknown, never 0; a group
that commits faster than records are looked up keeps the age that was found last.

In a cluster the log may be another broker's. Where this one has a replica in sync, that tells; else
the leader is asked, which says where its log begins and ends and not how old its records are. What
either knows may be older than a commit: an offset above it is believed until newer ends are known.

`/metrics`, `/api` and the page use this. Everything here is called in the loop's thread, and long
work is an iterator, so that its caller can stop between two blocks of partitions.
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
"""Partitions of which the lag is worked out at once."""

_made: Callable[..., PartitionLag] = tuple.__new__
"""A named tuple in half the time that its own constructor takes."""

_NOWHERE: Mapping[int, Partition] = {}

TopicPartition = tuple[str, int]
Commits = Iterable[tuple[int, int, int, int]]
"""Partition, offset, commit timestamp and expire timestamp of each, as columns give them."""
ByTopic = Mapping[str, Mapping[int, "PartitionLag"]]
"""The lags of a group by topic and partition."""


class PartitionLag(NamedTuple):
    """How far one group is behind in one partition; None for what is not known."""

    topic: str
    partition: int
    offset: int
    """Committed."""
    log_start_offset: int | None
    """None, as the end: there is no such partition, or its leader has not said it yet."""
    log_end_offset: int | None
    records: int | None
    """From the committed offset, or the log's start if that is later, to the end; at least 0."""
    age_ms: int | None
    """Age of the first unread record; 0 when there is none, None until it has been looked up."""
    approximate: bool
    """The age is that of the first record of its (large) batch."""
    committed_ms: int
    """Wall time of the commit."""
    expires_ms: int | None
    """Wall time from which on retention may drop the offset if nothing happens; None: never."""

    @property
    def lag(self) -> int | None:
        """``records``; negative where the offset is above the end, as in Apache's tool."""
        if self.log_end_offset is None or self.offset <= self.log_end_offset:
            return self.records
        return self.log_end_offset - self.offset

    @property
    def lost(self) -> int:
        """Records below the log's start that were never read; they are in no lag."""
        start = self.log_start_offset
        return 0 if start is None else max(0, start - self.offset)

    @property
    def seconds(self) -> float | None:
        """``age_ms`` in seconds."""
        return None if self.age_ms is None else self.age_ms / 1000


class MemberLag(NamedTuple):
    """How far one member is behind in all that it is assigned."""

    member: MemberView
    partitions: int
    """How many it owns."""
    committed: int
    """How many of them have a committed offset."""
    topics: Mapping[str, int]
    """How many it owns of each topic."""
    records: int
    seconds: float | None
    """The largest of those known; None when none is."""


class Lags:
    """What this broker knows of its groups' lag; made once, used from the loop's thread."""

    def __init__(
        self,
        groups: GroupRuntime,
        logs: LogManager,
        time: Time,
        elsewhere: RemoteEndOffsets | None = None,
    ) -> None:
        """``elsewhere``: what other brokers lead, in a cluster."""
        self.groups = groups
        self.logs = logs
        self.time = time
        self._elsewhere = elsewhere
        self.times = RecordTimes(time.real, self._live)

    def _live(self) -> int:
        return sum(hosted.core.view.offsets.count() for hosted in self.groups.hosted_shards)

    # -- the logs

    def here(self, topic: str) -> Mapping[int, Partition]:
        """The partitions of a topic whose replica here tells where they end."""
        if self._elsewhere is not None:
            return self._elsewhere.trusted(topic)
        entry = self.logs.topics.get(topic)
        return _NOWHERE if entry is None else entry.by_index

    def topic_id(self, topic: str) -> bytes:
        """That of a topic, or its name where it has none; b"" where there is no topic."""
        if self._elsewhere is not None:
            return self._elsewhere.topic_id(topic)
        entry = self.logs.topics.get(topic)
        return b"" if entry is None else entry.topic.topic_id

    def high_watermarks(self, topic: str) -> array[int]:
        """Those of all its partitions, by index; 0 where one is not known."""
        if self._elsewhere is not None:
            return self._elsewhere.high_watermarks(topic)
        entry = self.logs.topics.get(topic)
        return array(
            "q", [] if entry is None else [each.high_watermark for each in entry.partitions]
        )

    def ends(
        self, topic: str, partition: int, at: Partition | None, offset: int, committed_ms: int
    ) -> tuple[int, int] | None:
        """Where a log begins and ends, at a commit; None where that is not known.

        ``at`` is the replica here, as `here` has it. It may be asked for any commit; who knows one
        here that ends at or above the offset need not ask.
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

    # -- what is asked

    def records_of(self, hosted: HostedGroups, group: GroupView) -> int | None:
        """Records that a group has not read: the sum over its committed offsets.

        None where it has committed nothing: from where on it reads is for its members to know.
        """
        fetched = hosted.core.view.offsets.fetch_all(group.group_id)
        if not fetched:
            return None
        return sum([self._records(each) for each in fetched])

    def in_topic(self, hosted: HostedGroups, group_id: str, topic: str) -> tuple[int, int] | None:
        """(partitions committed, records of lag) of a group in one topic; None if it has none."""
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
        """Every committed offset of a group, topic by topic, partitions ascending."""
        for topic in list(hosted.core.view.offsets.topics(group_id)):
            yield from self.of_topic(hosted, group_id, topic)

    def of_topic(self, hosted: HostedGroups, group_id: str, topic: str) -> Iterator[PartitionLag]:
        """Those in one topic."""
        for block in self.blocks(hosted, group_id, topic):
            yield from block

    def blocks(
        self, hosted: HostedGroups, group_id: str, topic: str
    ) -> Iterator[list[PartitionLag]]:
        """Those in one topic, at most BLOCK at a time; what changes between two is seen so.

        Ages that are not known are looked up from now on.
        """
        for block in self.blocks_or_none(hosted, group_id, topic, ask=True, whole=True):
            assert block is not None
            yield block

    def blocks_or_none(
        self, hosted: HostedGroups, group_id: str, topic: str, *, ask: bool, whole: bool
    ) -> Iterator[list[PartitionLag] | None]:
        """The same; unless ``whole``, None at an age that is not known, and that is the end.

        Unless ``ask``, which is for who has called `ask` before, none is looked up.
        """
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
        """Has the ages of a group looked up that are not known; ``times.settled()`` awaits them.

        A fifth of what `blocks` costs. Yields how many offsets each step looked at, at most BLOCK.
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
        """The lag of some commits in one topic: of all here, what a scrape does most often.

        Unless ``whole``, None as soon as an age is not known.
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
            if committed_ms != stamped_ms or asked_ms != stamped_asked_ms:  # one commit's agree
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
        """What a member of a "consumer" group is behind, from the lags of its group.

        None for one whose assignment is in another form.
        """
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
        """The partitions of a member by topic; None when its bytes are not a consumer's."""
        if group.protocol_type != CONSUMER:
            return None
        try:
            return assigned_partitions(member.assignment)
        except ProtocolError:
            return None


def readable(groups: GroupRuntime) -> list[HostedGroups]:
    """The shards whose groups can be read now."""
    return [each for each in groups.hosted_shards if each.phase in LOADED]


def expiry_rule(group: GroupView | None) -> ExpiryRule | None:
    """The rule by which a group's offsets expire now; None where they do not."""
    return rule_for(GroupCondition() if group is None else condition_of(group))
