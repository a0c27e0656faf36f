"""The clocks of the process: monotonic for whatever waits, wall for whatever is stored."""

from __future__ import annotations

from time import monotonic_ns, time_ns

from coordinator.calls import Now


class Clock:
    """Reads both clocks; tests give the runtime one that they move by hand."""

    def now(self) -> Now:
        """Both clocks in milliseconds."""
        return Now(monotonic_ns() // 1_000_000, time_ns() // 1_000_000)
