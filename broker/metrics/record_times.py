"""The timestamps of groups' first unread records, which a thread reads from the logs.

A timestamp is kept by the position of its record, so that all groups share it. An unknown one is
queued, and a thread looks it up, log by log with ascending offsets and with pauses. Until it is
found, the timestamp found before is used, if there is one. Used from the loop's thread.
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
"""The thread pauses after this time or this many records, since it holds the GIL."""
REST = 3
"""A pause is this many times as long as the step before it: at most a quarter of a core."""
WANTED_MAX = 200_000
"""Lookups that may wait; the next scrape asks again for the rest."""
BEFORE_MS_MAX = 120_000
"""For at most this time, the age of the scan before replaces an unknown one."""
KEPT_MIN = 10_000
"""Timestamps kept: this many, or twice the number of committed offsets, if that is more."""

NOT_KNOWN = RecordTime(-1, False)

Key = tuple[bytes, int, int]
"""Topic id, partition, offset of the first unread record."""


class _Wanted(NamedTuple):
    """Offsets of one log to look up."""

    topic_id: bytes
    partition: int
    log: PartitionLog
    offsets: set[int]


class _Asked:
    """The unknown timestamps of a group in one topic, when it last asked, by partition."""

    __slots__ = ("before", "last")

    def __init__(self) -> None:
        self.last: dict[int, tuple[int, int]] = {}
        """The first unread offset at that time, and the wall time of the request."""
        self.before: dict[int, tuple[RecordTime, int]] = {}
        """The newest earlier request whose timestamp is known, and its wall time."""


class RecordTimes:
    """Timestamps of records; ``live`` counts the committed offsets, which bound their number."""

    def __init__(self, time: Time, live: Callable[[], int]) -> None:
        self._time = time
        self.lookups = 0
        """Records looked up since the process began."""
        self.unknown = 0
        """Requests for an unknown timestamp since the process began."""
        self.recent: dict[Key, RecordTime] = {}
        """Timestamps that were used lately; these need no lookup."""
        self._older: dict[Key, RecordTime] = {}
        """Timestamps not used since ``recent`` was last full; dropped when it is full again."""
        self._live = live
        self._kept_max = KEPT_MIN
        """The bound of each of them, and of the partitions in ``_asked``; computed again when
        reached.
        """
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
        """Queue lookups of one group in one topic for the timestamps that are unknown.

        ``partitions`` has the replicas of the keys' partitions. The keys are kept for `before`.
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
        """The record time of the scan before, in place of an unknown one, and its wall time.

        Groups that commit faster than records are looked up need it: their age is then exact, but
        as of a moment ago. NOT_KNOWN if that is unknown too, or older than BEFORE_MS_MAX.
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
        """The timestamp, if it has been looked up."""
        return self.recent.get(key) or self._older.get(key)

    def _forget(self, key: Key) -> None:
        self.recent.pop(key, None)
        self._older.pop(key, None)

    async def settled(self) -> None:
        """Return when all lookups queued so far are done."""
        while (task := self._running) is not None:
            await asyncio.wait([task])

    async def stop(self) -> None:
        """Stop looking up."""
        self._stopped = True
        await self.settled()

    # -- what is kept

    def _too_many(self, kept: int) -> bool:
        """Whether the number reaches the bound; committed offsets are counted only when it does."""
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
        """Look up what is queued, with pauses, until the queue is empty."""
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
        """Some of the queued lookups, as many as possible of the same logs."""
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
    """Look up in a thread; returns the tried keys, at least one, and the timestamps found.

    Records that do not exist (yet) or can't be read now are omitted.
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
