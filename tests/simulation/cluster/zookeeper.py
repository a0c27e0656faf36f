"""The ZooKeeper of a simulated cluster, with sessions in virtual time over a simulated network.

Each client runs on a machine of the cluster. Its requests reach the ensemble in order, and the
responses return in order, each after a delay. If the process is suspended or its link is cut, the
ensemble receives no heartbeats and expires the session.

Like kazoo, the client notices a lost connection after two thirds of the session timeout. It notices
an expired session when it has reconnected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from broker.cluster.zookeeper.zookeeper import (
    Closed,
    Connection,
    Create,
    Delete,
    Done,
    MultiFailed,
    Operation,
    SessionExpired,
    Stat,
    Watch,
    ZooKeeperError,
)
from broker.test_mode.registry.ensemble import Ensemble
from broker.test_mode.registry.memory_zookeeper import MemoryZooKeeper
from tests.simulation.whole.agenda import MS
from tests.simulation.whole.virtual_time import WALL_S

if TYPE_CHECKING:
    from tests.simulation.cluster.internet import Internet
    from tests.simulation.whole.process import Process

HOST = "zookeeper"
ONE_WAY_NS = (100_000, 300_000, 1 * MS, 4 * MS)
BEATS = 12
"""The number of heartbeats that a client sends per session timeout."""

Result = TypeVar("Result")


class Server:
    """The ZooKeeper ensemble with its sessions."""

    def __init__(self, internet: Internet, chance: Random) -> None:
        self.internet = internet
        self.agenda = internet.agenda
        self.chance = chance
        self.ensemble = Ensemble()
        self.alive_until_ns: dict[int, int] = {}
        """The expiry time of each session in ns."""
        self.agenda.after(100 * MS, self._look)

    def _look(self) -> None:
        for session, until_ns in sorted(self.alive_until_ns.items()):
            if until_ns < self.agenda.now_ns:
                self.end(session)
        self.agenda.after(100 * MS, self._look)

    def end(self, session: int) -> None:
        self.alive_until_ns.pop(session, None)
        self.now()
        self.ensemble.end_session(session)

    def delete(self, path: str) -> None:
        """Deletes a node if it exists, as a client outside the cluster would do."""
        if path in self.ensemble.nodes:
            self.ensemble.do([Delete(path)], 0)

    def now(self) -> None:
        """Sets the clock of ZooKeeper to the virtual time. New nodes get this time as creation
        time."""
        self.ensemble.now_ms = WALL_S * 1000 + self.agenda.now_ns // MS


class Session(MemoryZooKeeper):
    """Implements the protocol `ZooKeeper` for one process, which has one ZooKeeper session after
    another."""

    def __init__(self, server: Server, process: Process, host: str, timeout_ns: int) -> None:
        super().__init__(server.ensemble)
        self.server = server
        self.process = process
        self.host = host
        self.timeout_ns = timeout_ns
        self._heard_ns = server.agenda.now_ns
        """The time in ns at which the client last received data from the ensemble."""
        self._number = 0
        """The number of the current connection. Messages of earlier connections are dropped."""
        self._sent_until_ns = 0
        self._answered_until_ns = 0
        self._under_way: dict[asyncio.Future[Any], None] = {}
        self._untold: dict[int, Watch] = {}
        """Triggered watches whose event has not yet arrived at the client."""
        self._calls = 0
        self._reconnecting = False
        self._stays_alive()
        self._beat()

    # -- heartbeats

    @property
    def _is_gone(self) -> bool:
        return self._closed or self.process.files.dead or self.process.loop.is_closed()

    def _stays_alive(self) -> None:
        self.server.alive_until_ns[self.session] = self.server.agenda.now_ns + self.timeout_ns

    def _beat(self) -> None:
        """Sends a heartbeat, unless the process is suspended or the link is cut."""
        if self._is_gone:
            return
        agenda = self.server.agenda
        agenda.after(self.timeout_ns // BEATS, self._beat)
        if self.process.loop.now_ns > agenda.now_ns + self.timeout_ns // BEATS:
            return  # the process is suspended
        if not self.server.internet.is_cut(self.host, HOST):
            if self.connection is not Connection.CONNECTED:
                if not self._reconnecting:
                    self._reconnecting = True
                    agenda.after(self._latency_ns(), self._connects)
            elif self.session in self.server.alive_until_ns:
                self._heard_ns = agenda.now_ns
                self._stays_alive()
            else:
                self._on_loop(self._is_lost, self._number)
        elif agenda.now_ns - self._heard_ns > 2 * self.timeout_ns // 3:
            self._on_loop(self._is_lost, self._number)

    def _connects(self) -> None:
        self._reconnecting = False
        if self._is_gone or self.server.internet.is_cut(self.host, HOST):
            return
        if self.session in self.server.alive_until_ns:
            self._stays_alive()
        self._heard_ns = self.server.agenda.now_ns
        self._on_loop(self._is_back)

    def _is_lost(self, number: int) -> None:
        if number != self._number or self._closed:
            return
        self._number += 1
        self._connected.clear()
        self._tell(Connection.SUSPENDED)
        watches = [each for several in self._watches.values() for each in several]
        watches += self._untold.values()
        self._watches, self._untold = {}, {}
        for watch in watches:
            self._call_now(watch)
        under_way, self._under_way = self._under_way, {}
        for future in under_way:
            if not future.done():
                future.set_exception(_Lost())

    def _is_back(self) -> None:
        if self.connection is not Connection.CONNECTED and not self._closed:
            self.resume()
            self._stays_alive()

    def break_off(self) -> None:
        """Closes the connection. The client notices it at once."""
        if not self._is_gone:
            self._on_loop(self._is_lost, self._number)

    # -- requests

    async def create(
        self, path: str, data: bytes | None, *, ephemeral: bool = False, sequence: bool = False
    ) -> tuple[str, Stat]:
        wanted = Create(path, data, ephemeral, sequence)

        def make() -> tuple[str, Stat]:
            made = self.ensemble.do([wanted], self.session)[0]
            assert isinstance(made, str)
            return made, self.ensemble.nodes[made].stat

        try:
            return await self._written(make)
        except MultiFailed as failed:
            raise failed.error from None

    async def multi(self, operations: Sequence[Operation]) -> list[Done]:
        return await self._written(lambda: self.ensemble.do(operations, self.session))

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._connected.set()  # wakes the waiting callers
            self.server.agenda.after(self._latency_ns(), self.server.end, self.session)

    async def _written(self, write: Callable[[], Result]) -> Result:
        unsure = False
        while True:
            try:
                return await self._once(write)
            except MultiFailed as failed:
                failed.error.unsure = unsure
                raise
            except _Lost:
                unsure = True
            except SessionExpired as expired:
                expired.unsure = unsure
                raise

    async def _answered(self, request: Callable[[], Result]) -> Result:
        while True:
            try:
                return await self._once(request)
            except _Lost:
                continue

    async def _once(self, request: Callable[[], Result]) -> Result:
        """Sends a request once and returns its result. Raises _Lost, SessionExpired or Closed."""
        session = self.session
        while not self._connected.is_set():
            await self._connected.wait()
        if self._closed:
            raise Closed("the session was closed")
        if session != self.session:
            raise SessionExpired("the session has expired")
        future: asyncio.Future[Result] = self.process.loop.create_future()
        self._under_way[future] = None
        now_ns = max(self.process.loop.now_ns, self.server.agenda.now_ns)
        self._sent_until_ns = max(self._sent_until_ns, now_ns + self._latency_ns())
        self.server.internet.carry(
            self.host, HOST, self._sent_until_ns, self._served, request, future, self._number
        )
        try:
            return await future
        except _Lost:
            while not self._connected.is_set():
                await self._connected.wait()
            if session != self.session:
                raise SessionExpired("the session has expired", unsure=True) from None
            raise
        finally:
            self._under_way.pop(future, None)

    def _served(
        self, request: Callable[[], Result], future: asyncio.Future[Result], number: int
    ) -> None:
        """Executes a request that has arrived at the ensemble, and sends the result."""
        if number != self._number or self.process.loop.is_closed():
            return  # the connection is an earlier one, or its process has left it
        if self.session not in self.server.alive_until_ns:
            self._on_loop(self._is_lost, number)
            return
        self.server.now()
        result: Result | None = None
        error: Exception | None = None
        try:
            result = request()
        except (MultiFailed, ZooKeeperError) as refused:
            error = refused
        self._stays_alive()
        now_ns = self.server.agenda.now_ns
        self._answered_until_ns = max(self._answered_until_ns, now_ns + self._latency_ns())
        self.server.internet.carry(
            self.host, HOST, self._answered_until_ns, self._hears, future, number, result, error
        )

    def _hears(
        self,
        future: asyncio.Future[Any],
        number: int,
        result: object,
        error: Exception | None,
    ) -> None:
        self._on_loop(_settle, future, result, error)

    # -- watches

    def _call(self, watch: Watch) -> None:
        """Sends the event of a triggered watch to the client."""
        self._calls += 1
        key = self._calls
        self._untold[key] = watch
        at_ns = self.server.agenda.now_ns + self._latency_ns()
        self.server.internet.carry(self.host, HOST, at_ns, self._on_loop, self._told, key)

    def _told(self, key: int) -> None:
        watch = self._untold.pop(key, None)
        if watch is not None:
            self._call_now(watch)

    def _call_now(self, watch: Watch) -> None:
        if not self._closed:
            watch()

    # -- inside

    def _latency_ns(self) -> int:
        return self.server.chance.choice(ONE_WAY_NS)

    def _on_loop(self, call: Callable[..., None], *args: Any) -> None:
        if not self.process.files.dead and not self.process.loop.is_closed():
            self.process.loop.call_soon(call, *args)


def _settle(future: asyncio.Future[Any], result: object, error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


class _Lost(Exception):
    """Raised when the connection is lost before the response has arrived."""
