"""How far behind groups are: in records, in seconds, by partition and by member.

Records of lag need nothing but the cache and the logs' ends. Seconds of lag are the age of the
first unread record, which only the log knows: they are looked up in a thread, a few at a time, and
kept until the commit moves (or the log's start passes it). Until then they are unknown, never 0.

For `/metrics`, `/api` and the page alike; everything here is called in the loop's thread and is an
iterator, so that its caller can stop between two partitions.
"""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from broker.shard_log import ShardLog
from coordinator.expiring import condition_of
from coordinator.group import CONSUMER, Group
from coordinator.member import Member
from log.errors import CorruptLog
from log.partition_log import PartitionLog
from log.record_time import RecordTime, first_record_time
from offsets.expiry import ExpiryRule, GroupCondition, expires_at, rule_for
from protocol.consumer_protocol import assigned_partitions
from protocol.errors import ProtocolError

if TYPE_CHECKING:
    from broker.broker import Broker

LOOKUPS_PER_STEP = 64
STEP_S = 0.002
"""The thread looks for so long, or for so many records, before it rests: it holds the GIL."""
REST = 3
"""The thread rests so many times as long as a step took: a quarter of a core at most."""
WANTED_MAX = 200_000
"""Lookups that may wait; what is beyond is asked for again by the next scrape."""
KEPT_MIN = 10_000
"""So many times of records, or twice the committed offsets, are kept before the old ones go."""

Key = tuple[bytes, int, int]
"""Topic id, partition, offset of the first unread record."""
TopicPartition = tuple[str, int]


class PartitionLag(NamedTuple):
    """How far one group is behind in one partition; None for what is not known."""

    topic: str
    partition: int
    offset: int
    """Committed."""
    log_start_offset: int | None
    """None, as the end: this broker has no such partition."""
    log_end_offset: int | None
    records: int | None
    """From the committed offset, or the log's start if that is later, to the end."""
    seconds: float | None
    """Age of the first unread record; 0 when there is none, None until it has been looked up."""
    approximate: bool
    """The seconds are those of the first record of its (large) batch."""
    committed_ms: int
    """Wall time of the commit."""
    expires_ms: int | None
    """Wall time from which on retention may drop the offset if nothing happens; None: never."""


