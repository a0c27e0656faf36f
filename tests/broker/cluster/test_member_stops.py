"""Tests brokers that stop: the leaderships move first, and the ZooKeeper session ends last."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from broker.cluster.zookeeper.zookeeper import Delete, Set
from protocol.znodes import brokers, topics
from tests.broker.cluster.members import Members, members
from tests.broker.serving import eventually


def led_by(there: Members, node_id: int) -> list[int]:
    """Returns the partitions of topic t whose leader is ``node_id`` according to ZooKeeper."""
    states = {
        index: topics.decode_state("t", index, node.data or b"")
        for index in range(6)
        if (node := there.ensemble.nodes.get(topics.state_path("t", index)))
    }
    assert len(states) == 6
    return [index for index, state in states.items() if state.leader == node_id]


@pytest.mark.parametrize("is_controller", [False, True])
async def test_stopping_broker_moves_its_leaderships_before_its_znode_is_deleted(
    tmp_path: Path, is_controller: bool
) -> None:
    async with members(tmp_path) as there:
        await there.create("t", 6)
        controller = there.brokers[1].cluster.controller_id
        stopping = next(each for each in there.brokers if (each == controller) is is_controller)
        assert led_by(there, stopping)
        before = len(there.ensemble.writes)
        with capture_logs() as lines:
            await there.stop(stopping)
        events = [each["event"] for each in lines]
        assert "controlled shutdown succeeded" in events
        assert led_by(there, stopping) == []

        writes = there.ensemble.writes[before:]
        left = writes.index(Delete(brokers.path(stopping)))
        moved = [
            at
            for at, each in enumerate(writes)
            if isinstance(each, Set) and each.path.endswith("/state")
        ]
        assert moved[0] < left
        for index in range(6):
            assert (await there.leader("t", index)).config.configured_id != stopping


async def test_stopping_broker_skips_controlled_shutdown_when_disabled(
    tmp_path: Path,
) -> None:
    async with members(tmp_path, {"controlled.shutdown.enable": "false"}) as there:
        await there.create("t", 6)
        controller = there.brokers[1].cluster.controller_id
        stopping = next(each for each in there.brokers if each != controller)
        with capture_logs() as lines:
            await there.stop(stopping)
        assert not [each for each in lines if "controlled shutdown succeeded" in each["event"]]
        await eventually("its partitions are led", lambda: not led_by(there, stopping))


async def test_last_broker_of_a_cluster_stops_although_no_broker_can_lead_its_partitions(
    tmp_path: Path,
) -> None:
    async with members(tmp_path) as there:
        await there.create("t", 6)
        for node_id in (1, 2, 3):
            await there.stop(node_id)
        assert there.ensemble.sessions == {}
        again = await there.start(3)
        await eventually("it leads all", lambda: len(led_by(there, 3)) == 6)
        assert again.mode.member is not None
