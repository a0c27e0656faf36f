"""The handshakes of a broker: whose turn it is, and which last too long.

A step takes one to two milliseconds of arithmetic. So one step of one handshake is done in an
iteration of the loop, and connections that are in already are served in between. Addresses take
turns: a thousand clients that connect at once from one address are let in one after the other, and
a client from another address waits for one step, not for a thousand. A peer that does not go on
costs its memory alone, and that for ten seconds; when there are too many handshakes, the oldest one
of the address with most of them is given up.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Protocol

from broker.loop.watchdog import Watchdog
from broker.time import Time

HANDSHAKE_S_MAX = 10
"""How long a peer may take from its connection to the end of the handshake."""
OPEN_MAX = 2000
"""Handshakes under way; above it the oldest of the busiest address is aborted."""


class Handshake(Protocol):
    """One that is not done yet."""

    address: str
    """The address under which its peer is counted."""

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
        self._waiting: OrderedDict[str, deque[Callable[[], bool]]] = OrderedDict()
        """Steps by address; the first address has the next turn."""
        self._scheduled = False
        self._open: dict[str, dict[Handshake, int]] = {}
        """By address, in the order in which they began, with the second."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def begun(self, handshake: Handshake) -> None:
        """A peer is there."""
        self._open.setdefault(handshake.address, {})[handshake] = self._now_s()
        self._count += 1
        if self._count > OPEN_MAX:
            busiest = max(self._open.values(), key=len)
            oldest = next((each for each in busiest if each.awaits_peer), next(iter(busiest)))
            oldest.give_up(f"more than {OPEN_MAX} TLS handshakes are in progress")

    def over(self, handshake: Handshake) -> None:
        """Removes a handshake that is done, failed or aborted."""
        mates = self._open.get(handshake.address, {})
        if mates.pop(handshake, None) is not None:
            self._count -= 1
            if not mates:
                del self._open[handshake.address]

    def look(self) -> None:
        """Gives up those that last too long; called each second."""
        now_s = self._now_s()
        late = [
            each
            for mates in self._open.values()
            for each, since in mates.items()
            if now_s - since >= HANDSHAKE_S_MAX
        ]
        for handshake in late:
            if handshake.awaits_peer:
                handshake.give_up(f"the TLS handshake took more than {HANDSHAKE_S_MAX} s")

    def step(self, address: str, work: Callable[[], bool]) -> None:
        """Has one step done, soon; ``work`` returns whether there was still something to do."""
        self._waiting.setdefault(address, deque()).append(work)
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        """One step, of the address whose turn it is; the watchdog counts it if it takes long."""
        self._scheduled = False
        began_ns = self._ticks_ns()
        try:
            while self._waiting and not self._take()():
                """Its peer has left: the next step has the turn."""
        finally:
            self._watchdog.ended("handshakes", began_ns)
            if self._waiting:
                self._schedule()

    def _take(self) -> Callable[[], bool]:
        address, steps = self._waiting.popitem(last=False)
        work = steps.popleft()
        if steps:
            self._waiting[address] = steps  # behind all other addresses
        return work
