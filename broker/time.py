"""The clocks of the process: monotonic for whatever waits, wall for whatever is stored.

Everything that waits here waits for somebody else: a session for its member's heartbeat, a join for
those who have still to join. While the event loop stands (the process was stopped, the machine
gives it no time, a piece of our own work is long) nobody's request is read, so that this time must
count against nobody (law 9). The monotonic clock leaves it out: with it all deadlines move at once,
and nobody who keeps one has to know. `broker/loop/pulse.py` is what proves that the loop goes
round.
"""

from __future__ import annotations

from time import monotonic, time

from coordinator.calls import Now

TRUSTED_MS = 200
"""So long after a sign of life of the loop the clock goes on without another one."""
_ALWAYS = 1 << 62


class Clock:
    """Reads both clocks; tests give the runtime one that they move by hand."""

    __slots__ = ("_last", "_system_ms", "_trusted_until_ms", "left_out_ms")

    def __init__(self) -> None:
        self._system_ms = -1
        """The system's monotonic clock at the last reading."""
        self._last = Now(-1, -1)
        self._trusted_until_ms = _ALWAYS
        self.left_out_ms = 0
        """How much of the system's monotonic time is not in ``mono_ms``."""

    def now(self) -> Now:
        """Both clocks in milliseconds; within one of them the same reading serves again."""
        system_ms = int(monotonic() * 1000)
        if system_ms != self._system_ms:
            if system_ms > self._trusted_until_ms:
                # Whoever reads first after a pause, a timer or a socket, finds it left out. Until
                # the next sign of life the clock stands at its last reading: it never goes back.
                self.left_out_ms = system_ms - self._last.mono_ms
            self._system_ms = system_ms
            self._last = Now(system_ms - self.left_out_ms, int(time() * 1000))
        return self._last

    def loop_lives(self) -> None:
        """The event loop has just looked at its sockets; call it at least every `TRUSTED_MS`."""
        self.now()  # what has passed until now is left out, if it has to be
        self._trusted_until_ms = int(monotonic() * 1000) + TRUSTED_MS

    def run_free(self) -> None:
        """Nobody calls `loop_lives` any more: no time is left out from now on."""
        self.now()
        self._trusted_until_ms = _ALWAYS
