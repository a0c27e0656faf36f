"""Tests the registration of a broker: nodes of other sessions, an old node of the same broker, and
the broker epoch."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from broker.cluster.membership.registration import (
    NO_EPOCH,
    AlreadyRegistered,
    BrokerRegistration,
    cluster_id,
    generated_id,
    prepare,
)
from broker.cluster.zookeeper.zookeeper import Connection, Stat, Where, ZooKeeper
from broker.loop.background import Background
from broker.loop.watchdog import Watchdog
from broker.test_mode.registry.ensemble import Ensemble
from broker.test_mode.registry.memory_zookeeper import MemoryZooKeeper
from broker.time import Time
from broker.topics.registry import BadDirectory
from protocol.znodes import brokers, cluster
from tests.broker.edge import eventually
from tests.broker.mock_time import NoWaiting

PATH = brokers.path(1)
ENDPOINT = brokers.Endpoint("PLAINTEXT", "127.0.0.1", 9092)


class Scene:
    """Broker 1, the epochs of its registrations, and its failures."""

    def __init__(self, timeout_ms: int = 6000, unseen_ms: int = 0) -> None:
        self.ensemble = Ensemble()
        self.zookeeper = MemoryZooKeeper(self.ensemble)
        self.failures: list[str] = []
        self.epochs: list[int] = []
        time = NoWaiting()
        self.waited_s = time.slept_s
        """The durations of the pauses that the registration made. They take no real time."""
        self.background = Background(time, Watchdog(time))
        self.registration = BrokerRegistration(
            self.zookeeper,
            lambda: brokers.Registration(1, (ENDPOINT,)),
            brokers.VERSION,
            timeout_ms,
            unseen_ms,
            time,
            self.background.spawn,
            self.failures.append,
        )
        self.registration.when_registered(self.epochs.append)

    async def begin(self) -> None:
        await prepare(self.zookeeper)

    def stat(self) -> Stat | None:
        node = self.ensemble.nodes.get(PATH)
        return None if node is None else node.stat

    async def another(self) -> MemoryZooKeeper:
        """Creates the registration node of broker 1 from another client."""
        other = MemoryZooKeeper(self.ensemble)
        await other.create(PATH, b"{}", ephemeral=True)
        return other


async def test_broker_epoch_is_the_czxid_of_its_registration_znode() -> None:
    there = Scene()
    await there.begin()
    await there.registration.start()
    stat = there.stat()
    assert stat is not None
    assert there.epochs == [there.registration.epoch] == [stat.czxid]
    assert stat.ephemeral_owner == there.zookeeper.session
    data, _ = await there.zookeeper.get(PATH)
    assert brokers.decode_registration(1, data).endpoints == (ENDPOINT,)


async def test_registration_succeeds_when_its_response_is_lost() -> None:
    there = Scene()
    await there.begin()
    there.zookeeper.lose_answers(1)
    await there.registration.start()
    assert there.epochs == [there.ensemble.nodes[PATH].czxid]


@pytest.mark.proves("clusters 16")
async def test_registration_waits_until_the_node_of_another_session_is_removed() -> None:
    there = Scene()
    await there.begin()
    other = await there.another()
    before = there.stat()
    starting = asyncio.ensure_future(there.registration.start())
    for _ in range(20):
        await asyncio.sleep(0)
    assert there.stat() == before
    assert not starting.done()
    there.ensemble.end_session(other.session)
    await starting
    stat = there.stat()
    assert stat is not None
    assert stat.ephemeral_owner == there.zookeeper.session


async def test_registration_waits_until_an_old_controller_sees_the_broker_leave() -> None:
    """A Kafka controller that compares only broker ids must notice that the previous registration
    has ended."""
    there = Scene(unseen_ms=200)
    await there.begin()
    other = await there.another()
    starting = asyncio.ensure_future(there.registration.start())
    for _ in range(20):
        await asyncio.sleep(0)
    there.ensemble.end_session(other.session)
    await starting
    assert there.waited_s == [0.2]


async def test_registration_waits_until_the_previous_session_of_the_broker_has_ended() -> None:
    there = Scene(unseen_ms=200)
    await there.begin()
    await there.registration.until_free()
    other = await there.another()
    waiting = asyncio.ensure_future(there.registration.until_free())
    for _ in range(20):
        await asyncio.sleep(0)
    assert not waiting.done()
    there.ensemble.end_session(other.session)
    await waiting
    assert there.waited_s == [0.2], "an old controller sees the id gone"
    assert there.stat() is None
    assert there.epochs == []
    await there.registration.start()
    assert len(there.epochs) == 1


@pytest.mark.parametrize(("asked_for", "granted"), [(3000, 6000), (18_000, 18_000)])
def test_session_timeout_is_the_timeout_that_zookeeper_grants(asked_for: int, granted: int) -> None:
    """A ZooKeeper server grants a session timeout of at least two ticks, whatever a client
    requests."""
    assert Where("127.0.0.1:2181", asked_for, 1000, 10).session_ms == granted


async def test_registration_fails_when_another_broker_has_the_id() -> None:
    there = Scene(timeout_ms=20)
    await there.begin()
    await there.another()
    with pytest.raises(AlreadyRegistered, match="/brokers/ids/1 in ZooKeeper belongs to another"):
        await there.registration.start()
    assert there.epochs == []


async def test_registration_succeeds_when_its_first_session_expired() -> None:
    there = Scene()
    await there.begin()
    there.zookeeper.suspend()
    starting = asyncio.ensure_future(there.registration.start())
    await asyncio.sleep(0)
    there.ensemble.end_session(there.zookeeper.session)
    there.zookeeper.resume()
    await starting
    assert there.registration.epoch == there.ensemble.nodes[PATH].czxid


async def test_registration_succeeds_if_the_old_node_disappears_during_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The broker waits until its old ZooKeeper session ends. It is paused while the session ends,
    so after the pause the wait times out although the old node no longer exists."""
    waits: list[asyncio.Timeout] = []

    def until_told(_: Time, seconds: float) -> asyncio.Timeout:
        assert seconds == 12, "two sessions"
        waits.append(asyncio.timeout(None))
        return waits[-1]

    monkeypatch.setattr(NoWaiting, "within", until_told)
    there = Scene()
    await there.begin()
    other = await there.another()
    starting = asyncio.ensure_future(there.registration.start())
    for _ in range(20):
        await asyncio.sleep(0)
    there.zookeeper._watches.clear()
    there.ensemble.end_session(other.session)
    [wait] = waits
    wait.reschedule(asyncio.get_running_loop().time())
    await starting
    assert there.failures == []
    assert there.registration.epoch == there.ensemble.nodes[PATH].czxid


