"""A ZooKeeper client for a ZooKeeper in memory. Tests can interrupt or end the client's session.
`MemoryZooKeeper` implements `ZooKeeper` for one process, with successive sessions. Each response
takes one turn of the event loop and no time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from contextvars import copy_context
from types import coroutine
from typing import TypeVar

from broker.cluster.zookeeper.zookeeper import (
    ANY_VERSION,
    Closed,
    Connection,
    Create,
    Delete,
    Done,
    MultiFailed,
    Operation,
    SessionExpired,
    Set,
    Stat,
    Watch,
)
from broker.loop.histogram import Histogram
from broker.test_mode.registry.ensemble import Ensemble

Result = TypeVar("Result")


class MemoryZooKeeper:
    """Implements `ZooKeeper`. The client is connected from its creation on.

    Watches and listeners run in the context in which the client was created. They thus belong to
    the client's broker, even if another broker's write triggers them.
    """

    def __init__(self, ensemble: Ensemble) -> None:
        self.ensemble = ensemble
        self.session = ensemble.begin_session(self)
        self.connection = Connection.CONNECTED
        self.request_times = Histogram()
        self._listeners: list[Callable[[Connection], None]] = []
        self._watches: dict[tuple[str, str], list[Watch]] = {}
        self._connected = asyncio.Event()
        self._connected.set()
        self._closed = False
        self._answers_lost = 0
        self._late: list[Watch] | None = None
        """The watches triggered during a pause, which are called when the client continues; None
        while the client is not paused."""
        self._context = copy_context()

    # -- controlled by a test

    def suspend(self) -> None:
        """Disconnects. Requests then get no response, and each watch is called once and removed."""
        self._connected.clear()
        self._tell(Connection.SUSPENDED)
        watches, self._watches = self._watches, {}
        for several in watches.values():
            for watch in several:
                self._call(watch)

    def resume(self) -> None:
        """Reconnects, with a new session if the old session has expired."""
        if self.session not in self.ensemble.sessions:
            self.session = 0
            self._connected.set()  # wakes the waiting requests
            self._connected.clear()
            self._tell(Connection.EXPIRED)
            self.session = self.ensemble.begin_session(self)
        self._tell(Connection.CONNECTED)
        self._connected.set()

    def lose_connection(self) -> None:
        """Disconnects and immediately reconnects with the same session."""
        self.suspend()
        self.resume()

    def expire(self) -> None:
        """Ends the session and immediately begins another session."""
        self.ensemble.end_session(self.session)
        self.lose_connection()

    @property
    def is_paused(self) -> bool:
        return self._late is not None

    def pause(self) -> None:
        """Pauses the client together with its process. Requests get no response; watches and
        listeners are not called."""
        self._late = []
        self._connected.clear()

    def go_on(self) -> None:
        """Continues after `pause`. Calls the triggered watches, or begins a new session if the old
        session has expired."""
        late, self._late = self._late or [], None
        if self.session not in self.ensemble.sessions:
            self.suspend()
            self.resume()
        else:
            self._connected.set()
        for watch in late:
            self._call(watch)

    def vanish(self) -> None:
        """Stops the client as if its process had died. Its session continues in the ensemble, but
        no watch of the client is called any more."""
        self._closed = True
        self._connected.set()  # wakes the waiting requests
        self._watches.clear()

    @property
    def has_ended(self) -> bool:
        return self._closed

    def lose_answers(self, count: int) -> None:
        """Applies the next ``count`` writes but drops their responses, so that the client sends
        these writes again."""
        self._answers_lost = count

    # -- ZooKeeper

    def on_session(self, call: Callable[[Connection], None]) -> None:
        self._listeners.append(call)

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:

        def read() -> tuple[bytes, Stat]:
            node = self.ensemble.node(path)
            self._watch("data", path, watch)
            return node.data or b"", node.stat

        return await self._answered(read)

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:

        def read() -> Stat | None:
            self._watch("data", path, watch)
            node = self.ensemble.nodes.get(path)
            return None if node is None else node.stat

        return await self._answered(read)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:

        def read() -> list[str]:
            node = self.ensemble.node(path)
            self._watch("children", path, watch)
            return sorted(node.children, reverse=True)  # ZooKeeper does not define the order

        return await self._answered(read)

    async def create(
        self, path: str, data: bytes | None, *, ephemeral: bool = False, sequence: bool = False
    ) -> tuple[str, Stat]:
        made = await self._one(Create(path, data, ephemeral, sequence))
        assert isinstance(made, str)
        return made, self.ensemble.nodes[made].stat

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        stat = await self._one(Set(path, data, version))
        assert isinstance(stat, Stat)
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._one(Delete(path, version))

    async def multi(self, operations: Sequence[Operation]) -> list[Done]:
        unsure = False
        while True:
            try:
                done = await self._answered(lambda: self.ensemble.do(operations, self.session))
            except MultiFailed as failed:
                failed.error.unsure = unsure
                raise
            if not self._answers_lost:
                return done
            self._answers_lost -= 1
            unsure = True
            self.lose_connection()

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._connected.set()  # wakes the waiting requests
            self.ensemble.end_session(self.session)

    async def _one(self, operation: Operation) -> Done:
        try:
            return (await self.multi([operation]))[0]
        except MultiFailed as failed:
            raise failed.error from None

    async def _answered(self, request: Callable[[], Result]) -> Result:
        """Returns the result of ``request`` in a later turn of the event loop. Raises
        SessionExpired or Closed."""
        session = self.session
        while True:
            await self._connected.wait()
            await _next_turn()
            if self._closed:
                raise Closed("the session was closed")
            if session != self.session:
                raise SessionExpired("the session has expired")
            if self._connected.is_set():
                return request()

    # -- changes

    def changed(self, kind: str, path: str) -> None:
        """Removes and calls the watches of kind ``kind`` on the changed node ``path``."""
        for watch in self._watches.pop((kind, path), ()):
            self._call(watch)

    def _watch(self, kind: str, path: str, watch: Watch | None) -> None:
        if watch is not None:
            self._watches.setdefault((kind, path), []).append(watch)

    def _call(self, watch: Watch) -> None:
        if self._late is not None:
            self._late.append(watch)
            return
        loop = asyncio.get_running_loop()
        loop.call_soon(lambda: None if self._closed else watch(), context=self._context)

    def _tell(self, connection: Connection) -> None:
        self.connection = connection
        for call in [*self._listeners]:
            self._context.copy().run(call, connection)


@coroutine
def _next_turn() -> Generator[None, None, None]:
    yield
