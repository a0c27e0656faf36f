"""Tests the ZooKeeper behavior that the cluster requires, on the simulation and on a real
server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from kazoo.client import KazooClient

from broker.cluster.zookeeper.kazoo_zookeeper import KazooZooKeeper
from broker.cluster.zookeeper.zookeeper import (
    BadVersion,
    Check,
    Closed,
    Connection,
    Create,
    Delete,
    MultiFailed,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionExpired,
    Set,
    Stat,
    ZooKeeper,
    ensure_path,
)
from broker.test_mode.registry.ensemble import Ensemble
from broker.test_mode.registry.memory_zookeeper import MemoryZooKeeper
from broker.time import Time
from tests.zookeeper import zookeeper

PATIENCE_S = 30
SESSION_MS = 6000


class World(Protocol):
    """A ZooKeeper whose clients a test can disconnect, expire and suspend."""

    async def connect(self) -> ZooKeeper: ...

    async def lose_connection(self, client: Any) -> None:
        """Closes the client's connection. The session continues."""

    async def expire(self, client: Any) -> None: ...

    async def suspend(self, client: Any) -> None:
        """Stops all responses until the client's session has expired."""

    async def close(self) -> None: ...


class Simulated:
    """A `World` on the simulated ZooKeeper."""

    def __init__(self) -> None:
        self._ensemble = Ensemble()

    async def connect(self) -> MemoryZooKeeper:
        return MemoryZooKeeper(self._ensemble)

    async def lose_connection(self, client: MemoryZooKeeper) -> None:
        client.lose_connection()

    async def expire(self, client: MemoryZooKeeper) -> None:
        client.expire()

    async def suspend(self, client: MemoryZooKeeper) -> None:
        client.suspend()

    async def close(self) -> None:
        pass


class Real:
    """Implements `World` with a real ZooKeeper server. Each test uses its own chroot."""

    def __init__(self, address: str, chroot: str) -> None:
        self._hosts = f"{address}/{chroot}"
        self._address = address
        self._clients: list[KazooZooKeeper] = []

    async def connect(self) -> KazooZooKeeper:
        client = KazooZooKeeper(self._hosts, SESSION_MS, 10, Time())
        self._clients.append(client)
        await client.start(PATIENCE_S * 1000)
        return client

    async def lose_connection(self, client: KazooZooKeeper) -> None:
        kazoo = client._client
        kazoo._connection._socket.shutdown(2)

    async def expire(self, client: KazooZooKeeper) -> None:
        """Opens a second connection with the same session, and closes the session through this
        connection."""

        def taken_over() -> None:
            other = KazooClient(self._address, client_id=client._client.client_id)
            other.start(PATIENCE_S)
            other.stop()
            other.close()

        await asyncio.to_thread(taken_over)

    async def suspend(self, client: KazooZooKeeper) -> None:
        """Reports to the client that its connection is suspended, although it is not. A really
        suspended connection is not possible, because kazoo would end it at once."""
        client._connection_changed(Connection.SUSPENDED)

    async def close(self) -> None:
        for each in self._clients:
            await each.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with zookeeper(tmp_path_factory.mktemp("zookeeper")) as hosts:
        yield hosts


Conduct = Callable[[World], Coroutine[Any, Any, None]]


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.interop)])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Conduct], None]:
    """Returns a function that runs the coroutine of a test, on the simulation or on a real
    server."""
    hosts = request.getfixturevalue("address") if request.param == "real" else ""

    async def conversation(conduct: Conduct) -> None:
        world: World = Real(hosts, tmp_path.name) if hosts else Simulated()
        try:
            async with asyncio.timeout(2 * PATIENCE_S):
                await conduct(world)
        finally:
            await world.close()

    return lambda conduct: asyncio.run(conversation(conduct))


class CountingWatch:
    def __init__(self) -> None:
        self.rung = 0
        self._event = asyncio.Event()

    def __call__(self) -> None:
        self.rung += 1
        self._event.set()

    async def wait(self) -> None:
        await self._event.wait()
        self._event.clear()


class SessionStates:
    """The sequence of connection states that `on_session` reported."""

    def __init__(self, client: ZooKeeper) -> None:
        self.told: list[Connection] = []
        self._event = asyncio.Event()
        client.on_session(self._take)

    def _take(self, connection: Connection) -> None:
        self.told.append(connection)
        self._event.set()

    async def until(self, connection: Connection) -> None:
        """Waits until the state ``connection`` has been reported."""
        while connection not in self.told:
            self._event.clear()
            await self._event.wait()


async def settled(client: ZooKeeper) -> None:
    """Waits until the client has received all pending events. A session delivers events and
    responses in order."""
    await client.exists("/")
    await asyncio.sleep(0)


