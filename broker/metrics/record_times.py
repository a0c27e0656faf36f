"""Looks up and remembers the timestamps of the first unread records of groups, for the lag in
seconds.

A timestamp is remembered by topic, partition and offset, so that groups share it. Unknown
timestamps are queued. A thread looks them up log by log, by ascending offset and with pauses. While
a timestamp is queued, `RecordTimes.before` returns the result of an earlier lookup. Only the event
loop's thread may call this module.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Mapping
from itertools import islice
from typing import NamedTuple

from broker.time import Time
from broker.topics.partition import Partition
from log.errors import CorruptLog
from log.partition_log import PartitionLog
from log.record_time import RecordTime, TimeReader

LOOKUPS_PER_STEP = 512
STEP_NS = 2_000_000
"""The time in nanoseconds after which the thread pauses, since it holds the GIL. It also pauses
after LOOKUPS_PER_STEP records."""
REST = 3
"""After each step of lookups, the thread pauses for this multiple of the step's duration. With 3,
lookups use at most a quarter of a core."""
WANTED_MAX = 200_000
"""The maximum number of queued lookups. While the queue is full, further lookups are dropped; the
next scrape requests them again."""
BEFORE_MS_MAX = 120_000
"""While the timestamp of a group's first unread record is not known yet, the age of an earlier
first unread record is shown. The timestamp of this earlier record must have been requested at most
this number of ms ago."""
KEPT_MIN = 10_000
"""The lower limit of `RecordTimes._kept_max`. Above it, `_kept_max` is twice the number of
committed offsets."""

NOT_KNOWN = RecordTime(-1, False)

Key = tuple[bytes, int, int]
"""The first unread record of a partition: topic id, partition and offset."""


class _Wanted(NamedTuple):
    """The offsets in one log whose timestamps must be looked up."""

    topic_id: bytes
    partition: int
    log: PartitionLog
    offsets: set[int]


class _Asked:
    """For one group and one topic: the first unread offsets whose record timestamps were unknown at
    the last lookup."""

    __slots__ = ("before", "last")

    def __init__(self) -> None:
        self.last: dict[int, tuple[int, int]] = {}
        """By partition: the offset of the first unread record, according to the latest request, and
        the wall time of the first request that had the same offset."""
        self.before: dict[int, tuple[RecordTime, int]] = {}
        """By partition: the newest known timestamp of a record, and the wall time at which this
        timestamp was first requested. The record was the first unread record of the partition at an
        earlier time."""


class RecordTimes:
    """Looks up and remembers the timestamps of records.

    ``live`` returns the number of committed offsets, on which the maximum number of remembered
    timestamps depends.
    """

    def __init__(self, time: Time, live: Callable[[], int]) -> None:
        self._time = time
        self.lookups = 0
        """The number of timestamps that were looked up since the process started."""
        self.unknown = 0
        """The number of times that a timestamp was requested and was not known, since the process
        started."""
        self.recent: dict[Key, RecordTime] = {}
        """A cache of timestamps. When this dict is full, its content moves to `_older`. A timestamp
        in `_older` that is used again moves back."""
        self._older: dict[Key, RecordTime] = {}
        """The previous content of ``recent``, from the last time when ``recent`` was full. A
        timestamp that is used again is copied to ``recent``."""
        self._live = live
        self._kept_max = KEPT_MIN
        """The upper limit of three numbers: the size of ``recent``, the size of ``_older``, and
        ``_places``. When one of them reaches the limit, `_too_many` computes a new limit."""
        self._asked: dict[tuple[str, bytes], _Asked] = {}
        """By group and topic id: the offsets whose timestamps were unknown at the last lookup."""
        self._places = 0
        """The total number of partitions in the values of ``_asked``."""
        self._wanted: dict[tuple[bytes, int], _Wanted] = {}
        self.waiting = 0
        """The number of queued lookups."""
        self._running: asyncio.Task[None] | None = None
        self._stopped = False

    def ask(
        self, group_id: str, keys: list[Key], partitions: Mapping[int, Partition], now_ms: int
    ) -> None:
        """Queues a lookup for each key whose timestamp is unknown. All ``keys`` belong to one group
        and one topic.

        ``partitions`` has this broker's replicas of the topic, by partition. The keys are also
        stored for later calls of `before`.
        """
        topic_id = keys[0][0]
        asked = self._asked.get((group_id, topic_id))
        if asked is None:
            asked = self._asked[group_id, topic_id] = _Asked()
        last, before = asked.last, asked.before
        places = len(last)
        for key in keys:
            time = self.recent.get(key)
            if time is None:
                time = self._older.get(key)
                if time is not None:
                    self._keep(key, time)
            _, partition, first = key
            if time is not None:
                if not 0 < time.none_below < partitions[partition].high_watermark:
                    continue
                self._forget(key)  # the log has grown
            self.unknown += 1
            if self.waiting < WANTED_MAX:
                wanted = self._wanted.get((topic_id, partition))
                if wanted is None:
                    wanted = _Wanted(topic_id, partition, partitions[partition].log, set())
                    self._wanted[topic_id, partition] = wanted
                if first not in wanted.offsets:
                    wanted.offsets.add(first)
                    self.waiting += 1
            was = last.get(partition)
            if was is None or was[0] != first:
                last[partition] = (first, now_ms)
                if was is not None:
                    time = self.known((topic_id, partition, was[0]))
                    if time is not None:  # the newest known one of the two
                        before[partition] = (time, was[1])
        self._places += len(last) - places
        if self._too_many(self._places):
            self._asked = {(group_id, topic_id): asked}
            self._places = len(last)
        if self._wanted and self._running is None and not self._stopped:
            self._running = asyncio.get_running_loop().create_task(self._look_up())

    def before(self, group_id: str, key: Key, now_ms: int) -> tuple[RecordTime, int]:
        """Returns a substitute for the timestamp of the first unread record of a group in a
        partition, as long as this timestamp is not looked up.

        The substitute is the timestamp of an earlier first unread record, and the wall time at
        which this timestamp was first requested. If a group commits faster than records are looked
        up, its age is therefore exact, but slightly out of date. Returns NOT_KNOWN if no such
        timestamp is known, or if it was requested more than BEFORE_MS_MAX ago.
        """
        topic_id, partition, first = key
        asked = self._asked.get((group_id, topic_id))
        if asked is None:
            return NOT_KNOWN, now_ms
        before = asked.before.get(partition)
        was = asked.last.get(partition)
        if was is not None and was[0] != first:  # the commit has moved since then
            time = self.known((topic_id, partition, was[0]))
            if time is not None:
                before = (time, was[1])
        if before is None or now_ms - before[1] > BEFORE_MS_MAX:
            return NOT_KNOWN, now_ms
        return before

    def known(self, key: Key) -> RecordTime | None:
        """Returns the timestamp of a record; None if it has not been looked up."""
        return self.recent.get(key) or self._older.get(key)

    def _forget(self, key: Key) -> None:
        self.recent.pop(key, None)
        self._older.pop(key, None)

    async def settled(self) -> None:
        """Waits until no lookups are queued."""
        while (task := self._running) is not None:
            await asyncio.wait([task])

    async def stop(self) -> None:
        """Stops the lookups after the current step."""
        self._stopped = True
        await self.settled()

    # -- what is kept

    def _too_many(self, kept: int) -> bool:
        """Returns True if ``kept``, the number of stored record times, has reached the limit: twice
        the number of committed offsets, but at least KEPT_MIN. The limit is computed again only
        when ``kept`` has reached the previous limit."""
        if kept < self._kept_max:
            return False
        self._kept_max = max(KEPT_MIN, 2 * self._live())
        return kept >= self._kept_max

    def _keep(self, key: Key, time: RecordTime) -> None:
        if self._too_many(len(self.recent)):
            self._older, self.recent = self.recent, {}
        self.recent[key] = time

    # -- looking up

    async def _look_up(self) -> None:
        """Does the queued lookups in a thread, with pauses, until none are queued."""
        try:
            while self._wanted and not self._stopped:
                began_ns = self._time.ticks_ns()
                tried, found = await self._time.in_thread(
                    _look_up, self._next_step(), self._time.ticks_ns
                )
                for key, time in found:
                    self._keep(key, time)
                for topic_id, partition, first in tried:
                    offsets = self._wanted[topic_id, partition].offsets
                    offsets.remove(first)
                    if not offsets:
                        del self._wanted[topic_id, partition]
                self.waiting -= len(tried)
                self.lookups += len(tried)
                if self._wanted:
                    took_ns = self._time.ticks_ns() - began_ns
                    await self._time.sleep(REST * took_ns / 1_000_000_000)
        finally:
            self._running = None

    def _next_step(self) -> list[_Wanted]:
        """Returns the lookups of the next step: at most LOOKUPS_PER_STEP, from as few logs as
        possible."""
        step: list[_Wanted] = []
        room = LOOKUPS_PER_STEP
        for wanted in self._wanted.values():
            offsets = set(islice(wanted.offsets, room))
            step.append(wanted._replace(offsets=offsets))
            room -= len(offsets)
            if not room:
                break
        return step


def _look_up(
    step: list[_Wanted], ticks_ns: Callable[[], int]
) -> tuple[list[Key], list[tuple[Key, RecordTime]]]:
    """Looks up timestamps in a thread. Returns the keys that were tried, at least one, and the
    timestamps that were found.

    No timestamp is found for a record that does not exist yet, or that can't be read now.
    """
    tried: list[Key] = []
    found: list[tuple[Key, RecordTime]] = []
    end_ns = ticks_ns() + STEP_NS
    for topic_id, partition, log, offsets in step:
        reader = TimeReader(log.segments)
        for offset in sorted(offsets):
            if tried and ticks_ns() > end_ns:
                return tried, found
            key = (topic_id, partition, offset)
            tried.append(key)
            end_offset = log.log_end_offset
            try:
                time = reader.first_at(offset)
                if reader.saw_end:
                    time = RecordTime(-1, False, end_offset)
            except CorruptLog:
                time = NOT_KNOWN  # permanent; the log's reader logs it
            except (OSError, ValueError, struct.error):  # it is being closed, or the disk fails now
                continue
            if time is not None:
                found.append((key, time))
    return tried, found
