"""Schedules the TLS handshakes of a broker, and aborts handshakes that take too long.

A handshake step computes for 1 to 2 ms. Therefore each iteration of the event loop runs only one
step, and established connections are served between the steps. The peers' addresses take turns: if
a thousand clients connect at once from one address, a client from another address waits only for
one step.

A peer that sends nothing uses only memory, for at most `HANDSHAKE_S_MAX` seconds. If more than
`OPEN_MAX` handshakes are open, the oldest handshake of the address with the most handshakes is
aborted.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Protocol

from broker.loop.watchdog import Watchdog
from broker.time import Time

HANDSHAKE_S_MAX = 10
"""The number of seconds after the connection's start within which its handshake must finish."""
OPEN_MAX = 2000
"""The maximum number of open handshakes. If more are open, the broker aborts one of them: it
selects the address with the most handshakes, and the oldest handshake of this address."""


class Handshake(Protocol):
    """A handshake that has not finished."""

    address: str
    """The address of the peer, under which the handshake is counted."""

    @property
    def awaits_peer(self) -> bool: ...

    def give_up(self, reason: str) -> None: ...


class Handshakes:
    """The handshakes of all listeners of one broker; only the event loop's thread may use this
    class."""

    def __init__(self, time: Time, watchdog: Watchdog, now_s: Callable[[], int]) -> None:
        """Creates the object. ``now_s`` returns the monotonic clock in whole seconds."""
        self._ticks_ns = time.ticks_ns
        self._watchdog = watchdog
        self._now_s = now_s
        self._waiting: OrderedDict[str, deque[Callable[[], bool]]] = OrderedDict()
        """By peer address: the queued steps of its handshakes. The queue of the first address in
        this dict is served next."""
        self._scheduled = False
        self._open: dict[str, dict[Handshake, int]] = {}
        """The open handshakes by peer address, oldest first, each with its start time in seconds.
        """
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def begun(self, handshake: Handshake) -> None:
        self._open.setdefault(handshake.address, {})[handshake] = self._now_s()
        self._count += 1
        if self._count > OPEN_MAX:
            busiest = max(self._open.values(), key=len)
            oldest = next((each for each in busiest if each.awaits_peer), next(iter(busiest)))
            oldest.give_up(f"more than {OPEN_MAX} TLS handshakes are in progress")

    def over(self, handshake: Handshake) -> None:
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
        """Queues one step of a handshake. ``work`` does the step, and returns False if the
        handshake has already ended."""
        self._waiting.setdefault(address, deque()).append(work)
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        """Runs one step of a handshake, for the next address in turn. The watchdog counts the step
        if it takes too long."""
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
