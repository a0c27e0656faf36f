"""The broker's clock, threads and random numbers in a simulation: a virtual clock, no threads, and
a seeded generator.

Each read of the performance counter advances it: mostly by microseconds, and sometimes by
milliseconds, as on a busy machine. Slices of work therefore end, and end at the same points for the
same seed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from itertools import cycle
from random import Random
from typing import TypeVar

from broker.time import Threads, Time
from tests.simulation.whole.agenda import MS, S
from tests.simulation.whole.virtual_loop import VirtualLoop

Item = TypeVar("Item")
Result = TypeVar("Result")

WALL_S = 1_700_000_000
_STEPS_NS = (200, 700, 1_500, 3_000, 20_000, 300_000, 2 * MS, 9 * MS)
_OF_A_THOUSAND = (500, 300, 120, 60, 15, 3, 1, 1)


class VirtualTime(Time):
    """The clock of one broker on one event loop. ``wall_ahead_s()`` returns the seconds by which
    the broker's wall clock is ahead of the simulation's time."""

    __slots__ = ("_ids", "loop")

    def __init__(
        self, loop: VirtualLoop, chance: Random, wall_ahead_s: Callable[[], float]
    ) -> None:
        self.loop = loop
        steps = cycle(chance.choices(_STEPS_NS, _OF_A_THOUSAND, k=4096))

        def ticks_ns() -> int:
            loop.now_ns += next(steps)
            return loop.now_ns

        super().__init__(
            monotonic_s=loop.time,
            wall_s=lambda: WALL_S + loop.now_ns / S + wall_ahead_s(),
            ticks_ns=ticks_ns,
            cpu_s=loop.time,
            chance=Random(chance.random()),
        )
        self._ids = Random(chance.random())

    def threads(self, count: int, name: str) -> Threads:
        return InlineThreads(self.loop)

    def fresh_id(self) -> bytes:
        return self._ids.randbytes(16)


class InlineThreads(Threads):
    """Executes jobs for threads in the event loop at a later time. `map` executes its jobs at once,
    in random order."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._waiting: dict[asyncio.Future[object], None] = {}

    def run(self, work: Callable[[], Result]) -> asyncio.Future[Result]:
        future = self._loop.run_in_executor(None, work)
        self._waiting[future] = None
        future.add_done_callback(lambda done: self._waiting.pop(done, None))
        return future

    def map(self, work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        places = list(enumerate(items))
        self._loop.chance.shuffle(places)
        done = {place: work(item) for place, item in places}
        return [done[place] for place in sorted(done)]

    def stop(self) -> None:
        for future in list(self._waiting):
            future.cancel()
