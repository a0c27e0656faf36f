"""Deadlines of a pure core: timers in a lazy heap.

A timer's ``due_ms`` may be moved later, or removed, by plain assignment, as a heartbeat does. The
heap then has an entry that is too early, which is corrected when it becomes due. Only a move to an
earlier time needs ``arm``.

Invariant: a timer with a due time has an entry in the heap at or before that time.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

NEVER = 1 << 62


class Timer:
    """One deadline; its owner knows its purpose. Any clock will do, one for each heap."""

    __slots__ = ("due_ms", "fell_due_ms", "queued_ms")

    def __init__(self) -> None:
        self.due_ms = NEVER
        """The due time in milliseconds, or NEVER."""
        self.queued_ms = NEVER
        """The time of its entry in the heap, or NEVER; entries at other times are void."""
        self.fell_due_ms = NEVER
        """The due time at which it last became due; ``pop`` may be called later."""

    def disarm(self) -> None:
        """Remove the due time."""
        self.due_ms = NEVER


TimerT = TypeVar("TimerT", bound=Timer)


class Deadlines(Generic[TimerT]):
    """The timers of a core, earliest first; equal times in the order of arming."""

    __slots__ = ("_heap", "_limit", "_sequence", "next_ms")

    def __init__(self) -> None:
        self.next_ms: int | None = None
        """No timer is due before this time; None when no timer is armed."""
        self._heap: list[tuple[int, int, TimerT]] = []
        self._sequence = 0
        self._limit = 1024

    def __len__(self) -> int:
        return len(self._heap)

    def arm(self, timer: TimerT, due_ms: int) -> None:
        """Set the due time, whether or not the timer was armed before."""
        timer.due_ms = due_ms
        if timer.queued_ms > due_ms:
            self._push(timer)

    def pop(self, now_ms: int) -> TimerT | None:
        """Remove the earliest entry, which must be due; returns its timer if the timer itself is
        due.

        A returned timer is no longer armed. None means that the entry was void or too early.
        """
        queued_ms, _, timer = heappop(self._heap)
        self.next_ms = self._heap[0][0] if self._heap else None
        if timer.queued_ms != queued_ms:
            return None
        timer.queued_ms = NEVER
        if timer.due_ms > now_ms:
            if timer.due_ms != NEVER:
                self._push(timer)
            return None
        timer.fell_due_ms = timer.due_ms
        timer.due_ms = NEVER
        return timer

    def _push(self, timer: TimerT) -> None:
        if len(self._heap) >= self._limit:
            self._sweep()
        timer.queued_ms = timer.due_ms
        self._sequence += 1
        heappush(self._heap, (timer.due_ms, self._sequence, timer))
        self.next_ms = self._heap[0][0]

    def _sweep(self) -> None:
        """Drop void entries, so that churn cannot fill the heap; amortised constant time."""
        live = []
        for entry in self._heap:
            timer = entry[2]
            if timer.queued_ms != entry[0]:
                continue
            if timer.due_ms == NEVER:
                timer.queued_ms = NEVER
            else:
                live.append(entry)
        heapify(live)
        self._heap = live
        self._limit = 2 * len(live) + 1024
