"""The fake ZooKeeper of a cluster in test mode: its sessions expire by the mock clock of the
cluster."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

import pytest

from broker.cluster.zookeeper.zookeeper import Connection, Where
from broker.test_mode.clock.mock_time import MockTime
from broker.test_mode.registry.memory_zookeeper import MemoryZooKeeper
from broker.test_mode.registry.registry import Registry

WHERE = Where("registry:2181", 6000, 6000, 10)
BROKER: ContextVar[int] = ContextVar("broker of a test", default=0)


class Scene:
    """A registry with the nodes of two brokers."""

    def __init__(self) -> None:
        self.time = MockTime()
        self.time.freeze()
        self.registry = Registry(self.time)

    async def connect(self, broker_id: int) -> MemoryZooKeeper:
        client = await self.registry.connect(broker_id, WHERE, self.time)
        await client.create(f"/{broker_id}", b"", ephemeral=True)
        return client

    @property
    def nodes(self) -> set[str]:
        return set(self.registry.ensemble.nodes) - {"/"}


@pytest.mark.parametrize("end", ["vanish", "cut"])
async def test_zookeeper_session_without_connection_expires_after_its_timeout(end: str) -> None:
    scene = Scene()
    await scene.connect(1)
    await scene.connect(2)
    await scene.time.advance(3_600_000)
    assert scene.nodes == {"/1", "/2"}

    getattr(scene.registry, end)(1)

    assert not scene.registry.is_connected(1)
    await scene.time.advance(5999)
    assert scene.nodes == {"/1", "/2"}
    await scene.time.advance(1)
    assert scene.nodes == {"/2"}


async def test_zookeeper_session_can_be_expired_at_once_only_for_a_killed_broker() -> None:
    scene = Scene()
    await scene.connect(1)
    scene.registry.expire(1)
    assert scene.nodes == {"/1"}

    scene.registry.vanish(1)
    scene.registry.expire(1)

    assert scene.nodes == set()


async def test_restarted_broker_ends_the_zookeeper_session_of_its_previous_run() -> None:
    scene = Scene()
    await scene.connect(1)
    scene.registry.vanish(1)

    await scene.connect(1)

    assert scene.nodes == {"/1"}
    await scene.time.advance(6000)
    assert scene.nodes == {"/1"}
    assert scene.registry.is_connected(1)


async def test_broker_that_reconnects_within_its_session_timeout_keeps_the_session() -> None:
    scene = Scene()
    client = await scene.connect(1)
    session, states = client.session, list[Connection]()
    client.on_session(states.append)

    scene.registry.cut(1)
    await scene.time.advance(5999)
    scene.registry.restore(1)
    await scene.time.advance(6000)

    assert states == [Connection.SUSPENDED, Connection.CONNECTED]
    assert client.session == session
    assert scene.nodes == {"/1"}


async def test_broker_that_reconnects_after_its_session_timeout_has_a_new_session() -> None:
    scene = Scene()
    client = await scene.connect(1)
    session, states = client.session, list[Connection]()
    client.on_session(states.append)

    scene.registry.cut(1)
    await scene.time.advance(6000)
    scene.registry.restore(1)

    assert states == [Connection.SUSPENDED, Connection.EXPIRED, Connection.CONNECTED]
    assert client.session not in (0, session)
    assert scene.nodes == set()


async def test_watch_callback_sees_the_context_variables_of_the_client_that_set_the_watch() -> None:
    scene = Scene()
    found: list[int] = []

    async def watch() -> None:
        BROKER.set(1)
        client = await scene.connect(1)
        await client.exists("/2", lambda: found.append(BROKER.get()))

    async def write() -> None:
        BROKER.set(2)
        await scene.connect(2)

    await asyncio.create_task(watch())
    await asyncio.create_task(write())
    await asyncio.sleep(0)

    assert found == [1]


async def test_watch_of_a_killed_client_is_not_called() -> None:
    scene = Scene()
    client, found = await scene.connect(1), list[int]()
    await client.exists("/2", lambda: found.append(1))

    scene.registry.vanish(1)
    await scene.connect(2)
    await asyncio.sleep(0)

    assert found == []


async def test_new_zookeeper_nodes_have_the_time_of_the_clusters_mock_clock() -> None:
    scene = Scene()
    client = await scene.connect(1)
    await scene.time.advance(60_000)

    _, stat = await client.create("/later", b"")

    assert stat.ctime_ms == scene.time.now().wall_ms


async def test_paused_client_receives_changes_of_zookeeper_nodes_when_it_continues() -> None:
    scene = Scene()
    client, found = await scene.connect(1), list[str]()
    client.on_session(lambda each: found.append(each.value))
    await client.exists("/2", lambda: found.append("watch"))

    scene.registry.pause(1)
    reading = asyncio.create_task(client.exists("/2"))
    await scene.connect(2)
    await asyncio.sleep(0)
    await scene.time.advance(5999)
    assert found == []
    assert not reading.done()
    scene.registry.restore(1)

    assert await reading is not None
    assert found == ["watch"]
    await scene.time.advance(6000)
    assert scene.nodes == {"/1", "/2"}


async def test_client_paused_beyond_its_session_timeout_has_a_new_session() -> None:
    scene = Scene()
    client, states = await scene.connect(1), list[Connection]()
    client.on_session(states.append)

    scene.registry.pause(1)
    await scene.time.advance(6000)
    assert states == []
    assert scene.nodes == set()
    scene.registry.restore(1)

    assert states == [Connection.SUSPENDED, Connection.EXPIRED, Connection.CONNECTED]
    assert scene.registry.is_connected(1)
