"""Deadlines of a core: timers in a heap that is corrected lazily.

A heartbeat only assigns a later time to a timer's ``due_ms``, and disarming a timer is an
assignment too. The entry in the heap then has a time that is too early. It is corrected when this
time is reached. Only a move to an earlier time needs ``arm``. Invariant: a timer with a due time
has an entry in the heap at or before this time.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

NEVER = 1 << 62


class Timer:
    """One deadline. All timers of a heap must use the same clock."""

    __slots__ = ("due_ms", "fell_due_ms", "queued_ms")

    def __init__(self) -> None:
        self.due_ms = NEVER
        """The due time in milliseconds, or NEVER."""
        self.queued_ms = NEVER
        """The time of the timer's valid entry in the heap, or NEVER. Entries of the timer with
        other times are void."""
        self.fell_due_ms = NEVER
        """The time at which the timer was due when ``pop`` last returned it. ``pop`` may have been
        called later than that."""

    def disarm(self) -> None:
        self.due_ms = NEVER


TimerT = TypeVar("TimerT", bound=Timer)


class Deadlines(Generic[TimerT]):
    """The timers of a core, ordered by due time. Timers with the same due time keep the order in
    which they were armed."""

    __slots__ = ("_heap", "_limit", "_sequence", "_slack", "next_ms")

    def __init__(self, slack: int = 1024) -> None:
        """``slack`` is the number of invalid entries that the heap may contain in addition to one
        valid entry for each timer."""
        self.next_ms: int | None = None
        """A lower bound of all due times; None if the heap is empty."""
        self._heap: list[tuple[int, int, TimerT]] = []
        self._sequence = 0
        self._slack = slack
        self._limit = slack

    def __len__(self) -> int:
        return len(self._heap)

    def arm(self, timer: TimerT, due_ms: int) -> None:
        """Sets the due time of a timer, which may be armed already."""
        timer.due_ms = due_ms
        if timer.queued_ms > due_ms:
            self._push(timer)

    def pop(self, now_ms: int) -> TimerT | None:
        """Removes the earliest entry of the heap; the caller has checked that its time is reached.
        Disarms and returns the timer of the entry. Returns None if this timer has been disarmed, or
        set to a later time."""
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
        """Removes outdated entries from the heap: their timer now has another deadline or is
        disarmed. Otherwise frequent changes would fill the heap. The amortised cost per change is
        constant."""
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
        self._limit = 2 * len(live) + self._slack
