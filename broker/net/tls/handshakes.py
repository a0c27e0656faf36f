"""Schedules the TLS handshakes of a broker, and aborts handshakes that take too long.

A step takes 1 to 2 ms of computation. Therefore an iteration of the loop runs only one step of one
handshake, and established connections are served between the steps. The addresses take turns: if a
thousand clients connect at once from one address, their handshakes run one after the other, and a
client from another address waits for one step, not for a thousand. A peer that sends nothing uses
only memory, for ten seconds. If more than `OPEN_MAX` handshakes are open, the oldest handshake of
the address with the most handshakes is aborted.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Protocol

from broker.loop.watchdog import Watchdog
from broker.time import Time

HANDSHAKE_S_MAX = 10
"""The number of seconds after the start of a connection within which the handshake must finish."""
OPEN_MAX = 2000
"""The number of open handshakes above which the oldest handshake of the address with the most
handshakes is aborted."""


class Handshake(Protocol):
    """A handshake that has not finished."""

    address: str
    """The address of the peer, under which the handshake is counted."""

    @property
    def awaits_peer(self) -> bool:
        """Returns True if the peer must send the next message of the handshake."""

    def give_up(self, reason: str) -> None:
        """Aborts the handshake and closes the connection."""


class Handshakes:
    """The handshakes of all listeners of one broker; only the event loop's thread may use it."""

    def __init__(self, time: Time, watchdog: Watchdog, now_s: Callable[[], int]) -> None:
        """Creates the object; ``now_s`` returns the monotonic clock in whole seconds, which gives
        the start time of a handshake."""
        self._ticks_ns = time.ticks_ns
        self._watchdog = watchdog
        self._now_s = now_s
        self._waiting: OrderedDict[str, deque[Callable[[], bool]]] = OrderedDict()
        """The queued steps by address; the first address is the next whose step runs."""
        self._scheduled = False
        self._open: dict[str, dict[Handshake, int]] = {}
        """The open handshakes by address, oldest first, each with the second in which it started.
        """
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def begun(self, handshake: Handshake) -> None:
        """Adds a handshake that has begun."""
        self._open.setdefault(handshake.address, {})[handshake] = self._now_s()
        self._count += 1
        if self._count > OPEN_MAX:
            busiest = max(self._open.values(), key=len)
            oldest = next((each for each in busiest if each.awaits_peer), next(iter(busiest)))
            oldest.give_up(f"more than {OPEN_MAX} TLS handshakes are in progress")

    def over(self, handshake: Handshake) -> None:
        """Removes a handshake that succeeded, failed or was aborted."""
        mates = self._open.get(handshake.address, {})
        if mates.pop(handshake, None) is not None:
            self._count -= 1
            if not mates:
                del self._open[handshake.address]

    def look(self) -> None:
        """Aborts handshakes that take too long; called every second."""
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
        """Queues one step; ``work`` returns False if the handshake has already ended."""
        self._waiting.setdefault(address, deque()).append(work)
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        """Runs one step of the next address; the watchdog counts the step if it takes too long."""
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
            self._waiting[address] = steps  # after all other addresses
        return work
