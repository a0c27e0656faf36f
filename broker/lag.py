"""How far behind groups are: in records, in seconds, by partition and by member.

Records of lag need nothing but the cache and the logs' ends. Seconds of lag are the age of the
first unread record, which only the log knows: they are looked up in a thread, a few at a time, and
kept until the commit moves (or the log's start passes it). Until then they are unknown, never 0;
for a group that commits faster than records are looked up, those of the look before stand.

For `/metrics`, `/api` and the page alike; everything here is called in the loop's thread, and what
may be long is an iterator, so that its caller can stop between two blocks of partitions.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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

BLOCK = 128
"""Partitions of which the lag is worked out at once."""
LOOKUPS_PER_STEP = 64
STEP_S = 0.002
"""The thread looks for so long, or for so many records, before it rests: it holds the GIL."""
REST = 3
"""The thread rests so many times as long as a step took: a quarter of a core at most."""
WANTED_MAX = 200_000
"""Lookups that may wait; what is beyond is asked for again by the next scrape."""
BEFORE_MS_MAX = 120_000
"""For so long the age of the look before may stand for one that is not known yet."""
KEPT_MIN = 10_000
"""So many times of records, or twice the committed offsets, are kept before the old ones go."""

_made: Callable[..., PartitionLag] = tuple.__new__
"""A named tuple in half the time that its own constructor takes."""

Key = tuple[bytes, int, int]
"""Topic id, partition, offset of the first unread record."""
TopicPartition = tuple[str, int]
ByTopic = Mapping[str, Mapping[int, "PartitionLag"]]
"""The lags of a group by topic and partition."""


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
    age_ms: int | None
    """Age of the first unread record; 0 when there is none, None until it has been looked up."""
    approximate: bool
    """The age is that of the first record of its (large) batch."""
    committed_ms: int
    """Wall time of the commit."""
    expires_ms: int | None
    """Wall time from which on retention may drop the offset if nothing happens; None: never."""

    @property
    def seconds(self) -> float | None:
        """``age_ms`` in seconds."""
        return None if self.age_ms is None else self.age_ms / 1000


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


class _Asked(NamedTuple):
    """A record whose time was not known when a group's age was asked for."""

    first: int
    """Its offset: the group's first unread one then."""
    at_ms: int
    """Wall time of the question."""
    before: tuple[RecordTime, int] | None
    """The latest one asked for before it of which the time is known, and when that was."""


NOT_KNOWN = RecordTime(-1, False)


