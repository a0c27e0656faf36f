"""Tests that brokers log invalid ZooKeeper nodes, serve all topics that do not depend on these
nodes, and recover."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from broker.test_mode.registry.memory_zookeeper import MemoryZooKeeper
from broker.topics.startup_parts import CannotJoin
from protocol.znodes import brokers, cluster, configs, topics
from tests.broker.cluster.members import Members, members
from tests.broker.serving import asked, eventually
from tests.broker.topic_calls import produce

BAD = b'{"no": JSON'


class InvalidNodes:
    """ZooKeeper nodes whose data the test replaces with invalid data and later restores."""

    def __init__(self, there: Members) -> None:
        self.zookeeper = MemoryZooKeeper(there.ensemble)
        self._data: dict[str, bytes] = {}

    async def spoil(self, *paths: str) -> None:
        for path in paths:
            self._data[path], _ = await self.zookeeper.get(path)
            await self.zookeeper.set(path, BAD)

    async def put_right(self) -> None:
        for path, data in self._data.items():
            await self.zookeeper.set(path, data)


def named(lines: Iterable[EventDict], path: str) -> list[str]:
    """Returns the event names of the log lines whose reason contains ``path``, the path of an
    invalid node."""
    return [each["event"] for each in lines if path in str(each.get("reason"))]


def in_sync(there: Members, topic: str) -> int:
    node = there.ensemble.nodes[topics.state_path(topic, 0)]
    return len(topics.decode_state(topic, 0, node.data or b"").isr)


async def write(there: Members, topic: str) -> int:
    """Produces one record with acks=all. Returns the error code."""
    leader = await there.leader(topic, 0)
    answer = await asked(leader, lambda wire: produce(wire, topic))
    error_code: int = answer["error_code"]
    return error_code


@pytest.mark.campaign
async def test_cluster_starts_when_the_zookeeper_node_of_a_topic_is_invalid(tmp_path: Path) -> None:
    async with members(tmp_path) as there:
        for topic in ("good", "bad"):
            await there.create(topic, 1)
            assert await write(there, topic) == 0
        for node_id in (1, 2, 3):
            await there.stop(node_id)
        spoiled = InvalidNodes(there)
        await spoiled.spoil(topics.topic_path("bad"))
        with capture_logs() as lines:
            for node_id in (1, 2, 3):
                await there.start(node_id)
            await there.settled()
            assert await write(there, "good") == 0
        assert len(named(lines, "/brokers/topics/bad")) == 3 + 1, "each broker, and the controller"

        await spoiled.put_right()
        assert await write(there, "bad") == 0
        leader = await there.leader("bad", 0)
        assert leader.logs.topics["bad"].partitions[0].log.log_end_offset == 2
        await eventually("all are in sync", lambda: in_sync(there, "bad") == 3)


@pytest.mark.campaign
async def test_running_cluster_serves_other_topics_when_nodes_become_invalid(
    tmp_path: Path,
) -> None:
    async with members(tmp_path) as there:
        for topic in ("good", "bad"):
            await there.create(topic, 1)
        spoiled = InvalidNodes(there)
        paths = [
            topics.topic_path("bad"),
            topics.state_path("bad", 0),
            configs.path("topics", "bad"),
        ]
        with capture_logs() as lines:
            await spoiled.spoil(*paths)
            await there.stop(there.brokers[1].cluster.controller_id)
            await there.settled()
            assert await write(there, "good") == 0
        assert named(lines, "/brokers/topics/bad")
        await spoiled.put_right()
        assert await write(there, "bad") == 0


async def test_no_controller_is_elected_while_the_controller_epoch_is_invalid(
    tmp_path: Path,
) -> None:
    async with members(tmp_path) as there:
        await there.create("good", 1)
        spoiled = InvalidNodes(there)
        await spoiled.spoil(cluster.CONTROLLER_EPOCH)
        with capture_logs() as lines:
            await spoiled.zookeeper.delete(cluster.CONTROLLER)
            await eventually(
                "it is named", lambda: len(named(lines, cluster.CONTROLLER_EPOCH)) == 3
            )
            assert await write(there, "good") == 0
        await spoiled.put_right()
        await eventually("one is elected", lambda: cluster.CONTROLLER in there.ensemble.nodes)
        assert not any(each.internal_errors.counts.total() for each in there.brokers.values())


async def test_broker_with_an_invalid_registration_leaves_the_isr(
    tmp_path: Path,
) -> None:
    async with members(tmp_path) as there:
        await there.create("good", 1)
        controller = there.brokers[1].cluster.controller_id
        other = next(each for each in there.brokers if each != controller)
        spoiled = InvalidNodes(there)
        with capture_logs() as lines:
            await spoiled.spoil(brokers.path(other))
            await eventually("it is named", lambda: bool(named(lines, brokers.path(other))))
            await eventually("it is out", lambda: in_sync(there, "good") == 2)
            aside = there.brokers.pop(other)
            assert await write(there, "good") == 0
            there.brokers[other] = aside
        await spoiled.put_right()
        await eventually("it is back", lambda: in_sync(there, "good") == 3)


@pytest.mark.parametrize("path", [cluster.CLUSTER_ID])
async def test_start_fails_when_the_cluster_id_node_is_invalid(path: str, tmp_path: Path) -> None:
    async with members(tmp_path) as there:
        await there.stop(3)
        await InvalidNodes(there).spoil(path)
        with pytest.raises(CannotJoin, match=rf"{path} is not JSON: .*; correct the"):
            await there.start(3)
