"""Counts, by name, pieces of work that blocked the event loop for longer than ARCHITECTURE.md, law
9, allows.

While a piece of work blocks the loop, no other client is served. The code that runs a piece
measures its duration and reports it. Nothing is measured twice, and nothing is sampled. A piece has
a name that the operator knows: the name of an API, or one of `broker.loop.pieces`.
"""

from __future__ import annotations

import asyncio
import types
from collections import defaultdict
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, TypeVar

import structlog

from broker.time import Time

Result = TypeVar("Result")

logger = structlog.get_logger(__name__)

HELD_NS_MAX = 20_000_000
"""The duration in nanoseconds above which the watchdog counts a piece of work that blocks the event
loop.

Law 9 of ARCHITECTURE.md allows 10 ms. On a busy machine the measured time may be twice as long.
"""
LOGGED_NS = 200_000_000
"""The duration in nanoseconds for which work must block the event loop to be logged."""


class Watchdog:
    """Counts how often work blocked the event loop for too long. Only the event loop's thread may
    use this class."""

    def __init__(self, time: Time) -> None:
        self._ticks_ns = time.ticks_ns
        self.counts: defaultdict[str, int] = defaultdict(int)
        """By the name of a kind of work: how often such work blocked the event loop for longer than
        `HELD_NS_MAX`."""
        self.longest_ns: defaultdict[str, int] = defaultdict(int)
        """By the name of a kind of work: the longest time in nanoseconds for which counted work
        blocked the event loop."""
        self._counted_ns = 0
        """The time at which the watchdog last counted work that blocked the loop, in nanoseconds of
        the performance counter."""

    def ended(self, name: str, began_ns: int) -> None:
        """Called when the work ``name``, which began at ``began_ns``, has ended. Counts the work if
        it blocked the event loop for too long, unless a part of the work was counted before."""
        now_ns = self._ticks_ns()
        if now_ns - began_ns > HELD_NS_MAX and self._counted_ns < began_ns:
            self.held(name, now_ns - began_ns)

    def task(self, name: str, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Returns a new task that runs ``work``, measured as in `watched`. If the task is cancelled
        before its first step, ``work`` is closed."""
        task = asyncio.get_running_loop().create_task(self.watched(name, work))
        task.add_done_callback(lambda _: work.close())
        return task

    async def watched(self, name: str, work: Coroutine[Any, Any, Result]) -> Result:
        """Runs the coroutine ``work``, and returns its result. Measures how long each step of
        ``work``, from one wait to the next, blocks the event loop. ``name`` is the name of this
        work."""
        return await self._stepped(name, work)

    @types.coroutine
    def _stepped(self, name: str, work: Coroutine[Any, Any, Result]) -> Generator[Any, Any, Result]:
        step: Callable[[], Any] = partial(work.send, None)
        while True:
            began_ns = self._ticks_ns()
            try:
                waits_for = step()
            except StopIteration as end:
                result: Result = end.value
                return result
            finally:
                self.ended(name, began_ns)
            try:
                step = partial(work.send, (yield waits_for))
            except BaseException as error:  # noqa: BLE001 - the work handles it
                step = partial(work.throw, error)

    def held(self, name: str, held_ns: int) -> None:
        """Counts work with the name ``name`` that blocked the event loop for ``held_ns``. Has no
        effect if ``held_ns`` is not above `HELD_NS_MAX`."""
        if held_ns <= HELD_NS_MAX:
            return
        self.counts[name] += 1
        self._counted_ns = self._ticks_ns()
        self.longest_ns[name] = max(self.longest_ns[name], held_ns)
        if held_ns > LOGGED_NS:
            logger.warning("event loop blocked", work=name, held_ms=held_ns // 1_000_000)
