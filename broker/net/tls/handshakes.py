"""The handshakes of a broker: whose turn it is, and which last too long.

A step takes one to two milliseconds of arithmetic. So one step of one handshake is done in an
iteration of the loop: a thousand clients that come at once are let in one behind the other, and
whoever is in already is served in between. A peer that does not go on costs its memory alone, and
that for ten seconds; when there are too many of them, the oldest goes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from broker.loop.watchdog import Watchdog
from broker.time import Time

HANDSHAKE_S_MAX = 10
"""How long a peer may take from its connection to the end of the handshake."""
OPEN_MAX = 2000
"""Handshakes in which a peer is waited for; above it the oldest is given up."""


class Handshake(Protocol):
    """One that is not done yet."""

    @property
    def awaits_peer(self) -> bool:
        """Whether the next step is the peer's."""

    def give_up(self, reason: str) -> None:
        """Closes the connection."""


class Handshakes:
    """Of all listeners of one broker; use from the event loop's thread alone."""

    def __init__(self, time: Time, watchdog: Watchdog, now_s: Callable[[], int]) -> None:
        """``now_s``: whole seconds of the monotonic clock, as they are when a peer comes."""
        self._ticks_ns = time.ticks_ns
        self._watchdog = watchdog
        self._now_s = now_s
        self._waiting: deque[Callable[[], None]] = deque()
        self._scheduled = False
        self._open: dict[Handshake, int] = {}
        """In the order in which they began, with the second."""

    def __len__(self) -> int:
        return len(self._open)

    def begun(self, handshake: Handshake) -> None:
        """A peer is there."""
        self._open[handshake] = self._now_s()
        if len(self._open) > OPEN_MAX:
            oldest = next((each for each in self._open if each.awaits_peer), None)
            if oldest is not None:
                oldest.give_up(f"more than {OPEN_MAX} handshakes wait for their peers")

    def over(self, handshake: Handshake) -> None:
        """It is done, failed or given up."""
        self._open.pop(handshake, None)

    def look(self) -> None:
        """Gives up those that last too long; called each second."""
        now_s = self._now_s()
        late = [each for each, since in self._open.items() if now_s - since >= HANDSHAKE_S_MAX]
        for handshake in late:
            if handshake.awaits_peer:
                handshake.give_up(f"the handshake took more than {HANDSHAKE_S_MAX} s")

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
        self.do(work)

    def do(self, work: Callable[[], None]) -> None:
        """One step, now; the watchdog counts it where it takes long."""
        began_ns = self._ticks_ns()
        try:
            work()
        finally:
            self._watchdog.ended("handshakes", began_ns)
