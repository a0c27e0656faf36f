"""The watchdog counts, by name, pieces of work that blocked the loop for longer than law 9 allows.

As long as a piece of work blocks the event loop, no other client is served. The code that runs a
piece measures the duration and reports it to the watchdog; nothing is measured twice and nothing is
sampled. The name of a piece is known to the operator: the name of an API, or one of
`broker.loop.pieces`.
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
"""A piece that takes longer than this number of nanoseconds is counted. Law 9 allows 10 ms; a busy
machine doubles the measured time."""
LOGGED_NS = 200_000_000
"""A piece that takes longer than this number of nanoseconds is logged."""


class Watchdog:
    """Counts pieces of work that took too long; only the event loop's thread may use it."""

    def __init__(self, time: Time) -> None:
        self._ticks_ns = time.ticks_ns
        self.counts: defaultdict[str, int] = defaultdict(int)
        """The number of pieces that blocked the loop for longer than `HELD_NS_MAX`, by name."""
        self.longest_ns: defaultdict[str, int] = defaultdict(int)
        """The longest time in nanoseconds for which a piece blocked the loop, by name."""
        self._counted_ns = 0
        """The time at which a piece was last counted, in nanoseconds of the performance counter."""

    def ended(self, name: str, began_ns: int) -> None:
        """Reports the end of the piece ``name``, which began at ``began_ns``. If a part of the
        piece has already been counted, the piece is not counted again."""
        now_ns = self._ticks_ns()
        if now_ns - began_ns > HELD_NS_MAX and self._counted_ns < began_ns:
            self.held(name, now_ns - began_ns)

    def task(self, name: str, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Creates and returns a task that runs ``work`` and that the watchdog measures.

        If the task is cancelled before its first step, the task also closes ``work``.
        """
        task = asyncio.get_running_loop().create_task(self.watched(name, work))
        task.add_done_callback(lambda _: work.close())
        return task

    async def watched(self, name: str, work: Coroutine[Any, Any, Result]) -> Result:
        """Runs ``work``; the watchdog measures each step between two waits as a piece with the name
        ``name``."""
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
        """Reports that the piece ``name`` blocked the loop for ``held_ns``; ignores short
        pieces."""
        if held_ns <= HELD_NS_MAX:
            return
        self.counts[name] += 1
        self._counted_ns = self._ticks_ns()
        self.longest_ns[name] = max(self.longest_ns[name], held_ns)
        if held_ns > LOGGED_NS:
            logger.warning("event loop blocked", work=name, held_ms=held_ns // 1_000_000)
