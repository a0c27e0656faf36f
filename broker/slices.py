"""Long work in the loop's thread, cut into slices between which requests have their turn."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from time import perf_counter

SLICE_S = 0.004
"""How long one slice may hold the loop."""


class Slices:
    """Ends the slice that is running when it has held the loop for long enough."""

    def __init__(self) -> None:
        self.held_s = 0.0
        """How long the ended slices have held the loop, all together."""
        self._since = perf_counter()

    @property
    def over(self) -> bool:
        """Whether others should have their turn."""
        return perf_counter() - self._since > SLICE_S

    def end(self) -> float:
        """End the work, or this part of it; returns ``held_s``."""
        now = perf_counter()
        self.held_s += now - self._since
        self._since = now
        return self.held_s

    async def pause(self) -> None:
        """Let the others have their turn."""
        self.end()
        await asyncio.sleep(0)
        self._since = perf_counter()

    async def wait_for(self, what: Awaitable[object], at_most_s: float) -> None:
        """Wait for what others do, and not for longer than that; it does not count as held."""
        self.end()
        with suppress(TimeoutError):
            async with asyncio.timeout(at_most_s):
                await what
        self._since = perf_counter()
