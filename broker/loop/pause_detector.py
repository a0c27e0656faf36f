"""Detects pauses of the event loop, reports them, and excludes them from the broker's clock.

Ten times a second, a beat extends the time up to which the clock may advance. After a pause, the
clock does not advance until the sockets have been read once. Thus the broker reads the requests
that members sent during the pause before the deadlines of these members can expire.
"""

from __future__ import annotations

import asyncio

import structlog

from broker.time import Time

logger = structlog.get_logger(__name__)

BEAT_S = 0.1
LOGGED_MS = 1000
"""The broker logs a pause whose length in ms is at least this number."""


class PauseDetector:
    """Detects pauses of one broker's event loop."""

    def __init__(self, time: Time) -> None:
        self.pauses = 0
        """The number of detected pauses. The broker's clock does not count the time of a pause."""
        self._time = time
        self._left_out_ms = 0
        """The total paused time in ms (`Time.left_out_ms`) when the periodic timer last fired. The
        broker's clock does not count this time."""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def paused_s(self) -> float:
        """The total length in seconds of all pauses since the start."""
        return self._time.left_out_ms / 1000

    def start(self) -> None:
        """Starts the periodic timer that detects pauses. The broker's clock advances when the timer
        fires."""
        self._left_out_ms = self._time.left_out_ms
        self._arm()
        self._time.loop_lives()

    def stop(self) -> None:
        """Stops the periodic beats. Afterwards pauses are no longer excluded from the clock."""
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
        # A late timer runs before the sockets are read; so does a callback that the timer schedules
        # by call_soon (in uvloop). A callback that this callback schedules runs after the sockets
        # are read.
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
