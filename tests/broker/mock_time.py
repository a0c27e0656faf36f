"""A clock that advances only when a test calls `move`."""

from __future__ import annotations

import asyncio

from broker.time import Time
from protocol.now import Now

IDLE_MS = 1 << 50
"""The value of connections.max.idle.ms for a broker under `MockTime`. With a shorter limit, the
broker would close connections as idle when a test advances the clock."""


class MockTime(Time):
    """A `Time` whose wall clock and monotonic clock advance only when a test calls `move`. Timers
    and threads use real time."""

    def __init__(self, wall_ms: int = 1_700_000_000_000) -> None:
        super().__init__()
        self.mono_ms = 1_000_000
        self.wall_ms = wall_ms

    def now(self) -> Now:
        return Now(self.mono_ms, self.wall_ms)

    def move(self, by_ms: int) -> None:
        self.mono_ms += by_ms
        self.wall_ms += by_ms


class NoWaiting(Time):
    """A `Time` that records each sleep and ends the sleep immediately."""

    def __init__(self) -> None:
        super().__init__()
        self.slept_s: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        await asyncio.sleep(0)
