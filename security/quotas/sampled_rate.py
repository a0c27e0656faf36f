"""How much of something there is per second, over the last windows of time.

An amount goes to the window that is open. A window that is as old as it may be is closed by the
next amount, and the oldest one makes room. A window in which nothing came for as long as all of
them last is emptied when somebody asks. The rate is what the windows hold, divided by the time
since the oldest began.

That time counts as one window at least for replication (`SampledRate`; Kafka's ``SimpleRate``), and
as all windows but one for clients (`ClientRate`; Kafka's ``Rate``), so that one burst after a pause
is held against ten seconds and not against one.

Source: Kafka 3.9 ``SampledStat``, ``SimpleRate``, ``Rate``, ``QuotaUtils``.
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
        self.amount: float = 0


class SampledRate:
    """See the module. Times are monotonic."""

    def __init__(self, windows: int, window_ms: int) -> None:
        self.window_ms = window_ms
        self._most = windows + 1
        """One more than is asked for: the oldest is partly out of what is looked at."""
        self._span_ms = windows * window_ms
        self._windows: list[_Window] = []
        self._open = 0
        """The index of the window that takes amounts."""

    def record(self, amount: float, now_ms: int) -> None:
        """So much came."""
        window = self._current(now_ms)
        if now_ms - window.began_ms >= self.window_ms:
            window = self._next(now_ms)
        window.amount += amount
        window.last_ms = now_ms

    def per_second(self, now_ms: int) -> float:
        """The rate as it is now."""
        total, since_ms = self._whole(now_ms)
        return total * 1000 / self._measured_ms(now_ms - since_ms)

    def _measured_ms(self, elapsed_ms: int) -> int:
        """What the amounts are divided by, when the oldest window began so long ago."""
        return max(elapsed_ms, self.window_ms)

    def _whole(self, now_ms: int) -> tuple[float, int]:
        """What all windows hold, and when the oldest of them began."""
        self._current(now_ms)
        total: float = 0
        since_ms = now_ms
        for window in self._windows:
            if now_ms - window.last_ms >= self._span_ms:
                window.empty(now_ms)
            total += window.amount
            since_ms = min(since_ms, window.began_ms)
        return total, since_ms

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


class ClientRate(SampledRate):
    """The rate of a client's quota; `wait_ms` says how long it has to be left alone."""

    __slots__ = ()

    def _measured_ms(self, elapsed_ms: int) -> int:
        missing = self._most - 2 - elapsed_ms // self.window_ms
        return elapsed_ms + max(0, missing) * self.window_ms

    def take_back(self, amount: float, now_ms: int) -> None:
        """What was recorded is not to be held against anybody: it was not sent."""
        self._current(now_ms).amount -= amount

    def wait_ms(self, allowed_per_second: float, now_ms: int) -> int:
        """How long nothing more may come for the rate to fall to what is allowed; 0 if it is."""
        total, since_ms = self._whole(now_ms)
        measured_ms = self._measured_ms(now_ms - since_ms)
        if total * 1000 <= allowed_per_second * measured_ms:
            return 0
        return round(total * 1000 / allowed_per_second - measured_ms)
