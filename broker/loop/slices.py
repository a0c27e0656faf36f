"""Splits long work in the event loop's thread into slices. Requests are served between the slices
(ARCHITECTURE.md, law 9).

A handler whose work may be long is a coroutine. After each element it checks ``slices.over``, and
awaits ``slices.pause()`` if the slice is over. Between two reads of the sockets only one slice
runs, however much long work is waiting. The `Slicer` runs waiting work in order of arrival.
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
"""The time in nanoseconds for which one slice may block the event loop."""
RESUMED_NS = 100_000
"""In one iteration of the event loop, tasks that resume after a wait may run for this number of
nanoseconds, all these tasks together.

This is enough for one larger request or a few small ones.
"""


class Slicer:
    """Runs the long work of one broker in slices, and decides which work gets the next slice. Only
    the event loop's thread may use this class."""

    def __init__(
        self, time: Time, watchdog: Watchdog | None = None, slice_ns: int = SLICE_NS
    ) -> None:
        self.time = time
        self.watchdog = watchdog or Watchdog(time)
        self.slice_ns = slice_ns
        """The time in nanoseconds for which one slice may block the event loop, unless the work
        sets another time."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._scheduled = False
        self._direct_until_ns = 0
        self._resumed_until_ns = 0

    def work(self, name: str, slice_ns: int | None = None) -> Slices:
        """Returns `Slices` for work that begins now. The watchdog reports the slices under
        ``name``."""
        return Slices(self, name, self.slice_ns if slice_ns is None else slice_ns)

    def direct_until_ns(self) -> int:
        """Returns the time until which new requests may do their work directly, that is, without
        waiting for a slice; in nanoseconds of the performance counter.

        All requests of one iteration of the event loop share this time. Otherwise a hundred small
        requests could block the loop as long as one large request.
        """
        if not self._direct_until_ns:
            self._direct_until_ns = self.time.ticks_ns() + self.slice_ns
            asyncio.get_running_loop().call_soon(self._iteration_over)
        return self._direct_until_ns

    def _iteration_over(self) -> None:
        self._direct_until_ns = 0

    @property
    def crowded(self) -> bool:
        """True if tasks have run for `RESUMED_NS` in this iteration of the event loop. Further
        tasks must then wait until the event loop has read the sockets."""
        now_ns = self.time.ticks_ns()
        if not self._resumed_until_ns:
            self._resumed_until_ns = now_ns + RESUMED_NS
            asyncio.get_running_loop().call_soon(self._reset_resumed)
        return now_ns > self._resumed_until_ns

    def _reset_resumed(self) -> None:
        self._resumed_until_ns = 0

    async def turn(self) -> None:
        """Waits until the caller may run its slice. This happens in a later iteration of the event
        loop, since one iteration runs only one slice."""
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
    """The slices of one piece of work. The first slice starts when the object is made."""

    def __init__(self, slicer: Slicer, name: str, slice_ns: int) -> None:
        self.held_s = 0.0
        """The total time in seconds for which the completed slices have blocked the event loop."""
        self._slicer = slicer
        self._name = name
        self._slice_ns = slice_ns
        self._ticks_ns = slicer.time.ticks_ns
        self._since_ns = self._ticks_ns()

    @property
    def over(self) -> bool:
        """True if the time of the current slice is used up."""
        return self._ticks_ns() - self._since_ns > self._slice_ns

    def end(self) -> float:
        """Ends the current slice. Called when the work, or a part of the work, is complete. Returns
        ``held_s``."""
        now_ns = self._ticks_ns()
        held_ns = now_ns - self._since_ns
        self._slicer.watchdog.held(self._name, held_ns)
        self.held_s += held_ns / 1e9
        self._since_ns = now_ns
        return self.held_s

    async def pause(self) -> None:
        """Ends the current slice and waits for the next one. A request with long work calls this
        before its first step."""
        self.end()
        await self._slicer.turn()
        self._since_ns = self._ticks_ns()

    async def through(self, steps: Iterator[object]) -> Any:
        """Runs all ``steps``, and pauses between two steps when a slice is over. Returns the return
        value of the generator."""
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return end.value
            if self.over:
                await self.pause()

    async def resume(self) -> None:
        """Continues after an event that ended the waits of many tasks: at once if the loop has time
        left, else in a new slice.

        For example, one stable record of the transaction coordinator may end the waits of many
        Produce requests. Between the slices the loop reads new requests, above all EndTxn.
        """
        if self._slicer.crowded:
            await self.pause()

    async def beside(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Awaits ``work`` and returns its result. Adds to ``held_s`` the time in which ``work``
        runs, but not the time in which ``work`` waits."""
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
        """Waits until ``done`` has a result or an exception. This wait does not count in
        ``held_s``."""
        self.end()
        await asyncio.wait((done,))
        self._since_ns = self._ticks_ns()

    async def wait_for(self, what: Awaitable[object], at_most_s: float) -> None:
        """Waits for ``what``, for at most ``at_most_s`` seconds. The wait does not count in
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
    """Runs ``steps`` directly until the time `Slicer.direct_until_ns`. If steps are left at this
    time, a background task runs them in slices.

    ``spawn`` is `Background.spawn`. The watchdog reports the slices under ``name``.
    """
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