class Lags:
    """What this broker knows of its groups' lag; made once, used from the loop's thread."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.lookups = 0
        """Records looked up since the process began."""
        self.unknown = 0
        """Times that an age was asked for which was not known, since the process began."""
        self._times: dict[Key, RecordTime] = {}
        self._older: dict[Key, RecordTime] = {}
        """What has not been asked for since ``_times`` was last full; it goes when that is."""
        self._asked: dict[tuple[str, bytes, int], _Asked] = {}
        """By group, topic id and partition: what was not known when it was last asked for."""
        self._kept_max = KEPT_MIN
        """How many of either may be kept; found anew whenever it is reached."""
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
        for block in self.blocks(host, group_id, topic):
            yield from block

    def blocks(self, host: ShardLog, group_id: str, topic: str) -> Iterator[list[PartitionLag]]:
        """Those in one topic, at most BLOCK at a time; what changes between two is seen so."""
        columns = dict(host.shard.cache.columns(group_id)).get(topic)
        if columns is None:
            return
        rule = expiry_rule(host.shard.groups.get(group_id))
        if rule is not None and topic in rule.kept_topics:
            rule = None
        partitions = columns.partitions()
        for first in range(0, len(partitions), BLOCK):
            commits = columns.commits(partitions[first : first + BLOCK])
            block = self._block(group_id, topic, commits, rule)
            if block:
                yield block

    def _block(
        self,
        group_id: str,
        topic: str,
        commits: Iterable[tuple[int, int, int, int]],
        rule: ExpiryRule | None,
    ) -> list[PartitionLag]:
        """The lag of some commits in one topic: of all here, what a scrape does most often."""
        now_ms = self.broker.clock.now().wall_ms
        retention_ms = self.broker.runtime.settings.groups.offsets_retention_ms
        entry = self.broker.logs.topics.get(topic)
        logs: Sequence[PartitionLog] = () if entry is None else entry.logs
        topic_id = b"" if entry is None else entry.topic.topic_id
        known = len(logs)
        times = self._times
        expires_ms: int | None = None
        stamps: tuple[int, int] | None = None
        lags: list[PartitionLag] = []
        for partition, offset, committed_ms, asked_ms in commits:
            if rule is not None and stamps != (committed_ms, asked_ms):  # those of one commit agree
                stamps = committed_ms, asked_ms
                expires_ms = expires_at(rule, committed_ms, asked_ms, retention_ms=retention_ms)
            if not 0 <= partition < known:
                lags.append(
                    PartitionLag(
                        topic, partition, offset, None, None, None, None, False, committed_ms,
                        expires_ms,
                    )
                )  # fmt: skip
                continue
            log = logs[partition]
            start, end = log.log_start_offset, log.high_watermark
            first = offset if offset > start else start
            age_ms: int | None = 0
            approximate = False
            records = end - first
            if records <= 0:
                records = 0
            else:
                key = (topic_id, partition, first)
                time = times.get(key) or self._time(key, log)
                at_ms = now_ms
                if time is None:
                    time, at_ms = self._before(group_id, key, now_ms)
                timestamp_ms, approximate = time
                age_ms = None
                if timestamp_ms >= 0:
                    age_ms = at_ms - timestamp_ms if timestamp_ms < at_ms else 0
            lags.append(
                _made(
                    PartitionLag,
                    (topic, partition, offset, start, end, records, age_ms, approximate,
                     committed_ms, expires_ms),
                )
            )  # fmt: skip
        return lags

    def of_members(self, group: Group, lags: ByTopic) -> Iterator[MemberLag]:
        """What each member of a "consumer" group is behind, from the lags of its group.

        Nothing for members whose assignment is in another form.
        """
        for member in list(group.members.values()):
            lag = self.of_member(group, member, lags)
            if lag is not None:
                yield lag

    def of_member(self, group: Group, member: Member, lags: ByTopic) -> MemberLag | None:
        """The same of one member."""
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
    def owned_by(group: Group, member: Member) -> dict[str, list[int]] | None:
        """The partitions of a member by topic; None when its bytes are not a consumer's."""
        if group.protocol_type != CONSUMER:
            return None
        try:
            return assigned_partitions(member.assignment)
        except ProtocolError:
            return None

    # -- times of records

    def _time(self, key: Key, log: PartitionLog) -> RecordTime | None:
        """None while it is not known; it is looked up then."""
        time = self._times.get(key)
        if time is None:
            time = self._older.get(key)
            if time is not None:
                self._keep(key, time)
                return time
            self.unknown += 1
            if len(self._wanted) < WANTED_MAX:
                self._wanted[key] = log
                if self._running is None and not self._stopped:
                    self._running = asyncio.get_running_loop().create_task(self._look_up())
        return time

    def _before(self, group_id: str, key: Key, now_ms: int) -> tuple[RecordTime, int]:
        """The first unread record of the look before, and when that was, if it is known by now.

        For groups that commit faster than records are looked up: their age is then exact, but as
        of a moment ago.
        """
        topic_id, partition, first = key
        place = (group_id, topic_id, partition)
        asked = self._asked.get(place)
        if asked is None or asked.first != first:
            before = None
            if asked is not None:  # the newest of the two that is known
                known = self._known((topic_id, partition, asked.first))
                before = asked.before if known is None else (known, asked.at_ms)
            if self._too_many(len(self._asked)):
                self._asked.clear()
            asked = self._asked[place] = _Asked(first, now_ms, before)
        if asked.before is None or now_ms - asked.before[1] > BEFORE_MS_MAX:
            return NOT_KNOWN, now_ms
        return asked.before

    def _known(self, key: Key) -> RecordTime | None:
        return self._times.get(key) or self._older.get(key)

    def _too_many(self, kept: int) -> bool:
        """Whether so many are more than are kept; the offsets are counted only now and then."""
        if kept < self._kept_max:
            return False
        live = sum(host.shard.cache.offsets() for host in self.broker.runtime.hosts)
        self._kept_max = max(KEPT_MIN, 2 * live)
        return kept >= self._kept_max

    def _keep(self, key: Key, time: RecordTime) -> None:
        if self._too_many(len(self._times)):
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
            time = NOT_KNOWN  # it will not get better; the log's reader tells it
        except (OSError, ValueError, struct.error):  # it is being closed, or the disk fails now
            continue
        if time is not None:
            found.append((key, time))
    return len(step), found
