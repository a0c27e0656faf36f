"""Fetches that wait for data: for which partitions, and until when.

A waiting Fetch is woken by an append to one of its partitions, by the flush that such an append
waits for, by the deletion of a partition, or by its deadline. One that reads committed records is
woken when the last stable offset moves, and not by what open transactions append. Appends of one
turn wake it once, at the turn's end. One that another replica sends is woken by what is appended,
before it is stable. One timer serves all deadlines.
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
    """One parked Fetch. ``wake(due)`` is asked again when there may be enough, or it is due."""

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
        """On the monotonic clock."""
        self.missing_bytes = missing_bytes
        """Bytes still to arrive before it is worth looking."""
        self.wake = wake
        """Called with True when the deadline has come; answers the request or lets it wait on."""
        self.committed = committed
        """It reads below the last stable offset alone."""
        self.to_end = to_end
        """It reads to the log's end, as other replicas do."""
        self.done = False
        """It waits no longer."""


class LongPolls:
    """All waiters of one broker; use from the event loop's thread alone."""

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
        """How many waits there are for partitions of each topic."""
        self._heap: list[tuple[int, int, Waiter]] = []
        self._stale = 0
        """Entries of the heap whose waiter waits no longer."""
        self._order = count()
        self._timer: asyncio.TimerHandle | None = None
        self._woken: dict[Waiter, None] = {}
        self._scheduled = False

    def __len__(self) -> int:
        return len({waiter for waiters in self._by_partition.values() for waiter in waiters})

    def until_ms(self, wait_ms: int) -> int:
        """The deadline of who waits for so long from now on: clients have real time."""
        return self._time.now().mono_ms + wait_ms

    def wait(self, waiter: Waiter) -> None:
        """Keeps ``waiter`` until it is woken for good, or `forget`."""
        for partition in waiter.partitions:
            self._by_partition[partition][waiter] = None
            self.by_topic[partition[0]] += 1
        heappush(self._heap, (waiter.deadline_ms, next(self._order), waiter))
        if self._heap[0][2] is waiter:
            self._arm()

    def forget(self, waiter: Waiter) -> None:
        """The waiter waits no longer."""
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
        # Most waits end long before their deadline; without this the heap would keep them all.
        self._stale += 1
        if self._stale > 64 and self._stale * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if not entry[2].done]
            heapify(self._heap)
            self._stale = 0

    def appended(self, topic: str, partition: int, size_bytes: int, committed: bool = True) -> None:
        """``size_bytes`` were appended to a partition, and may be read.

        Unless ``committed`` is set they are part of open transactions, or behind the first.
        """
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
        """``size_bytes`` were appended that only other replicas may read yet."""
        for waiter in self._by_partition.get((topic, partition), ()):
            if waiter.to_end:
                waiter.missing_bytes -= size_bytes
                if waiter.missing_bytes <= 0:
                    self._wake_soon(waiter)

    def wake_partition(self, topic: str, partition: int, committed: bool = True) -> None:
        """Wakes readers after an append to a partition, however small it is.

        If ``committed`` is not set, the records belong to open transactions, or follow the first
        one.
        """
        for waiter in self._by_partition.get((topic, partition), ()):
            if (committed or not waiter.committed) and not waiter.to_end:
                self._wake_soon(waiter)

    def wake_committed(self, topic: str, partition: int) -> None:
        """The same for who reads below the last stable offset alone."""
        for waiter in self._by_partition.get((topic, partition), ()):
            if waiter.committed:
                self._wake_soon(waiter)

    def wake_all(self, topic: str, partition: int) -> None:
        """Wakes all readers of a partition, since its leader has changed."""
        for waiter in self._by_partition.get((topic, partition), ()):
            self._wake_soon(waiter)

    def wake(self, waiter: Waiter) -> None:
        """Wakes one reader; the caller knows that it has data."""
        if not waiter.done:
            self._wake_soon(waiter)

    def wake_topic(self, topic: str) -> None:
        """Something happened to a topic's partitions that its waiters must see."""
        if topic not in self.by_topic:
            return
        for (name, _), waiters in list(self._by_partition.items()):
            if name == topic:
                for waiter in waiters:
                    self._wake_soon(waiter)

    def stop(self) -> None:
        """Answers everyone now: the broker stops."""
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
        """Wakes one; an exception of it does not stop the others."""
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
                self._stale -= waiter.done  # its entry has left the heap already
        self._arm()
        self._watchdog.ended("long polls", began_ns)
