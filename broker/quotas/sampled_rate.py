"""How much of something there is per second, over the last windows of time. Pure.

An amount goes to the window that is open. A window that is as old as it may be is closed by the
next amount, and the oldest one makes room. A window in which nothing came for as long as all of
them last is emptied when somebody asks. The rate is what the windows hold, divided by the time
since the oldest began, which counts as one window at least.

Source: Kafka 3.9 ``SampledStat`` and ``SimpleRate``.
"""

from __future__ import annotations


class _Window:
    """A stretch of time, and what came in it."""

    __slots__ = ("amount", "began_ms", "last_ms")

    def __init__(self, now_ms: int) -> None:
        self.empty(now_ms)

    def empty(self, now_ms: int) -> None:
        """Begins now, with nothing in it."""
        self.began_ms = self.last_ms = now_ms
        self.amount = 0


class SampledRate:
    """See the module. Times are monotonic."""

    def __init__(self, windows: int, window_ms: int) -> None:
        self._most = windows + 1
        """One more than is asked for: the oldest is partly out of what is looked at."""
        self._window_ms = window_ms
        self._span_ms = windows * window_ms
        self._windows: list[_Window] = []
        self._open = 0
        """The index of the window that takes amounts."""

    def record(self, amount: int, now_ms: int) -> None:
        """So much came."""
        window = self._current(now_ms)
        if now_ms - window.began_ms >= self._window_ms:
            window = self._next(now_ms)
        window.amount += amount
        window.last_ms = now_ms

    def per_second(self, now_ms: int) -> float:
        """The rate as it is now."""
        self._current(now_ms)
        total, since_ms = 0, now_ms
        for window in self._windows:
            if now_ms - window.last_ms >= self._span_ms:
                window.empty(now_ms)
            total += window.amount
            since_ms = min(since_ms, window.began_ms)
        return total * 1000 / max(now_ms - since_ms, self._window_ms)

    def _current(self, now_ms: int) -> _Window:
        if not self._windows:
            self._windows.append(_Window(now_ms))
        return self._windows[self._open]

    def _next(self, now_ms: int) -> _Window:
        self._open = (self._open + 1) % self._most
        if self._open == len(self._windows):
            self._windows.append(_Window(now_ms))
        window = self._windows[self._open]
        window.empty(now_ms)
        return window
