"""The timestamps of groups' first unread records: a thread reads them from the logs.

A timestamp is kept by the position of its record, so that all groups share it. One that is asked
for and not known is looked up by a thread, log by log with ascending offsets, with rests in
between. Until it is found, the one found before is used, if there is one. Used from the loop's
thread.
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
"""The thread looks for so long, or for so many records, before it rests: it holds the GIL."""
REST = 3
"""The thread rests so many times as long as a step took: a quarter of a core at most."""
WANTED_MAX = 200_000
"""Lookups that may wait; what is beyond is asked for again by the next scrape."""
BEFORE_MS_MAX = 120_000
"""For so long the age of the look before may stand for one that is not known yet."""
KEPT_MIN = 10_000
"""So many times of records, or twice the committed offsets, are kept before the old ones go."""

NOT_KNOWN = RecordTime(-1, False)

Key = tuple[bytes, int, int]
"""Topic id, partition, offset of the first unread record."""


class _Wanted(NamedTuple):
    """Offsets of one log that are to be looked up."""

    topic_id: bytes
    partition: int
    log: PartitionLog
    offsets: set[int]


class _Asked:
    """What was not known of a group in one topic when it was last asked for, by partition."""

    __slots__ = ("before", "last")

    def __init__(self) -> None:
        self.last: dict[int, tuple[int, int]] = {}
        """The first unread offset then, and the wall time of the question."""
        self.before: dict[int, tuple[RecordTime, int]] = {}
        """The latest one asked for before it of which the time is known, and when that was."""


class RecordTimes:
    """Times of records; ``live`` counts the committed offsets, by which the kept are bounded."""

    def __init__(self, time: Time, live: Callable[[], int]) -> None:
        self._time = time
        self.lookups = 0
        """Records looked up since the process began."""
        self.unknown = 0
        """Times that one was asked for which was not known, since the process began."""
        self.recent: dict[Key, RecordTime] = {}
        """Those asked for lately: what is here need not be asked for again."""
        self._older: dict[Key, RecordTime] = {}
        """What has not been asked for since ``recent`` was last full; it goes when that is."""
        self._live = live
        self._kept_max = KEPT_MIN
        """How many of either, or places in ``_asked``; found anew whenever it is reached."""
        self._asked: dict[tuple[str, bytes], _Asked] = {}
        """By group and topic id."""
        self._places = 0
        """Partitions in all of ``_asked``."""
        self._wanted: dict[tuple[bytes, int], _Wanted] = {}
        self.waiting = 0
        """Records still to be looked up."""
        self._running: asyncio.Task[None] | None = None
        self._stopped = False

    def ask(
        self, group_id: str, keys: list[Key], partitions: Mapping[int, Partition], now_ms: int
    ) -> None:
        """Have those of one group in one topic looked up, as far as they are not known.

        ``partitions`` has theirs. What is asked for is remembered for `before`.
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
                    if time is not None:  # the newest of the two that is known
                        before[partition] = (time, was[1])
        self._places += len(last) - places
        if self._too_many(self._places):
            self._asked = {(group_id, topic_id): asked}
            self._places = len(last)
        if self._wanted and self._running is None and not self._stopped:
            self._running = asyncio.get_running_loop().create_task(self._look_up())

    def before(self, group_id: str, key: Key, now_ms: int) -> tuple[RecordTime, int]:
        """For a time that is not known: the group's record of the look before, and when that was.

        For groups that commit faster than records are looked up: their age is then exact, but as
        of a moment ago. NOT_KNOWN where that is not known either, or was long ago.
        """
        topic_id, partition, first = key
        asked = self._asked.get((group_id, topic_id))
        if asked is None:
            return NOT_KNOWN, now_ms
        before = asked.before.get(partition)
        was = asked.last.get(partition)
        if was is not None and was[0] != first:  # the group has moved since it was asked for
            time = self.known((topic_id, partition, was[0]))
            if time is not None:
                before = (time, was[1])
        if before is None or now_ms - before[1] > BEFORE_MS_MAX:
            return NOT_KNOWN, now_ms
        return before

    def known(self, key: Key) -> RecordTime | None:
        """None while it is not."""
        return self.recent.get(key) or self._older.get(key)

    def _forget(self, key: Key) -> None:
        self.recent.pop(key, None)
        self._older.pop(key, None)

    async def settled(self) -> None:
        """Returns when all that has been asked for so far has been looked up."""
        while (task := self._running) is not None:
            await asyncio.wait([task])

    async def stop(self) -> None:
        """Looks nothing more up."""
        self._stopped = True
        await self.settled()

    # -- what is kept

    def _too_many(self, kept: int) -> bool:
        """Whether so many are more than are kept; the offsets are counted only now and then."""
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
        """Works off what is wanted, with rests; ends when nothing is."""
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
        """Some of what is wanted, as much as possible of the same logs."""
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
    """In a thread: what was tried before its time was over, at least one, and what was found.

    What is not there (yet) or can't be read now is left out.
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
                time = NOT_KNOWN  # it will not get better; the log's reader logs it
            except (OSError, ValueError, struct.error):  # it is being closed, or the disk fails now
                continue
            if time is not None:
                found.append((key, time))
    return tried, found