class MemberLag(NamedTuple):
    """How far one member is behind in all that it is assigned."""

    member: Member
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

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.lookups = 0
        """Records looked up since the process began."""
        self._times: dict[Key, RecordTime] = {}
        self._older: dict[Key, RecordTime] = {}
        """What has not been asked for since ``_times`` was last full; it goes when that is."""
        self._wanted: dict[Key, PartitionLog] = {}
        self._running: asyncio.Task[None] | None = None
        self._stopped = False

    @property
    def waiting(self) -> int:
        """Records still to be looked up."""
        return len(self._wanted)

    # -- what is asked

    def of_group(self, host: ShardLog, group_id: str) -> Iterator[PartitionLag]:
        """Every committed offset of a group, topic by topic, partitions ascending."""
        for topic in list(host.shard.cache.topics(group_id)):
            yield from self.of_topic(host, group_id, topic)

    def of_topic(self, host: ShardLog, group_id: str, topic: str) -> Iterator[PartitionLag]:
        """Those in one topic."""
        columns = dict(host.shard.cache.columns(group_id)).get(topic)
        if columns is None:
            return
        now_ms = self.broker.clock.now().wall_ms
        rule = expiry_rule(host.shard.groups.get(group_id))
        if rule is not None and topic in rule.kept_topics:
            rule = None
        retention_ms = self.broker.runtime.settings.groups.offsets_retention_ms
        times = self._times
        entry = self.broker.logs.topics.get(topic)
        topic_id = b"" if entry is None else entry.topic.topic_id
        for partition in columns.partitions():
            kept = columns.get(partition)
            if kept is None:  # it went since this began
                continue
            offset, _, _, committed_ms, asked_ms, _ = kept
            expires_ms = None
            if rule is not None:
                expires_ms = expires_at(rule, committed_ms, asked_ms, retention_ms=retention_ms)
            log = None if entry is None else entry.log(partition)
            if log is None:
                yield PartitionLag(
                    topic, partition, offset, None, None, None, None, False, committed_ms,
                    expires_ms,
                )  # fmt: skip
                continue
            start, end = log.log_start_offset, log.high_watermark
            first = offset if offset > start else start
            seconds: float | None = 0.0
            approximate = False
            if first < end:
                seconds = None
                key = (topic_id, partition, first)
                time = times.get(key) or self._time(key, log)
                if time is not None:
                    approximate = time.approximate
                    if time.timestamp_ms >= 0:
                        seconds = max(0, now_ms - time.timestamp_ms) / 1000
            yield PartitionLag(
                topic, partition, offset, start, end, max(0, end - first), seconds, approximate,
                committed_ms, expires_ms,
            )  # fmt: skip

    def of_members(
        self, group: Group, lags: Mapping[TopicPartition, PartitionLag]
    ) -> Iterator[MemberLag]:
        """What each member of a "consumer" group is behind, from the lags of its group.

        Nothing for members whose assignment is in another form.
        """
        for member in list(group.members.values()):
            lag = self.of_member(group, member, lags)
            if lag is not None:
                yield lag

    def of_member(
        self, group: Group, member: Member, lags: Mapping[TopicPartition, PartitionLag]
    ) -> MemberLag | None:
        """The same of one member."""
        owned = self.owned_by(group, member)
        if owned is None:
            return None
        mine = [lags[each] for each in owned if each in lags]
        seconds = [lag.seconds for lag in mine if lag.seconds is not None]
        records = sum([lag.records or 0 for lag in mine])
        topics = Counter(topic for topic, _ in owned)
        oldest = max(seconds, default=None)
        return MemberLag(member, len(owned), len(mine), topics, records, oldest)

    @staticmethod
    def owned_by(group: Group, member: Member) -> list[TopicPartition] | None:
        """The partitions that a member is assigned; None when its bytes are not a consumer's."""
        if group.protocol_type != CONSUMER:
            return None
        try:
            assigned = assigned_partitions(member.assignment)
        except ProtocolError:
            return None
        return [(topic, each) for topic, partitions in assigned.items() for each in partitions]

    # -- times of records

    def _time(self, key: Key, log: PartitionLog) -> RecordTime | None:
        """None while it is not known; it is looked up then."""
        time = self._times.get(key)
        if time is None:
            time = self._older.get(key)
            if time is not None:
                self._keep(key, time)
            elif len(self._wanted) < WANTED_MAX:
                self._wanted[key] = log
                if self._running is None and not self._stopped:
                    self._running = asyncio.get_running_loop().create_task(self._look_up())
        return time

    def _keep(self, key: Key, time: RecordTime) -> None:
        if len(self._times) >= KEPT_MIN:
            live = sum(host.shard.cache.offsets() for host in self.broker.runtime.hosts)
            if len(self._times) >= 2 * live:
                self._older, self._times = self._times, {}
        self._times[key] = time

    async def _look_up(self) -> None:
        """Works off what is wanted, with rests; ends when nothing is."""
        try:
            while self._wanted and not self._stopped:
                step = list(islice(self._wanted.items(), LOOKUPS_PER_STEP))
                began = perf_counter()
                tried, found = await asyncio.to_thread(_look_up, step)
                for key, time in found:
                    self._keep(key, time)
                for key, _ in step[:tried]:
                    del self._wanted[key]
                self.lookups += tried
                if self._wanted:
                    await asyncio.sleep(REST * (perf_counter() - began))
        finally:
            self._running = None

    async def settled(self) -> None:
        """Returns when all that has been asked for so far has been looked up."""
        while (task := self._running) is not None:
            await asyncio.wait([task])

    async def stop(self) -> None:
        """Looks nothing more up."""
        self._stopped = True
        await self.settled()


def expiry_rule(group: Group | None) -> ExpiryRule | None:
    """The rule by which a group's offsets expire now; None where they do not."""
    return rule_for(GroupCondition() if group is None else condition_of(group))


def _look_up(step: list[tuple[Key, PartitionLog]]) -> tuple[int, list[tuple[Key, RecordTime]]]:
    """In a thread: how many were tried before its time was over, at least one, and what was found.

    What is not there (yet) or can't be read now is left out.
    """
    found: list[tuple[Key, RecordTime]] = []
    end = perf_counter() + STEP_S
    for tried, (key, log) in enumerate(step):
        if tried and perf_counter() > end:
            return tried, found
        try:
            time = first_record_time(log, key[2])
        except CorruptLog:
            time = RecordTime(-1, False)  # it will not get better; the log's reader tells it
        except (OSError, ValueError, struct.error):  # it is being closed, or the disk fails now
            continue
        if time is not None:
            found.append((key, time))
    return len(step), found
