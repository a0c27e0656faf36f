"""The handshakes that wait for their turn: one step of one of them an iteration of the loop.

A step takes one to two milliseconds of arithmetic. So a thousand clients that come at once are let
in one behind the other, and whoever is in already is served in between.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class Handshakes:
    """Of all listeners of one broker; use from the event loop's thread alone."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._scheduled = False

    def __len__(self) -> int:
        return len(self._waiting)

    def step(self, work: Callable[[], None]) -> None:
        """Has one step done, soon."""
        self._waiting.append(work)
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self._scheduled = False
        work = self._waiting.popleft()
        if self._waiting:
            self._schedule()
        work()
