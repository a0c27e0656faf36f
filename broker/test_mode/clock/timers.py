"""The timers of the mock clock: a heap ordered by deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from types import TracebackType
from typing import Any

_STALE_MIN = 64


class MockTimer(asyncio.TimerHandle):
    """A timer that `Time.call_later` returns. Its deadline is in ms of the mock monotonic clock."""

    def __init__(
        self,
        timers: Timers,
        due_ms: int,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(due_ms / 1000, callback, args, loop)
        self.due_ms = due_ms
        self.is_set = True
        """True until `Timers.take` returns the timer."""
        self._timers = timers

    def cancel(self) -> None:
        if not self.cancelled():
            asyncio.Handle.cancel(self)  # TimerHandle.cancel would notify the loop
            if self.is_set:
                self._timers.one_was_cancelled()

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def fire(self) -> None:
        """Runs the timer's callback; exceptions are passed to the loop's exception handler."""
        self._run()


class Timers:
    """All timers of one clock. Timers with the same deadline fire in the order of their
    creation."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, MockTimer]] = []
        self._made = 0
        self._stale = 0
        """The number of cancelled timers in the heap."""

    def __len__(self) -> int:
        return len(self._heap) - self._stale

    @property
    def made(self) -> int:
        """The number of timers that were created so far."""
        return self._made

    def add(
        self,
        due_ms: int,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
    ) -> MockTimer:
        timer = MockTimer(self, due_ms, callback, args, loop)
        self._made += 1
        heappush(self._heap, (due_ms, self._made, timer))
        return timer

    def next_ms(self) -> int | None:
        """Returns the earliest deadline of all timers; None if no timer is set."""
        heap = self._heap
        while heap and heap[0][2].cancelled():
            heappop(heap)
            self._stale -= 1
        return heap[0][0] if heap else None

    def take(self, now_ms: int, made_max: int | None = None) -> MockTimer | None:
        """Removes and returns the timer with the earliest deadline, if this deadline has passed;
        otherwise returns None.

        If ``made_max`` is set, also returns None if the timer is not one of the first ``made_max``
        timers that were created. A timer that is created during a round therefore waits for the
        next round.
        """
        due_ms = self.next_ms()
        if due_ms is None or due_ms > now_ms:
            return None
        if made_max is not None and self._heap[0][1] > made_max:
            return None
        timer = heappop(self._heap)[2]
        timer.is_set = False
        return timer

    def one_was_cancelled(self) -> None:
        """Counts a cancelled timer. Rebuilds the heap when it contains many cancelled timers."""
        self._stale += 1
        if self._stale > _STALE_MIN and self._stale * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if not entry[2].cancelled()]
            heapify(self._heap)
            self._stale = 0

    def clear(self) -> None:
        heap, self._heap, self._stale = self._heap, [], 0
        for _, _, timer in heap:
            asyncio.Handle.cancel(timer)


Later = Callable[[float, Callable[[], object]], asyncio.TimerHandle]


class MockTimeout(asyncio.Timeout):  # type: ignore[misc]  # final only in the type stubs
    """An asyncio timeout that uses a timer of the mock clock instead of a timer of the event
    loop."""

    def __init__(self, seconds: float, call_later: Later) -> None:
        super().__init__(None)
        self._seconds = seconds
        self._call_later = call_later
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> asyncio.Timeout:
        entered = await super().__aenter__()
        self._timer = self._call_later(self._seconds, self._over)
        return entered

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await super().__aexit__(error_type, error, traceback)

    def _over(self) -> None:
        self.reschedule(0)  # time 0 of the loop's clock is past, so the timeout ends at once
