"""Long work in the loop's thread, cut into slices; requests are served between them (law 9).

A handler whose work may be long is a coroutine that looks at ``slices.over`` after each element and
awaits ``slices.pause()`` when it is. However much long work there is, one slice runs between two
reads of the sockets: the `Slicer` runs waiting work in the order in which it came.
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
"""How long one slice may hold the loop."""
RESUMED_NS = 100_000
"""How long those may hold it together that go on at once behind a wait: one larger request, or a
few small ones."""


class Slicer:
    """Whose slice is next; one for a broker, used from the event loop's thread alone."""

    def __init__(
        self, time: Time, watchdog: Watchdog | None = None, slice_ns: int = SLICE_NS
    ) -> None:
        self.time = time
        self.watchdog = watchdog or Watchdog(time)
        self.slice_ns = slice_ns
        """How long one slice may hold the loop, where its work asks for nothing else."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._scheduled = False
        self._direct_until_ns = 0
        self._resumed_until_ns = 0

    def work(self, name: str, slice_ns: int | None = None) -> Slices:
        """The slices of a piece of work that begins now; ``name`` is what the watchdog calls it."""
        return Slices(self, name, self.slice_ns if slice_ns is None else slice_ns)

    def direct_until_ns(self) -> int:
        """Until when work that a request has just brought may be done at once, without a slice.

        By the performance counter. One allowance for all requests of an iteration of the loop, so
        that a hundred small pieces don't become a long one.
        """
        if not self._direct_until_ns:
            self._direct_until_ns = self.time.ticks_ns() + self.slice_ns
            asyncio.get_running_loop().call_soon(self._iteration_over)
        return self._direct_until_ns

    def _iteration_over(self) -> None:
        self._direct_until_ns = 0

    @property
    def crowded(self) -> bool:
        """Whether others have gone on behind a wait in this iteration of the loop, for so long that
        who comes now lets it read the sockets first."""
        now_ns = self.time.ticks_ns()
        if not self._resumed_until_ns:
            self._resumed_until_ns = now_ns + RESUMED_NS
            asyncio.get_running_loop().call_soon(self._nobody_resumed)
        return now_ns > self._resumed_until_ns

    def _nobody_resumed(self) -> None:
        self._resumed_until_ns = 0

    async def turn(self) -> None:
        """Return in a later iteration of the loop, in which no other slice runs."""
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
            if not first.done():  # its task may have been cancelled
                first.set_result(None)
                break
        self._scheduled = bool(waiting)
        if waiting:
            asyncio.get_running_loop().call_soon(self._next)


class Slices:
    """The slices of one piece of work; the first one runs from when this is made."""

    def __init__(self, slicer: Slicer, name: str, slice_ns: int) -> None:
        self.held_s = 0.0
        """How long the ended slices have held the loop, all together."""
        self._slicer = slicer
        self._name = name
        self._slice_ns = slice_ns
        self._ticks_ns = slicer.time.ticks_ns
        self._since_ns = self._ticks_ns()

    @property
    def over(self) -> bool:
        """Whether others should have their turn."""
        return self._ticks_ns() - self._since_ns > self._slice_ns

    def end(self) -> float:
        """End the work, or this part of it; returns ``held_s``."""
        now_ns = self._ticks_ns()
        held_ns = now_ns - self._since_ns
        self._slicer.watchdog.held(self._name, held_ns)
        self.held_s += held_ns / 1e9
        self._since_ns = now_ns
        return self.held_s

    async def pause(self) -> None:
        """Let the others have their turn. Long work that begins by a request begins with this."""
        self.end()
        await self._slicer.turn()
        self._since_ns = self._ticks_ns()

    async def through(self, steps: Iterator[object]) -> Any:
        """Work steps off, with pauses between them; what a generator returns, as `yield from`."""
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return end.value
            if self.over:
                await self.pause()

    async def resume(self) -> None:
        """Go on behind a wait that ended for many at once: now, or in a turn of one's own.

        One record lets many Produce requests go on. What the others' clients ask next is answered
        between them, EndTxn above all.
        """
        if self._slicer.crowded:
            await self.pause()

    async def beside(self, work: Coroutine[Any, Any, Result]) -> Result:
        """What ``work`` gives; where it waits for others, that does not count as held."""
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
            except BaseException as error:  # noqa: BLE001 - it is the work's to handle
                step = partial(work.throw, error)
            self._since_ns = self._ticks_ns()

    async def until(self, done: asyncio.Future[Any]) -> None:
        """Wait for others to be done with that, whether well or not; it does not count as held."""
        self.end()
        await asyncio.wait((done,))
        self._since_ns = self._ticks_ns()

    async def wait_for(self, what: Awaitable[object], at_most_s: float) -> None:
        """Wait for what others do, and not for longer than that; it does not count as held."""
        self.end()
        with suppress(TimeoutError):
            async with self._slicer.time.within(at_most_s):
                await what
        self._since_ns = self._ticks_ns()
