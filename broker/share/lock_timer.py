"""One timer for the acquisition locks of all share partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

from broker.loop.slices import SLICE_NS
from broker.share.live_partition import LivePartition
from broker.time import Time
from broker.topics.partition import NEVER


class LockTimer:
    """Calls ``expire`` with each share partition whose earliest acquisition lock has ended."""

    def __init__(self, time: Time, expire: Callable[[LivePartition, int], None]) -> None:
        """``expire`` is called with a share partition and the monotonic time in ms. It must call
        `arm` when it has finished."""
        self._time = time
        self._expire = expire
        self._heap: list[tuple[int, int, LivePartition]] = []
        """A heap of share partitions by the time of their next check for expired locks. An entry is
        stale if its time differs from the share partition's ``due_ms``."""
        self._order = count()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = NEVER

    def arm(self, live: LivePartition) -> None:
        """Schedules the next check for expired acquisition locks of a share partition, unless a
        check is already scheduled for an earlier time.

        The caller must call this method after every operation that sets an acquisition lock.
        """
        if live.is_dropped:
            return
        deadline_ms = live.ready.next_deadline()
        if deadline_ms is None:
            return
        deadline_ms = max(deadline_ms, live.retry_ms)
        if deadline_ms < live.due_ms:
            live.due_ms = deadline_ms
            heappush(self._heap, (deadline_ms, next(self._order), live))
            self._set_timer()

    def tick(self) -> None:
        """Checks the due share partitions for the length of one slice. The next turn checks the
        remaining ones."""
        self._timer, self._timer_ms = None, NEVER
        heap, ticks_ns = self._heap, self._time.ticks_ns
        now_ms, began_ns = self._time.now().mono_ms, ticks_ns()
        while heap and heap[0][0] <= now_ms and ticks_ns() - began_ns < SLICE_NS:
            due_ms, _, live = heappop(heap)
            if live.due_ms == due_ms:
                live.due_ms = NEVER
                self._expire(live, now_ms)
        self._set_timer()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _set_timer(self) -> None:
        heap = self._heap
        while heap and heap[0][0] != heap[0][2].due_ms:
            heappop(heap)
        due_ms = heap[0][0] if heap else NEVER
        if due_ms == self._timer_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_ms = due_ms
        if due_ms != NEVER:
            delay_ms = max(0, due_ms - self._time.now().mono_ms)
            self._timer = self._time.call_later(delay_ms / 1000, self.tick)
