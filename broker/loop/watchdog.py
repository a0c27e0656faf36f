"""The watchdog counts, by name, pieces of work that held the loop longer than law 9 allows.

While a piece of work holds the event loop, no other client is served. The code that runs a piece
measures it and reports it to the watchdog; nothing is measured twice and nothing is sampled. A
piece has a name that the operator knows: the name of an API, or one of `broker.loop.pieces`.
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
"""Nanoseconds above which a piece is counted. The law says 10 ms; a busy machine doubles the
measured time."""
LOGGED_NS = 200_000_000
"""Nanoseconds above which a piece is logged."""


class Watchdog:
    """Counts the pieces of work that were too long; only the event loop's thread may use it."""

    def __init__(self, time: Time) -> None:
        self._ticks_ns = time.ticks_ns
        self.counts: defaultdict[str, int] = defaultdict(int)
        """By name: the number of pieces that held the loop for longer than `HELD_NS_MAX`."""
        self.longest_ns: defaultdict[str, int] = defaultdict(int)
        """By name: the longest time in nanoseconds for which a piece held the loop."""
        self._counted_ns = 0
        """The time at which a piece was last counted, by the performance counter."""

    def ended(self, name: str, began_ns: int) -> None:
        """Reports the end of piece ``name``; does not count the piece again if a part of it was
        counted."""
        now_ns = self._ticks_ns()
        if now_ns - began_ns > HELD_NS_MAX and self._counted_ns < began_ns:
            self.held(name, now_ns - began_ns)

    def task(self, name: str, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Makes a watched task of ``work``.

        If the task is cancelled before its first step, ``work`` is also closed.
        """
        task = asyncio.get_running_loop().create_task(self.watched(name, work))
        task.add_done_callback(lambda _: work.close())
        return task

    async def watched(self, name: str, work: Coroutine[Any, Any, Result]) -> Result:
        """Runs ``work``; each step between two waits is a piece with the name ``name``."""
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
        """Reports that piece ``name`` held the loop for ``held_ns``; ignores short pieces."""
        if held_ns <= HELD_NS_MAX:
            return
        self.counts[name] += 1
        self._counted_ns = self._ticks_ns()
        self.longest_ns[name] = max(self.longest_ns[name], held_ns)
        if held_ns > LOGGED_NS:
            logger.warning("event loop blocked", work=name, held_ms=held_ns // 1_000_000)
