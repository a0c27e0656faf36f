"""Long work in the loop's thread, split into slices; requests are served between the slices (law
9).

A handler whose work may be long is a coroutine that checks ``slices.over`` after each element and
awaits ``slices.pause()`` when ``slices.over`` is true. Even if much long work is waiting, only one
slice runs between two reads of the sockets: the `Slicer` runs waiting work in order of arrival.
"""

from __future__ import annotations

import asyncio
import types
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from broker.loop.watchdog import Watchdog
from broker.time import Time

Result = TypeVar("Result")

SLICE_NS = 4_000_000
"""The number of nanoseconds for which one slice may block the loop."""
RESUMED_NS = 100_000
"""The total number of nanoseconds for which work that continues directly after a wait may block the
loop: enough for one larger request or a few small ones."""


class Slicer:
    """Chooses the next slice for one broker; only the event loop's thread may use it."""

    def __init__(
        self, time: Time, watchdog: Watchdog | None = None, slice_ns: int = SLICE_NS
    ) -> None:
        self.time = time
        self.watchdog = watchdog or Watchdog(time)
        self.slice_ns = slice_ns
        """The number of nanoseconds for which one slice may block the loop by default."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._scheduled = False
        self._direct_until_ns = 0
        self._resumed_until_ns = 0

    def work(self, name: str, slice_ns: int | None = None) -> Slices:
        """Returns `Slices` for work that begins now; ``name`` is the name of the work in the
        watchdog."""
        return Slices(self, name, self.slice_ns if slice_ns is None else slice_ns)

    def direct_until_ns(self) -> int:
        """Returns the time until which new requests may do work without a slice, in nanoseconds of
        the performance counter.

        All requests of one iteration of the loop share this time, so that a hundred small pieces of
        work do not block the loop as long as one large piece.
        """
        if not self._direct_until_ns:
            self._direct_until_ns = self.time.ticks_ns() + self.slice_ns
            asyncio.get_running_loop().call_soon(self._iteration_over)
        return self._direct_until_ns

    def _iteration_over(self) -> None:
        self._direct_until_ns = 0

    @property
    def crowded(self) -> bool:
        """Returns True if the work that continued after waits has used up its time in this
        iteration of the loop.

        If so, further work must first let the loop read the sockets.
        """
        now_ns = self.time.ticks_ns()
        if not self._resumed_until_ns:
            self._resumed_until_ns = now_ns + RESUMED_NS
            asyncio.get_running_loop().call_soon(self._reset_resumed)
        return now_ns > self._resumed_until_ns

    def _reset_resumed(self) -> None:
        self._resumed_until_ns = 0

    async def turn(self) -> None:
        """Waits for a later iteration of the loop in which no other slice runs."""
        loop = asyncio.get_running_loop()
        mine = loop.create_future()
        self._waiting.append(mine)
        if not self._scheduled:
            self._scheduled = True
            loop.call_soon(self._next)
        await mine

    def _next(self) -> None:
        waiting = self._waiting
        while waiting:
            first = waiting.popleft()
            if not first.done():  # the task may have been cancelled
                first.set_result(None)
                break
        self._scheduled = bool(waiting)
        if waiting:
            asyncio.get_running_loop().call_soon(self._next)


class Slices:
    """The slices of one piece of work; the first slice starts when the object is made."""

    def __init__(self, slicer: Slicer, name: str, slice_ns: int) -> None:
        self.held_s = 0.0
        """The total time in seconds for which the completed slices have blocked the loop."""
        self._slicer = slicer
        self._name = name
        self._slice_ns = slice_ns
        self._ticks_ns = slicer.time.ticks_ns
        self._since_ns = self._ticks_ns()

    @property
    def over(self) -> bool:
        """Returns True if the time of the current slice is used up."""
        return self._ticks_ns() - self._since_ns > self._slice_ns

    def end(self) -> float:
        """Ends the work or a part of the work; returns ``held_s``."""
        now_ns = self._ticks_ns()
        held_ns = now_ns - self._since_ns
        self._slicer.watchdog.held(self._name, held_ns)
        self.held_s += held_ns / 1e9
        self._since_ns = now_ns
        return self.held_s

    async def pause(self) -> None:
        """Ends the current slice and waits for the next one. A request with long work calls this
        method first."""
        self.end()
        await self._slicer.turn()
        self._since_ns = self._ticks_ns()

    async def through(self, steps: Iterator[object]) -> Any:
        """Runs ``steps`` to the end, with pauses between the steps; returns the return value of the
        generator, as `yield from` does."""
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return end.value
            if self.over:
                await self.pause()

    async def resume(self) -> None:
        """Continues after an event that ended the waits of many tasks: immediately, or in a
        separate slice.

        One record may end the wait of many Produce requests. Between the slices the loop reads new
        requests, above all EndTxn.
        """
        if self._slicer.crowded:
            await self.pause()

    async def beside(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Awaits ``work`` and returns its result; the time for which ``work`` waits is not counted
        in ``held_s``."""
        return await self._stepped(work)

    @types.coroutine
    def _stepped(self, work: Coroutine[Any, Any, Result]) -> Generator[Any, Any, Result]:
        step: Callable[[], Any] = partial(work.send, None)
        while True:
            try:
                waits_for = step()
            except StopIteration as end:
                result: Result = end.value
                return result
            self.end()
            try:
                step = partial(work.send, (yield waits_for))
            except BaseException as error:  # noqa: BLE001 - the work handles it
                step = partial(work.throw, error)
            self._since_ns = self._ticks_ns()

    async def until(self, done: asyncio.Future[Any]) -> None:
        """Waits until ``done`` has a result or an exception; the wait is not counted in
        ``held_s``."""
        self.end()
        await asyncio.wait((done,))
        self._since_ns = self._ticks_ns()

    async def wait_for(self, what: Awaitable[object], at_most_s: float) -> None:
        """Waits for ``what`` for at most ``at_most_s`` seconds; the wait is not counted in
        ``held_s``."""
        self.end()
        with suppress(TimeoutError):
            async with self._slicer.time.within(at_most_s):
                await what
        self._since_ns = self._ticks_ns()


def run_stepwise(
    slicer: Slicer,
    spawn: Callable[[Coroutine[Any, Any, None], str], object],
    name: str,
    steps: Iterator[None],
) -> None:
    """Runs immediately what the time of the turn permits, and the remaining steps in slices.
    ``spawn`` is `Background.spawn`; ``name`` is the name of the slices in the watchdog."""
    ticks_ns, until_ns = slicer.time.ticks_ns, slicer.direct_until_ns()
    while ticks_ns() < until_ns:
        try:
            next(steps)
        except StopIteration:
            return
    spawn(_run_later(slicer, name, steps), name)


async def _run_later(slicer: Slicer, name: str, steps: Iterator[None]) -> None:
    slices = slicer.work(name)
    await slices.pause()
    await slices.through(steps)
    slices.end()