async def refused(kind: type[Exception], work: Awaitable[object]) -> None:
    with pytest.raises(kind):
        await work


def test_zookeeper_nodes_are_created_read_changed_and_deleted(
    run: Callable[[Conduct], None],
) -> None:
    async def conduct(world: World) -> None:
        zk = await world.connect()
        path, stat = await zk.create("/a", b"one")
        assert path == "/a"
        assert stat.version == 0
        assert stat.czxid == stat.mzxid
        assert await zk.get("/a") == (b"one", stat)
        await refused(NodeExists, zk.create("/a", b""))
        await refused(NoNode, zk.create("/b/c", b""))
        await refused(NoNode, zk.get("/b"))
        await refused(NoNode, zk.set("/b", b""))
        await refused(NoNode, zk.delete("/b"))
        await refused(NoNode, zk.children("/b"))
        assert await zk.exists("/b") is None

        after = await zk.set("/a", b"two", 0)
        assert after.version == 1
        assert after.czxid == stat.czxid < after.mzxid
        assert await zk.exists("/a") == after
        await refused(BadVersion, zk.set("/a", b"three", 0))
        await zk.set("/a", b"three")

        await zk.create("/a/b", None)
        assert await zk.get("/a/b") == (b"", await zk.exists("/a/b"))
        assert await zk.children("/a") == ["b"]
        await refused(NotEmpty, zk.delete("/a"))
        await refused(BadVersion, zk.delete("/a/b", 5))
        await zk.delete("/a/b", 0)
        await zk.delete("/a")
        assert await zk.exists("/a") is None

    run(conduct)


def test_sequential_zookeeper_nodes_have_rising_numbers(run: Callable[[Conduct], None]) -> None:
    async def conduct(world: World) -> None:
        zk = await world.connect()
        await ensure_path(zk, "/changes/of")
        made = [(await zk.create("/changes/of/c_", b"", sequence=True))[0] for _ in range(3)]
        await zk.delete(made[2])
        made.append((await zk.create("/changes/of/c_", b"", sequence=True))[0])

        assert all(len(each) == len("/changes/of/c_") + 10 for each in made)
        assert made == sorted(set(made))
        assert sorted(await zk.children("/changes/of")) == [
            each.rpartition("/")[2] for each in (made[0], made[1], made[3])
        ]

    run(conduct)


@pytest.mark.proves("clusters 21")
def test_zookeeper_multi_is_atomic(run: Callable[[Conduct], None]) -> None:
    async def conduct(world: World) -> None:
        zk = await world.connect()
        _, epoch = await zk.create("/epoch", b"1")
        done = await zk.multi(
            [
                Check("/epoch", 0),
                Create("/e", None, ephemeral=True),
                Set("/e", b"data", 0),
                Create("/s", b""),
                Delete("/s"),
            ]
        )
        assert done[0] is None
        assert done[1] == "/e"
        stat = done[2]
        assert isinstance(stat, Stat)
        assert stat.version == 1
        assert stat.czxid == stat.mzxid > epoch.czxid
        assert stat.ephemeral_owner == zk.session
        assert done[3:] == ["/s", None]

        for number, failing, error in (
            (0, [Check("/epoch", 1), Set("/epoch", b"x")], BadVersion),
            (1, [Set("/epoch", b"x"), Create("/e", b"")], NodeExists),
            (1, [Create("/new", b""), Set("/none", b"")], NoNode),
            (2, [Create("/new", b""), Create("/new/er", b""), Delete("/new")], NotEmpty),
            (1, [Delete("/e"), Delete("/epoch", 7)], BadVersion),
        ):
            with pytest.raises(MultiFailed) as failed:
                await zk.multi(failing)
            assert failed.value.index == number
            assert type(failed.value.error) is error
            assert not failed.value.error.unsure
        assert (await zk.get("/epoch"))[0] == b"1"
        assert await zk.exists("/e") == stat
        assert await zk.exists("/new") is None

    run(conduct)


def test_zookeeper_requests_are_answered_in_order(run: Callable[[Conduct], None]) -> None:
    async def conduct(world: World) -> None:
        zk = await world.connect()
        await zk.create("/n", b"")
        stats = await asyncio.gather(*[zk.set("/n", b"%d" % each) for each in range(50)])
        assert [each.version for each in stats] == list(range(1, 51))
        assert (await zk.get("/n"))[0] == b"49"

    run(conduct)


