"""Fetch requests that wait for data.

Four events wake a waiting Fetch: an append to one of its partitions, a flush that this append
requires, the deletion of a partition, and the deadline. A read_committed Fetch is woken when the
last stable offset advances, not by appends to open transactions. A follower's Fetch is woken before
the append is stable. Several appends of one turn wake a Fetch once, at the end of the turn. One
timer serves all deadlines.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from itertools import count

from broker.loop.internal_errors import InternalErrors
from broker.loop.watchdog import Watchdog
from broker.time import Time

Partition = tuple[str, int]


class Waiter:
    """One parked Fetch."""

    __slots__ = (
        "committed", "deadline_ms", "done", "missing_bytes", "partitions", "to_end", "wake",
    )  # fmt: skip

    def __init__(
        self,
        partitions: Iterable[Partition],
        deadline_ms: int,
        missing_bytes: int,
        wake: Callable[[bool], None],
        committed: bool = False,
        to_end: bool = False,
    ) -> None:
        self.partitions = frozenset(partitions)
        self.deadline_ms = deadline_ms
        """The deadline in monotonic ms."""
        self.missing_bytes = missing_bytes
        """The number of bytes that must be appended before the Fetch reads again."""
        self.wake = wake
        """A function that answers the request or continues the wait. It is called when enough data
        may exist, or at the deadline with the argument True."""
        self.committed = committed
        """True for read_committed: the Fetch reads only below the last stable offset."""
        self.to_end = to_end
        """True for a follower: the Fetch reads up to the log end offset."""
        self.done = False


class LongPolls:
    """All waiting Fetch requests of one broker. Only the event loop's thread may use this class."""

    def __init__(
        self,
        time: Time,
        errors: InternalErrors | None = None,
        watchdog: Watchdog | None = None,
    ) -> None:
        self._time = time
        self._watchdog = watchdog or Watchdog(time)
        self._errors = errors or InternalErrors()
        self._by_partition: defaultdict[Partition, dict[Waiter, None]] = defaultdict(dict)
        self.by_topic: Counter[str] = Counter()
        """By topic name: the number of partitions in all parked requests. A partition counts once
        for each request that waits for it."""
        self._heap: list[tuple[int, int, Waiter]] = []
        self._stale = 0
        """The number of entries in the heap of deadlines whose Fetch does not wait any more."""
        self._order = count()
        self._timer: asyncio.TimerHandle | None = None
        self._woken: dict[Waiter, None] = {}
        self._scheduled = False

    def __len__(self) -> int:
        return len({waiter for waiters in self._by_partition.values() for waiter in waiters})

    def until_ms(self, wait_ms: int) -> int:
        """Returns the monotonic time in ms at which a wait of ``wait_ms`` ends if it starts now."""
        return self._time.now().mono_ms + wait_ms

    def wait(self, waiter: Waiter) -> None:
        for partition in waiter.partitions:
            self._by_partition[partition][waiter] = None
            self.by_topic[partition[0]] += 1
        heappush(self._heap, (waiter.deadline_ms, next(self._order), waiter))
        if self._heap[0][2] is waiter:
            self._arm()

    def forget(self, waiter: Waiter) -> None:
        if waiter.done:
            return
        waiter.done = True
        for partition in waiter.partitions:
            waiters = self._by_partition[partition]
            waiters.pop(waiter, None)
            if not waiters:
                del self._by_partition[partition]
            self.by_topic[partition[0]] -= 1
            if not self.by_topic[partition[0]]:
                del self.by_topic[partition[0]]
        # Most waits end long before their deadline, and would otherwise accumulate in the heap.
        self._stale += 1
        if self._stale > 64 and self._stale * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if not entry[2].done]
            heapify(self._heap)
            self._stale = 0

    def appended(self, topic: str, partition: int, size_bytes: int, committed: bool = True) -> None:
        """Counts an append of ``size_bytes`` and wakes the Fetch requests that now have enough
        data. ``committed`` is False if the records are at or above the first offset of an open
        transaction."""
        waiters = self._by_partition.get((topic, partition))
        if not waiters:
            return
        for waiter in waiters:
            if waiter.committed and not committed:
                continue
            waiter.missing_bytes -= size_bytes
            if waiter.missing_bytes <= 0:
                self._wake_soon(waiter)

    def appended_behind(self, topic: str, partition: int, size_bytes: int) -> None:
        """Counts an append of ``size_bytes`` for the waiting fetches of followers. Consumers can't
        read these records before the high watermark advances."""
        for waiter in self._by_partition.get((topic, partition), ()):
            if waiter.to_end:
                waiter.missing_bytes -= size_bytes
                if waiter.missing_bytes <= 0:
                    self._wake_soon(waiter)

    def wake_partition(self, topic: str, partition: int, committed: bool = True) -> None:
        """Wakes the consumers that wait for a partition, even if few bytes were appended. Pass
        ``committed=False`` if read_committed consumers can't read the records yet: the records are
        at or after the first offset of an open transaction."""
        for waiter in self._by_partition.get((topic, partition), ()):
            if (committed or not waiter.committed) and not waiter.to_end:
                self._wake_soon(waiter)

    def wake_committed(self, topic: str, partition: int) -> None:
        for waiter in self._by_partition.get((topic, partition), ()):
            if waiter.committed:
                self._wake_soon(waiter)

    def wake_all(self, topic: str, partition: int) -> None:
        """Wakes all Fetch requests that wait for a partition, for example after a change of its
        leader."""
        for waiter in self._by_partition.get((topic, partition), ()):
            self._wake_soon(waiter)

    def wake(self, waiter: Waiter) -> None:
        if not waiter.done:
            self._wake_soon(waiter)

    def wake_topic(self, topic: str) -> None:
        """Wakes all Fetch requests that wait for a topic, for example after its deletion."""
        if topic not in self.by_topic:
            return
        for (name, _), waiters in list(self._by_partition.items()):
            if name == topic:
                for waiter in waiters:
                    self._wake_soon(waiter)

    def stop(self) -> None:
        """Ends all waits and answers the requests, since the broker is stopping."""
        if self._timer is not None:
            self._timer.cancel()
        for _, _, waiter in list(self._heap):
            if not waiter.done:
                self._wake(waiter, True)

    def _wake_soon(self, waiter: Waiter) -> None:
        self._woken[waiter] = None
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._wake_all)

    def _wake_all(self) -> None:
        began_ns = self._time.ticks_ns()
        self._scheduled = False
        woken, self._woken = self._woken, {}
        for waiter in woken:
            if not waiter.done:
                self._wake(waiter, False)
        self._watchdog.ended("long polls", began_ns)

    def _wake(self, waiter: Waiter, due: bool) -> None:
        """Wakes one Fetch. Catches its exception, so that other Fetch requests are still woken."""
        try:
            waiter.wake(due)
        except Exception as error:  # noqa: BLE001 - counted and logged by `caught`
            self.forget(waiter)
            self._errors.caught("waiter", error)

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._heap and self._heap[0][2].done:
            heappop(self._heap)
            self._stale -= 1
        if self._heap:
            delay_ms = max(0, self._heap[0][0] - self._time.now().mono_ms)
            self._timer = self._time.call_later(delay_ms / 1000, self._time_passed)

    def _time_passed(self) -> None:
        began_ns = self._time.ticks_ns()
        self._timer = None
        now_ms = self._time.now().mono_ms
        while self._heap and (self._heap[0][2].done or self._heap[0][0] <= now_ms):
            waiter = heappop(self._heap)[2]
            if waiter.done:
                self._stale -= 1
            else:
                self._wake(waiter, True)
                self._stale -= waiter.done  # the waiter's entry is no longer in the heap
        self._arm()
        self._watchdog.ended("long polls", began_ns)
