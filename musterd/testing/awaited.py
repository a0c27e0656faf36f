"""Faults, time and waiting of `AsyncMuster`, and the threads that run its blocking calls.

Blocking calls run in two threads of their own. The test's event loop therefore continues, even if
the test's consumers use all threads of the loop's executor. A wait for a group consists of many
short calls, so that the call of a cancelled task ends soon.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from datetime import datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from musterd.testing import clock
from musterd.testing.faults import Fault
from musterd.testing.muster import Muster
from musterd.testing.time import BrokerTime, Held
from musterd.testing.views import Committed, Group, Offset
from musterd.testing.waiting import ASKS_EACH_S, Condition, Conditions, NotYet

T = TypeVar("T")

_THREADS = 2


class Underneath(Muster):
    """The `Muster` that `AsyncMuster` uses. Its methods are called in threads.

    The test's clock is read in the thread of the event loop, before each call, because freezegun
    shows the real time in other threads.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.threads = clock.Threads(_THREADS)
        self._seen: clock.Look | None = None

    async def run(self, call: Callable[[], T]) -> T:
        """Run a blocking call in a thread."""
        self._seen = clock.look()
        return await self.threads.run(call)

    def _look(self) -> clock.Look:
        return self._seen or clock.look()


class AsyncHeld:
    """A change of a broker that lasts until the `async with` block ends, or until `await end()`.
    The change is a fault, a frozen clock, or a clock that follows the test's clock."""

    def __init__(self, broker: Underneath, held: Held | Fault) -> None:
        self._broker = broker
        self._held = held

    async def end(self) -> None:
        """End the fault, or let the clock run again. Do nothing if this was already done."""
        await self._broker.run(self._held.end)

    async def __aenter__(self) -> Self:
        await self._broker.run(self._held.__enter__)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        where: TracebackType | None,
    ) -> None:  # fmt: skip
        await self._broker.run(lambda: self._held.__exit__(kind, error, where))


class AsyncFault(AsyncHeld):
    """A `Fault` for asyncio."""

    def __init__(self, broker: Underneath, fault: Fault) -> None:
        super().__init__(broker, fault)
        self._fault = fault
        self.kind = fault.kind
        """The kind of fault, such as `fail`."""

    async def hits(self) -> int:
        """The number of requests, connections or members that the fault affected."""
        return await self._broker.run(lambda: self._fault.hits)

    def __repr__(self) -> str:
        return repr(self._fault)


H = TypeVar("H", bound=AsyncHeld)


class Begun(Generic[H]):
    """A fault, or a frozen or followed clock, that has not begun yet. `await` begins it. `async
    with` begins it, and ends it when the block ends."""

    def __init__(self, begin: Callable[[], Awaitable[H]]) -> None:
        self._begin = begin
        self._held: H | None = None

    def __await__(self) -> Generator[Any, None, H]:
        return self._begin().__await__()

    async def __aenter__(self) -> H:
        self._held = await self
        await self._held.__aenter__()
        return self._held

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        where: TracebackType | None,
    ) -> None:  # fmt: skip
        if self._held is not None:
            await self._held.__aexit__(kind, error, where)


class AsyncBrokerTime:
    """`BrokerTime` for asyncio."""

    def __init__(self, broker: Underneath) -> None:
        self._broker = broker
        self._time: BrokerTime = broker.time

    async def now(self) -> datetime:
        """Implements `BrokerTime.now` for asyncio."""
        return await self._broker.run(self._time.now)

    async def advance(
        self, by: timedelta | None = None, *, weeks: float = 0, days: float = 0, hours: float = 0,
        minutes: float = 0, seconds: float = 0, milliseconds: float = 0,
    ) -> datetime:  # fmt: skip
        """Implements `BrokerTime.advance` for asyncio."""
        return await self._broker.run(
            lambda: self._time.advance(
                by, weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds,
                milliseconds=milliseconds,
            )
        )  # fmt: skip

    def freeze(self) -> Begun[AsyncHeld]:
        """Implements `BrokerTime.freeze` for asyncio."""
        return self._hold(self._time.freeze)

    async def run(self) -> None:
        """Implements `BrokerTime.run` for asyncio."""
        await self._broker.run(self._time.run)

    def follow(self) -> Begun[AsyncHeld]:
        """Implements `BrokerTime.follow` for asyncio."""
        return self._hold(self._time.follow)

    def _hold(self, begin: Callable[[], Held]) -> Begun[AsyncHeld]:
        async def held() -> AsyncHeld:
            return AsyncHeld(self._broker, await self._broker.run(begin))

        return Begun(held)


class AsyncWaiting:
    """`Waiting` for asyncio."""

    def __init__(self, broker: Underneath, group: str, timeout_s: float) -> None:
        self._broker = broker
        self._conditions = Conditions(broker, group)
        self._timeout_s = timeout_s

    async def stable(self, members: int | None = None) -> Group:
        """Implements `Waiting.stable` for asyncio."""
        return await self._until(self._conditions.stable(members))

    async def caught_up(self) -> Committed:
        """Implements `Waiting.caught_up` for asyncio."""
        return await self._until(self._conditions.caught_up())

    async def committed(self, topic: str, partition: int = 0, *, at_least: int = 0) -> Offset:
        """Implements `Waiting.committed` for asyncio."""
        return await self._until(self._conditions.committed(topic, partition, at_least))

    async def empty(self) -> None:
        """Implements `Waiting.empty` for asyncio."""
        await self._until(self._conditions.empty())

    async def _until(self, condition: Condition[T]) -> T:
        deadline = clock.Deadline(self._timeout_s)
        while True:
            try:
                return await self._broker.run(condition.look)
            except NotYet as instead:
                if deadline.is_over:
                    in_vain = partial(condition.in_vain, deadline, instead)
                    raise await self._broker.run(in_vain) from None
            await self._broker.run(lambda: clock.pause(ASKS_EACH_S))
