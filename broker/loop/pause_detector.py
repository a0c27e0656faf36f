"""The pulse: tells the clock that the event loop runs, and the operator when it did not.

Ten times a second it moves the time up to which the clock is trusted. After a pause the clock
stands still until the sockets have been read once: what members sent meanwhile is read before any
of the deadlines that they would have met can fall due.
"""

from __future__ import annotations

import asyncio

import structlog

from broker.time import Time

logger = structlog.get_logger(__name__)

BEAT_S = 0.1
LOGGED_MS = 1000
"""Pauses from this length on get a line in the log."""


class PauseDetector:
    """One for a broker, in its event loop."""

    def __init__(self, time: Time) -> None:
        self.pauses = 0
        """How often the loop stood still for so long that the clock left it out."""
        self._time = time
        self._left_out_ms = 0
        """What the clock had left out at the last beat."""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def paused_s(self) -> float:
        """How long all pauses were together."""
        return self._time.left_out_ms / 1000

    def start(self) -> None:
        """Beat from now on."""
        self._left_out_ms = self._time.left_out_ms
        self._arm()
        self._time.loop_lives()

    def stop(self) -> None:
        """Beat no more; the clock runs on as the system's does."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._time.run_free()

    def _arm(self) -> None:
        self._timer = self._time.call_later(BEAT_S, self._beat)

    def _beat(self) -> None:
        self._arm()
        self._time.now()
        if self._time.left_out_ms == self._left_out_ms:
            self._time.loop_lives()
            return
        # A timer that is late runs before the sockets are looked at, and so does what it calls
        # soon (in uvloop); what that calls soon in its turn runs after them.
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.call_soon, self._paused)

    def _paused(self) -> None:
        if self._timer is None:
            return
        self._time.loop_lives()
        paused_ms = self._time.left_out_ms - self._left_out_ms
        self._left_out_ms = self._time.left_out_ms
        self.pauses += 1
        if paused_ms >= LOGGED_MS:
            logger.warning(
                "broker was paused, all deadlines extended",
                paused_ms=paused_ms,
            )
