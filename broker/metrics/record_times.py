"""The timestamps of the first unread records of groups, which a thread reads from the logs.

A timestamp is kept by the position of its record, so that all groups share it. Unknown timestamps
are queued, and a thread looks them up log by log, with ascending offsets and with pauses. Until a
lookup is done, the timestamp found by the earlier lookup is used, if there is one. Only the loop's
thread uses this module.
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
"""The thread pauses after this time, or after this many records, since it holds the GIL."""
REST = 3
"""A pause is this many times as long as the step before the pause, so that lookups use at most a
quarter of a core."""
WANTED_MAX = 200_000
"""The maximum number of queued lookups; the next scrape requests the others again."""
BEFORE_MS_MAX = 120_000
"""The maximum time for which the age from the scan before replaces an unknown age."""
KEPT_MIN = 10_000
"""The number of timestamps kept, if twice the number of committed offsets is not larger."""

NOT_KNOWN = RecordTime(-1, False)

Key = tuple[bytes, int, int]
"""The topic id, the partition, and the offset of the first unread record."""


class _Wanted(NamedTuple):
    """The offsets of one log that are looked up."""

    topic_id: bytes
    partition: int
    log: PartitionLog
    offsets: set[int]


class _Asked:
    """The last request of a group for unknown timestamps in one topic, by partition."""

    __slots__ = ("before", "last")

    def __init__(self) -> None:
        self.last: dict[int, tuple[int, int]] = {}
        """The first unread offset at the last request, and the wall time of that request."""
        self.before: dict[int, tuple[RecordTime, int]] = {}
        """The timestamp from the newest earlier request for which it is known, and the wall time of
        that request."""


class RecordTimes:
    """Timestamps of records. ``live`` returns the number of committed offsets, which bounds the
    number of timestamps."""

    def __init__(self, time: Time, live: Callable[[], int]) -> None:
        self._time = time
        self.lookups = 0
        """The number of records looked up since the process started."""
        self.unknown = 0
        """The number of requests for an unknown timestamp since the process started."""
        self.recent: dict[Key, RecordTime] = {}
        """The timestamps that were used recently."""
        self._older: dict[Key, RecordTime] = {}
        """The timestamps not used since ``recent`` was last full; they are dropped when ``recent``
        is full again."""
        self._live = live
        self._kept_max = KEPT_MIN
        """The maximum size of ``recent``, of ``_older``, and of ``_places``; it is computed again
        when a size reaches it."""
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
        """Queue lookups of the unknown timestamps of one group in one topic.

        ``partitions`` has this broker's replicas of the keys' partitions. The keys are kept for
        `before`.
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
        """Return the record time from an earlier scan, in place of an unknown record time, and the
        wall time of that scan.

        Groups that commit faster than records are looked up need it: the age is then exact, but
        slightly out of date. Returns NOT_KNOWN if the earlier time is also unknown, or older than
        BEFORE_MS_MAX.
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
        """Return the timestamp of a record; None if it has not been looked up."""
        return self.recent.get(key) or self._older.get(key)

    def _forget(self, key: Key) -> None:
        self.recent.pop(key, None)
        self._older.pop(key, None)

    async def settled(self) -> None:
        """Wait until all lookups that are queued now are done."""
        while (task := self._running) is not None:
            await asyncio.wait([task])

    async def stop(self) -> None:
        """Stop looking up."""
        self._stopped = True
        await self.settled()

    # -- what is kept

    def _too_many(self, kept: int) -> bool:
        """Return whether ``kept`` reaches the bound; the bound is computed again from the committed
        offsets if so."""
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
        """Do the queued lookups, with pauses, until the queue is empty."""
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
        """Return some of the queued lookups, with as many as possible from the same logs."""
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
    """Do lookups in a thread; return the keys of the tried lookups, at least one, and the
    timestamps found.

    Records that do not exist yet, or can't be read now, have no timestamp in the result.
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
