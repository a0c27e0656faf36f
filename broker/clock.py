"""The clocks of the process: monotonic for whatever waits, wall for whatever is stored."""

from __future__ import annotations

from time import monotonic, time

from coordinator.calls import Now


class Clock:
    """Reads both clocks; tests give the runtime one that they move by hand."""

    __slots__ = ("_last", "_last_ms")

    def __init__(self) -> None:
        self._last_ms = -1
        self._last = Now(-1, -1)

    def now(self) -> Now:
        """Both clocks in milliseconds; within one of them the same reading serves again."""
        mono_ms = int(monotonic() * 1000)
        if mono_ms != self._last_ms:
            self._last_ms = mono_ms
            self._last = Now(mono_ms, int(time() * 1000))
        return self._last
