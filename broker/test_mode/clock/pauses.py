"""The pauses between rounds of repeated work: retention, cleaning, expiry of idle producers.

Most rounds have no effect. While a test advances the clock, a pause skips such rounds, so that an
advance of one week does not run 40,000 rounds. For this, the repeated work computes the time until
the next round with an effect. It does so before each round, and after each event that may change
this time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from broker.test_mode.clock.timers import MockTimer, Timers

NEVER_MS = 1 << 60


class Pause:
    """One pause of a background task, between two rounds of the task's work."""

    def __init__(
        self, began_ms: int, pause_s: Callable[[], float], idle_ms: Callable[[], int | None]
    ) -> None:
        self.began_ms = began_ms
        self.pause_s = pause_s
        self.idle_ms = idle_ms
        self.length_ms = _milliseconds(pause_s())
        """The length of the pause in ms. It was computed when the timer was set, and does not
        change afterwards."""
        self.over = asyncio.get_running_loop().create_future()
        self.timer: MockTimer | None = None
        self.is_put_off = False
        """True if the pause was extended at its planned end, because a round of the task would then
        have had no effect."""

    def end(self) -> None:
        if not self.over.done():
            self.over.set_result(None)

    def first_end_ms(self, from_ms: int) -> int:
        """Returns the first possible end of the pause at or after ``from_ms``. The possible ends
        are the multiples of the pause's length, counted from its start."""
        length_ms = max(1, self.length_ms)
        ends = max(1, -((self.began_ms - from_ms) // length_ms))
        return self.began_ms + ends * length_ms


class Pauses:
    """The present pauses of all repeated work that uses the same clock."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._pauses: dict[Pause, None] = {}

    def __len__(self) -> int:
        return len(self._pauses)

    def begin(self, pause: Pause) -> None:
        self._pauses[pause] = None
        self._set(pause, pause.began_ms + pause.length_ms)

    def finish(self, pause: Pause) -> None:
        self._pauses.pop(pause, None)
        if pause.timer is not None:
            pause.timer.cancel()

    def of(self, timer: MockTimer) -> Pause | None:
        """Returns the pause that ends when ``timer`` fires; None for any other timer."""
        return next((each for each in self._pauses if each.timer is timer), None)

    def puts_off(self, pause: Pause, now_ms: int) -> bool:
        """If a round of the task at ``now_ms`` would have no effect, extends the pause and returns
        True. Otherwise returns False, so that the round runs."""
        idle_ms = pause.idle_ms()
        if idle_ms is not None and idle_ms <= 0:
            return False
        pause.is_put_off = True
        self._set(pause, NEVER_MS if idle_ms is None else pause.first_end_ms(now_ms + idle_ms))
        return True

    def ask_again(self, now_ms: int) -> None:
        """Called after an event that may create work for tasks in an extended pause. Ends each
        extended pause, not immediately, but at the next time at which the pause would have ended
        without any extension."""
        for pause in self._pauses:
            if pause.is_put_off:
                pause.is_put_off = False
                self._set(pause, pause.first_end_ms(now_ms + 1))

    def altered(self) -> bool:
        """Updates the lengths of all pauses. Returns True if any length has changed."""
        found = False
        for pause in self._pauses:
            length_ms = _milliseconds(pause.pause_s())
            if length_ms != pause.length_ms:
                pause.length_ms, found = length_ms, True
                self._set(pause, pause.began_ms + length_ms)
        return found

    def clear(self) -> None:
        for pause in list(self._pauses):
            pause.over.cancel()
        self._pauses.clear()

    def _set(self, pause: Pause, due_ms: int) -> None:
        if pause.timer is not None:
            pause.timer.cancel()
        loop = pause.over.get_loop()
        pause.timer = self._timers.add(due_ms, pause.end, (), loop)


def _milliseconds(seconds: float) -> int:
    return max(0, round(seconds * 1000))