def test_zookeeper_watch_fires_once(run: Callable[[Conduct], None]) -> None:
    async def conduct(world: World) -> None:
        zk, other = await world.connect(), await world.connect()
        await zk.create("/n", b"")
        data, there, below, coming = (
            CountingWatch(),
            CountingWatch(),
            CountingWatch(),
            CountingWatch(),
        )
        await zk.get("/n", data)
        await zk.exists("/n", there)
        await zk.children("/n", below)
        await zk.exists("/later", coming)
        nothing = CountingWatch()
        await refused(NoNode, zk.get("/later", nothing))
        await refused(NoNode, zk.children("/later", nothing))

        await other.create("/n/child", b"")
        await below.wait()
        assert (data.rung, there.rung) == (0, 0)
        await other.set("/n", b"new")
        await data.wait()
        await there.wait()
        await other.create("/later", b"")
        await coming.wait()
        await other.set("/n", b"newer")
        await other.create("/n/sister", b"")
        await other.delete("/later")
        await settled(zk)
        assert [each.rung for each in (data, there, below, coming, nothing)] == [1, 1, 1, 1, 0]

        await zk.create("/x", b"")
        gone, childless = CountingWatch(), CountingWatch()
        await zk.exists("/x", gone)
        await zk.children("/x", childless)
        await other.delete("/x")
        await gone.wait()
        await childless.wait()

    run(conduct)


@pytest.mark.proves("clusters 20")
def test_lost_connection_fires_every_watch_and_keeps_the_session(
    run: Callable[[Conduct], None],
) -> None:
    """kazoo also removes each watch. The code that set it must read the node again."""

    async def conduct(world: World) -> None:
        zk, other = await world.connect(), await world.connect()
        states, session = SessionStates(zk), zk.session
        await zk.create("/e", b"", ephemeral=True)
        data, coming = CountingWatch(), CountingWatch()
        await zk.get("/e", data)
        await zk.exists("/later", coming)

        await world.lose_connection(zk)
        await data.wait()
        await coming.wait()
        await states.until(Connection.CONNECTED)

        assert states.told == [Connection.SUSPENDED, Connection.CONNECTED]
        assert zk.connection is Connection.CONNECTED
        assert zk.session == session
        assert await other.exists("/e") is not None
        await other.set("/e", b"changed")
        assert (await zk.get("/e"))[0] == b"changed"
        await settled(zk)
        assert (data.rung, coming.rung) == (1, 1)

    run(conduct)


def test_zookeeper_requests_are_repeated_after_a_lost_connection(
    run: Callable[[Conduct], None],
) -> None:
    async def conduct(world: World) -> None:
        zk = await world.connect()
        await zk.create("/n", b"")
        await world.lose_connection(zk)
        await asyncio.gather(*[zk.set("/n", b"%d" % each) for each in range(20)])
        assert (await zk.exists("/n")) is not None
        # Repeated requests may be executed twice, but not after the later requests.
        assert (await zk.get("/n"))[0] == b"19"

    run(conduct)


def test_ephemeral_nodes_of_an_expired_session_are_gone_before_a_new_session(
    run: Callable[[Conduct], None],
) -> None:
    async def conduct(world: World) -> None:
        zk, other = await world.connect(), await world.connect()
        states, session = SessionStates(zk), zk.session
        await zk.create("/e", b"", ephemeral=True)
        await zk.create("/p", b"")
        gone = CountingWatch()
        await other.exists("/e", gone)

        await world.expire(zk)
        await gone.wait()
        await states.until(Connection.EXPIRED)
        await states.until(Connection.CONNECTED)

        assert states.told[-2:] == [Connection.EXPIRED, Connection.CONNECTED]
        assert zk.session != session
        assert await other.exists("/e") is None
        assert await zk.exists("/p") is not None
        _, stat = await zk.create("/e", b"", ephemeral=True)
        assert stat.ephemeral_owner == zk.session

    run(conduct)


def test_zookeeper_request_fails_when_its_session_expires(run: Callable[[Conduct], None]) -> None:
    async def conduct(world: World) -> None:
        zk, other = await world.connect(), await world.connect()
        states = SessionStates(zk)
        await world.suspend(zk)
        works = [
            asyncio.ensure_future(work)
            for work in (
                zk.create("/e", b"", ephemeral=True),
                zk.exists("/"),
                zk.multi([Create("/m", b"")]),
            )
        ]
        await asyncio.sleep(0)
        await world.expire(zk)
        for work in works:
            await refused(SessionExpired, work)
        await states.until(Connection.CONNECTED)
        assert await zk.exists("/e") is None
        assert await other.exists("/m") is None

    run(conduct)


def test_close_of_a_zookeeper_client_removes_its_ephemeral_nodes(
    run: Callable[[Conduct], None],
) -> None:
    async def conduct(world: World) -> None:
        zk, other = await world.connect(), await world.connect()
        await zk.create("/e", b"", ephemeral=True)
        gone = CountingWatch()
        await other.exists("/e", gone)

        await zk.close()
        await gone.wait()

        assert await other.exists("/e") is None
        await refused(Closed, zk.get("/e"))

    run(conduct)
