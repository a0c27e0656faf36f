"""Tests the election of the controller: the cluster has one controller at a time, and each
controller has a new epoch."""

from __future__ import annotations

import asyncio
import json
from typing import NoReturn

import pytest

from broker.cluster.controller.election import Elected, controller_of, elect, write_feature
from broker.cluster.membership.registration import prepare
from broker.cluster.peers.inter_broker import parse
from broker.test_mode.registry.ensemble import Ensemble
from broker.test_mode.registry.memory_zookeeper import MemoryZooKeeper
from controller.events import ControllerReady
from protocol.znodes import cluster
from tests.broker.cluster.hosted import hosted
from tests.broker.edge import eventually


async def sessions(count: int) -> list[MemoryZooKeeper]:
    ensemble = Ensemble()
    found = [MemoryZooKeeper(ensemble) for _ in range(count)]
    await prepare(found[0])
    return found


async def test_one_of_two_concurrent_controller_candidates_is_elected() -> None:
    first, second = await sessions(2)
    won = await asyncio.gather(elect(first, 1, 0), elect(second, 2, 0))
    assert [each for each in won if each is not None] == [Elected(1, 1)]
    assert await controller_of(first) == (1 if won[0] else 2)
    assert first.ensemble.nodes[cluster.CONTROLLER_EPOCH].data == b"1"


async def test_controller_election_succeeds_when_its_response_is_lost() -> None:
    (zookeeper,) = await sessions(1)
    await zookeeper.create(cluster.CONTROLLER_EPOCH, b"6")
    zookeeper.lose_answers(1)
    assert await elect(zookeeper, 1, 0) == Elected(7, 1)
    assert await elect(zookeeper, 1, 0) is None, "it is the controller already"


async def test_each_elected_controller_has_a_new_epoch() -> None:
    async with hosted(1, 2) as there:
        first, second = there.hosts
        first.host.start()
        await eventually(lambda: first.seen(ControllerReady))
        second.host.start()
        await there.zookeeper.delete(cluster.CONTROLLER)
        await eventually(
            lambda: len(first.seen(ControllerReady) + second.seen(ControllerReady)) == 2
        )
        assert there.active() == [there.controller()]
        assert there.data(cluster.CONTROLLER_EPOCH) == b"2"


OF_KAFKA = {
    "0.10.2": b'{"features":{},"version":1,"status":0}',
    "2.6": b'{"features":{},"version":1,"status":0}',
    "2.7": b'{"features":{},"version":1,"status":1}',
    "3.2": b'{"features":{},"version":1,"status":1}',
    "3.9": b'{"features":{},"version":2,"status":1}',
}
"""The data that Kafka 3.9.2 writes to ``/feature``, by ``inter.broker.protocol.version``."""


@pytest.mark.parametrize("version", OF_KAFKA)
async def test_feature_node_equals_that_of_kafka_in_each_version(version: str) -> None:
    (zookeeper,) = await sessions(1)
    for before in (None, *OF_KAFKA.values()):
        if before is not None:
            await zookeeper.set(cluster.FEATURE, before)
        await write_feature(zookeeper, parse(version))
        data, stat = await zookeeper.get(cluster.FEATURE)
        assert json.loads(data) == json.loads(OF_KAFKA[version])
        await write_feature(zookeeper, parse(version))
        assert await zookeeper.exists(cluster.FEATURE) == stat, "it is written once"


@pytest.mark.parametrize("data", [b'{"version":2,"status":1,"features":{"x":{}}}', b"nonsense"])
async def test_feature_node_with_unknown_content_is_kept(data: bytes) -> None:
    (zookeeper,) = await sessions(1)
    await zookeeper.create(cluster.FEATURE, data)
    await write_feature(zookeeper, parse("3.9"))
    assert (await zookeeper.get(cluster.FEATURE))[0] == data


async def test_first_controller_writes_the_feature_node() -> None:
    async with hosted(1) as there:
        there.hosts[0].host.start()
        await eventually(lambda: there.hosts[0].seen(ControllerReady))
        assert json.loads(there.data(cluster.FEATURE) or b"") == json.loads(OF_KAFKA["3.9"])


async def test_another_controller_is_elected_when_controller_session_expires() -> None:
    async with hosted(1, 2) as there:
        first, second = there.hosts
        first.host.start()
        await eventually(lambda: first.seen(ControllerReady))
        second.host.start()
        first.zookeeper.suspend()
        there.ensemble.end_session(first.zookeeper.session)
        await eventually(lambda: second.seen(ControllerReady))
        assert there.active() == [1, 2], "it does not know yet"
        first.zookeeper.resume()
        assert there.active() == [2]
        await second.stop()
        await eventually(lambda: len(first.seen(ControllerReady)) == 2)
        assert [each.epoch for each in first.seen(ControllerReady)] == [1, 3]


async def test_another_controller_is_elected_after_the_first_controller_closes_its_session() -> (
    None
):
    async with hosted(1, 2) as there:
        first, second = there.hosts
        first.host.start()
        await eventually(lambda: first.seen(ControllerReady))
        second.host.start()
        first.host.stop()
        assert (there.controller(), there.active()) == (1, [])
        await first.zookeeper.close()
        await eventually(lambda: second.seen(ControllerReady))
        assert there.controller() == 2


async def test_reconnect_does_not_end_the_term_of_the_controller() -> None:
    async with hosted(1) as there:
        (only,) = there.hosts
        only.host.start()
        await eventually(lambda: only.seen(ControllerReady))
        term = only.host.term
        only.zookeeper.lose_connection()
        await there.zookeeper.get(cluster.CONTROLLER_EPOCH)
        assert only.host.term is term


def _fails(*_: object) -> NoReturn:
    raise ZeroDivisionError


async def test_candidate_is_elected_again_after_an_exception_ended_its_term_as_controller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with hosted(1) as there:
        (only,) = there.hosts
        only.host.start()
        await eventually(lambda: only.seen(ControllerReady))
        term = only.host.term
        assert term is not None
        monkeypatch.setattr(term.core, "handle", _fails)
        await there.topic("t", (11,))
        await eventually(lambda: len(only.seen(ControllerReady)) == 2)
        assert only.errors.counts.pop("controller") == 2, "it fails at its end too"
        assert there.controller() == 1
        assert there.data(cluster.CONTROLLER_EPOCH) == b"2"
