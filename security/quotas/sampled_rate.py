"""The rate per second of an amount, such as bytes, over the latest windows of time.

An amount is added to the open window. Once the open window has its full length, the next amount
opens a new window, which replaces the oldest one. A window that got no amount for the duration of
all windows is emptied at the next read. The rate is the sum of the windows, divided by the time
since the oldest window began.

The divisor has a minimum. For replication (`SampledRate`; Kafka's ``SimpleRate``) it is the length
of one window. For clients (`ClientRate`; Kafka's ``Rate``) it is the length of all windows except
one, so that a burst after a pause is averaged over ten seconds instead of one second.

Source: Kafka 3.9 ``SampledStat``, ``SimpleRate``, ``Rate``, ``QuotaUtils``.
"""

from __future__ import annotations


class _Window:
    """A period of time, and the amount that was recorded in it."""

    __slots__ = ("amount", "began_ms", "last_ms")

    def __init__(self, now_ms: int) -> None:
        self.empty(now_ms)

    def empty(self, now_ms: int) -> None:
        """Restarts the window at ``now_ms`` with the amount 0."""
        self.began_ms = self.last_ms = now_ms
        self.amount: float = 0


class SampledRate:
    """The rate of an amount over the latest time windows. The sum of the windows is divided by the
    elapsed time, but at least by the length of one window, as in Kafka's replication quotas. Times
    are monotonic."""

    def __init__(self, windows: int, window_ms: int) -> None:
        self.window_ms = window_ms
        self._most = windows + 1
        """The maximum number of stored windows. It is one more than the number in the setting,
        because the measured time contains only a part of the oldest window."""
        self._span_ms = windows * window_ms
        self._windows: list[_Window] = []
        self._open = 0
        """The index of the open window, to which amounts are added."""

    def record(self, amount: float, now_ms: int) -> None:
        window = self._current(now_ms)
        if now_ms - window.began_ms >= self.window_ms:
            window = self._next(now_ms)
        window.amount += amount
        window.last_ms = now_ms

    def per_second(self, now_ms: int) -> float:
        total, since_ms = self._whole(now_ms)
        return total * 1000 / self._measured_ms(now_ms - since_ms)

    def _measured_ms(self, elapsed_ms: int) -> int:
        """Returns the number of ms by which the sum of all windows is divided. ``elapsed_ms`` is
        the time since the oldest window began."""
        return max(elapsed_ms, self.window_ms)

    def _whole(self, now_ms: int) -> tuple[float, int]:
        """Returns the sum of the amounts in all windows of the rate, and the time at which the
        oldest window began."""
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
    """The rate of a client, as in Kafka: the recorded amount divided by the measured time. If N
    windows are configured and fewer than N - 1 windows have passed, the missing windows are added
    to the measured time."""

    __slots__ = ()

    def _measured_ms(self, elapsed_ms: int) -> int:
        missing = self._most - 2 - elapsed_ms // self.window_ms
        return elapsed_ms + max(0, missing) * self.window_ms

    def take_back(self, amount: float, now_ms: int) -> None:
        """Subtracts an amount (such as a number of bytes) that was recorded but not sent."""
        self._current(now_ms).amount -= amount

    def wait_ms(self, allowed_per_second: float, now_ms: int) -> int:
        """Returns the throttle time in ms: the time after which the measured rate equals the
        allowed rate, if nothing more is recorded. Returns 0 if the rate does not exceed the allowed
        rate."""
        total, since_ms = self._whole(now_ms)
        measured_ms = self._measured_ms(now_ms - since_ms)
        if total * 1000 <= allowed_per_second * measured_ms:
            return 0
        return round(total * 1000 / allowed_per_second - measured_ms)