@pytest.mark.proves("clusters 14")
async def test_broker_has_no_epoch_until_its_new_session_is_registered() -> None:
    there = Scene()
    await there.begin()
    await there.registration.start()
    first = there.registration.epoch
    there.zookeeper.suspend()
    assert there.registration.epoch == first, "the session may live"
    there.ensemble.end_session(there.zookeeper.session)
    there.zookeeper.resume()
    assert there.registration.epoch == NO_EPOCH
    await eventually(lambda: len(there.epochs) == 2)
    assert there.registration.epoch > first
    assert there.registration.epoch == there.ensemble.nodes[PATH].czxid
    await there.background.stop()


async def test_reconnect_keeps_the_broker_epoch() -> None:
    there = Scene()
    await there.begin()
    await there.registration.start()
    there.zookeeper.lose_connection()
    await there.zookeeper.get(PATH)
    assert len(there.epochs) == 1
    await there.background.stop()


class StaleNodeZooKeeper:
    """A ZooKeeper that still contains the node of an earlier session of the client."""

    def __init__(self, zookeeper: MemoryZooKeeper) -> None:
        self._zookeeper = zookeeper
        self.session = zookeeper.session

    def __getattr__(self, name: str) -> object:
        return getattr(self._zookeeper, name)


async def test_registration_deletes_the_brokers_node_of_an_earlier_session() -> None:
    """ZOOKEEPER-2985: the server may end the old session after the client has started the new
    session."""
    there = Scene()
    await there.begin()
    outlived = StaleNodeZooKeeper(there.zookeeper)
    time = Time()
    background = Background(time, Watchdog(time))
    registration = BrokerRegistration(
        cast(ZooKeeper, outlived),
        lambda: brokers.Registration(1, (ENDPOINT,)),
        brokers.VERSION,
        6000,
        0,
        time,
        background.spawn,
        there.failures.append,
    )
    await registration.start()
    first = registration.epoch
    outlived._zookeeper = MemoryZooKeeper(there.ensemble)
    outlived.session = outlived._zookeeper.session
    registration._session_changed(Connection.EXPIRED)
    registration._session_changed(Connection.CONNECTED)
    await eventually(lambda: registration.epoch not in (NO_EPOCH, first))
    assert there.ensemble.nodes[PATH].owner == outlived.session
    await background.stop()


async def test_broker_stops_when_another_broker_registered_its_id() -> None:
    there = Scene(timeout_ms=20)
    await there.begin()
    await there.registration.start()
    there.zookeeper.suspend()
    there.ensemble.end_session(there.zookeeper.session)
    await there.another()
    there.zookeeper.resume()
    await eventually(lambda: there.failures)
    assert "set another broker.id" in there.failures[0]
    assert there.registration.epoch == NO_EPOCH
    await there.background.stop()


async def test_concurrent_first_brokers_agree_on_the_cluster_id() -> None:
    ensemble = Ensemble()
    first, second = MemoryZooKeeper(ensemble), MemoryZooKeeper(ensemble)
    names = await asyncio.gather(
        cluster_id(first, "a" * 22, None), cluster_id(second, "b" * 22, None)
    )
    assert len({*names}) == 1
    assert cluster.decode_cluster_id(ensemble.nodes[cluster.CLUSTER_ID].data or b"") == names[0]
    with pytest.raises(BadDirectory, match=r"correct zookeeper\.connect"):
        await cluster_id(first, "c" * 22, "d" * 22)
    assert await cluster_id(first, "c" * 22, names[0]) == names[0]


async def test_cluster_id_of_the_data_directory_is_restored() -> None:
    zookeeper = MemoryZooKeeper(Ensemble())
    assert await cluster_id(zookeeper, "a" * 22, "k" * 22) == "k" * 22


async def test_generated_broker_ids_are_unique_and_above_the_reserved_ids() -> None:
    zookeeper = MemoryZooKeeper(Ensemble())
    await prepare(zookeeper)
    found = await asyncio.gather(*[generated_id(zookeeper, 1000) for _ in range(3)])
    assert found == [1001, 1002, 1003]


@pytest.mark.proves("clusters 19")
async def test_second_creation_of_the_znodes_of_kafka_changes_no_node() -> None:
    zookeeper = MemoryZooKeeper(Ensemble())
    await prepare(zookeeper)
    before = len(zookeeper.ensemble.writes)
    await prepare(zookeeper)
    assert len(zookeeper.ensemble.writes) == before
    assert zookeeper.ensemble.nodes[cluster.PRODUCER_IDS].data is None, "trap 19: not zero bytes"
