"""The timestamps of the first unread records of groups, which a thread reads from the logs.

The position of a record is the key of its timestamp, so that all groups share the timestamp.
Unknown timestamps are queued, and a thread looks them up log by log, with ascending offsets and
with pauses. Until a lookup is done, the result of an earlier lookup is used if it exists. Only the
loop's thread uses this module.
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
"""The number of nanoseconds after which the thread pauses, since the thread holds the GIL; it also
pauses after a number of records."""
REST = 3
"""A pause is this many times as long as the step before the pause, so that lookups use at most a
quarter of a core."""
WANTED_MAX = 200_000
"""The maximum number of queued lookups; the next scrape requests further lookups again."""
BEFORE_MS_MAX = 120_000
"""The maximum time in ms for which the age from an earlier scan replaces an unknown age."""
KEPT_MIN = 10_000
"""The minimum of the bound on remembered timestamps; the bound is twice the number of committed
offsets if that is larger."""

NOT_KNOWN = RecordTime(-1, False)

Key = tuple[bytes, int, int]
"""The position of the first unread record: the topic id, the partition, and the offset."""


class _Wanted(NamedTuple):
    """The offsets in one log whose timestamps are to be looked up."""

    topic_id: bytes
    partition: int
    log: PartitionLog
    offsets: set[int]


class _Asked:
    """The last requests of a group for unknown timestamps in one topic, by partition."""

    __slots__ = ("before", "last")

    def __init__(self) -> None:
        self.last: dict[int, tuple[int, int]] = {}
        """The first unread offset in the last request, and the wall time of that request, by
        partition."""
        self.before: dict[int, tuple[RecordTime, int]] = {}
        """The timestamp from the newest earlier request whose timestamp is known, and the wall time
        of that request, by partition."""


class RecordTimes:
    """Looks up and remembers the timestamps of records. ``live`` returns the number of committed
    offsets, which limits the number of remembered timestamps."""

    def __init__(self, time: Time, live: Callable[[], int]) -> None:
        self._time = time
        self.lookups = 0
        """The number of records whose timestamp was looked up since the process started."""
        self.unknown = 0
        """The number of requests for a timestamp that was unknown, since the process started."""
        self.recent: dict[Key, RecordTime] = {}
        """The timestamps that were used recently."""
        self._older: dict[Key, RecordTime] = {}
        """The timestamps that have not been used since ``recent`` was last full; when ``recent`` is
        full again, they are removed."""
        self._live = live
        self._kept_max = KEPT_MIN
        """The maximum size of ``recent``, of ``_older``, and of ``_places``. When a size reaches
        this maximum, the maximum is computed again."""
        self._asked: dict[tuple[str, bytes], _Asked] = {}
        """The last requests, by group and topic id."""
        self._places = 0
        """The number of partitions in all entries of ``_asked``."""
        self._wanted: dict[tuple[bytes, int], _Wanted] = {}
        self.waiting = 0
        """The number of queued lookups."""
        self._running: asyncio.Task[None] | None = None
        self._stopped = False

    def ask(
        self, group_id: str, keys: list[Key], partitions: Mapping[int, Partition], now_ms: int
    ) -> None:
        """Queues lookups of the unknown timestamps of one group in one topic.

        ``partitions`` contains this broker's replicas of the partitions of the keys. The keys are
        remembered for `before`.
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
        """Returns the record time from an earlier scan as a replacement for an unknown record time,
        and the wall time of that scan.

        Groups that commit faster than records are looked up need this replacement: the age is then
        exact, but slightly out of date. Returns NOT_KNOWN if the earlier record time is also
        unknown, or older than BEFORE_MS_MAX.
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
        """Returns the timestamp of a record; None if the timestamp has not been looked up."""
        return self.recent.get(key) or self._older.get(key)

    def _forget(self, key: Key) -> None:
        self.recent.pop(key, None)
        self._older.pop(key, None)

    async def settled(self) -> None:
        """Waits until all lookups that are queued at the time of the call are done."""
        while (task := self._running) is not None:
            await asyncio.wait([task])

    async def stop(self) -> None:
        """Stops the lookups."""
        self._stopped = True
        await self.settled()

    # -- what is kept

    def _too_many(self, kept: int) -> bool:
        """Returns True if ``kept`` reaches the maximum size. When it does, first computes the
        maximum again from the number of committed offsets."""
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
        """Does the queued lookups, with pauses, until the queue is empty."""
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
        """Removes and returns some of the queued lookups, as many as possible from the same
        logs."""
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
    """Does lookups in a thread; returns the keys of the lookups that were tried, at least one, and
    the timestamps found.

    The result has no timestamp for a record that does not exist yet or can't be read now.
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
