"""A clock that advances only when a test moves it."""

from __future__ import annotations

import asyncio

from broker.time import Time
from protocol.now import Now

IDLE_MS = 1 << 50
"""connections.max.idle.ms of a broker under `MockTime`.

The check for idle connections runs each real second: an advance of the clock must not close them.
"""


class MockTime(Time):
    """Both clocks of `now` move only by the test; the rest is the system's."""

    def __init__(self, wall_ms: int = 1_700_000_000_000) -> None:
        super().__init__()
        self.mono_ms = 1_000_000
        self.wall_ms = wall_ms

    def now(self) -> Now:
        return Now(self.mono_ms, self.wall_ms)

    def move(self, by_ms: int) -> None:
        """Advances both clocks."""
        self.mono_ms += by_ms
        self.wall_ms += by_ms


class NoWaiting(Time):
    """A clock whose sleeps are recorded and end at once."""

    def __init__(self) -> None:
        super().__init__()
        self.slept_s: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        await asyncio.sleep(0)
