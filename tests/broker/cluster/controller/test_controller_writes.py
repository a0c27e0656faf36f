"""Tests that writes of the controller are fenced by the controller epoch, and are verified after a
lost response."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from broker.cluster.controller.controller_writes import ControllerWrites
from broker.cluster.controller.election import elect
from broker.cluster.membership.registration import prepare
from broker.cluster.zookeeper.zookeeper import Check, Delete, Done, MultiFailed, Operation
from broker.test_mode.registry.ensemble import Ensemble
from broker.test_mode.registry.memory_zookeeper import MemoryZooKeeper
from controller.facts import Result, WriteResult
from controller.outcome import (
    CreateState,
    DeleteNodes,
    DeleteTopic,
    RewriteTopic,
    SetProducerIds,
    SetReassignments,
    SetState,
    Write,
)
from controller.values import Assignment, LeaderAndIsr
from protocol.znodes import admin, brokers, cluster, configs, topics

STATE = LeaderAndIsr(1, 0, (1, 2), 1)
PATH = topics.state_path("t", 0)


class Scene:
    """A controller with epoch 1, and a second ZooKeeper client."""

    def __init__(self) -> None:
        self.ensemble = Ensemble()
        self.zookeeper = MemoryZooKeeper(self.ensemble)
        self.other = MemoryZooKeeper(self.ensemble)

    async def begin(self) -> None:
        await prepare(self.zookeeper)
        elected = await elect(self.zookeeper, 1, 0)
        assert elected is not None
        self.writes = ControllerWrites(self.zookeeper, elected.epoch_version, topics.VERSION)
        node = topics.encode_topic(topics.TopicNode({0: (1, 2)}))
        await self.other.create(topics.topic_path("t"), node)

    async def does(self, write: Write) -> tuple[Result, int]:
        result = await self.writes.do(write)
        assert result.ticket == write.ticket
        return result.result, result.version


async def scene() -> Scene:
    found = Scene()
    await found.begin()
    return found


async def test_partition_state_is_created_once_with_its_parent_nodes() -> None:
    there = await scene()
    assert await there.does(CreateState(1, "t", 0, STATE)) == (Result.OK, 0)
    assert await there.does(CreateState(2, "t", 0, STATE)) == (Result.NODE_EXISTS, -1)
    assert await there.does(CreateState(3, "gone", 0, STATE)) == (Result.NO_NODE, -1)
    node = topics.decode_state("t", 0, there.ensemble.nodes[PATH].data or b"")
    assert (node.leader, node.isr, node.controller_epoch) == (1, (1, 2), 1)
    assert there.ensemble.nodes[topics.partitions_path("t")].data is None


async def test_partition_state_is_set_only_at_the_expected_version() -> None:
    there = await scene()
    await there.does(CreateState(1, "t", 0, STATE))
    assert await there.does(SetState(2, "t", 0, STATE._replace(leader=2))) == (Result.OK, 1)
    assert await there.does(SetState(3, "t", 0, STATE)) == (Result.BAD_VERSION, -1)
    assert await there.does(SetState(4, "t", 9, STATE)) == (Result.NO_NODE, -1)


@pytest.mark.proves("clusters 3")
@pytest.mark.parametrize("lost", [1, 2])
async def test_controller_write_with_lost_response_succeeds_if_node_has_the_written_content(
    lost: int,
) -> None:
    there = await scene()
    there.zookeeper.lose_answers(1)
    assert await there.does(CreateState(1, "t", 0, STATE)) == (Result.OK, 0)
    there.zookeeper.lose_answers(lost)
    changed = STATE._replace(leader=2, leader_epoch=1)
    assert await there.does(SetState(2, "t", 0, changed)) == (Result.OK, 1)
    there.zookeeper.lose_answers(1)
    assert await there.does(SetProducerIds(3, 1, 0, 999, 0)) == (Result.OK, 1)
    there.zookeeper.lose_answers(1)
    rewrite = RewriteTopic(4, "t", bytes(16), {0: Assignment((1, 2))}, 0, None)
    assert await there.does(rewrite) == (Result.OK, 1)
    there.zookeeper.lose_answers(1)
    assert (await there.does(DeleteNodes(5, [PATH])))[0] is Result.OK


async def test_controller_write_with_lost_response_fails_if_another_client_wrote() -> None:
    there = await scene()
    await there.does(CreateState(1, "t", 0, STATE))
    other = topics.encode_state(topics.StateNode(2, 5, (2,), 1))
    await there.other.set(PATH, other, 0)
    there.zookeeper.lose_answers(1)
    assert await there.does(SetState(2, "t", 0, STATE)) == (Result.BAD_VERSION, -1)
    assert there.ensemble.nodes[PATH].data == other


WRITES: list[Write] = [
    CreateState(1, "t", 0, STATE),
    SetState(2, "t", 1, STATE),
    RewriteTopic(3, "t", None, {0: Assignment((1,))}, 0, None),
    DeleteTopic(4, "t"),
    DeleteNodes(5, [topics.topic_path("t")]),
    SetReassignments(6, {("t", 0): (2,)}),
    SetReassignments(7, {}),
    SetProducerIds(8, 1, 0, 999, 0),
]


@pytest.mark.proves("clusters 21")
@pytest.mark.parametrize("write", WRITES, ids=lambda each: type(each).__name__)
async def test_write_of_a_fenced_controller_is_refused(write: Write) -> None:
    """Each write is a multi that checks the version of the controller epoch node."""
    there = await scene()
    await there.does(CreateState(9, "t", 1, STATE))
    await there.other.create(admin.REASSIGN, b"{}")
    await there.other.set(cluster.CONTROLLER_EPOCH, b"2")
    before = {path: node.data for path, node in there.ensemble.nodes.items()}
    assert (await there.does(write))[0] is Result.FENCED
    assert {path: node.data for path, node in there.ensemble.nodes.items()} == before


async def test_topic_deletion_removes_all_nodes_of_the_topic() -> None:
    there = await scene()
    await there.does(CreateState(1, "t", 0, STATE))
    await there.other.create(configs.path(configs.TOPICS, "t"), b"{}")
    await there.other.create(admin.delete_path("t"), None)
    assert (await there.does(DeleteTopic(2, "t")))[0] is Result.OK
    left = [path for path in there.ensemble.nodes if path.endswith("/t") or "/t/" in path]
    assert left == []
    deleted = [each.path for each in there.ensemble.writes if isinstance(each, Delete)]
    assert deleted[-2:] == [configs.path(configs.TOPICS, "t"), admin.delete_path("t")]
    assert (await there.does(DeleteTopic(3, "t")))[0] is Result.OK, "what isn't there is no error"


async def test_each_zookeeper_multi_that_deletes_a_topic_checks_the_controller_epoch() -> None:
    there = await scene()
    await there.does(CreateState(1, "t", 0, STATE))
    await there.does(DeleteTopic(2, "t"))
    assert there.ensemble.writes.count(Check(cluster.CONTROLLER_EPOCH, 1)) >= 6


async def test_rewritten_topic_node_in_zookeeper_keeps_unknown_fields() -> None:
    """The rewritten node also keeps the topic id and the reassignments."""
    there = await scene()
    moving = {0: Assignment((3, 1), (3,), (1,)), 1: Assignment((1,))}
    write = RewriteTopic(1, "t", bytes(range(16)), moving, 0, {"later": [1]})
    assert await there.does(write) == (Result.OK, 1)
    node = topics.decode_topic("t", there.ensemble.nodes[topics.topic_path("t")].data or b"")
    assert node.partitions == {0: (3, 1), 1: (1,)}
    assert (node.adding, node.removing) == ({0: (3,)}, {0: (1,)})
    assert node.unknown == {"later": [1]}
    assert node.topic_id == "AAECAwQFBgcICQoLDA0ODw"


async def test_controller_write_fails_when_its_session_expired() -> None:
    there = await scene()
    there.zookeeper.suspend()
    there.ensemble.end_session(there.zookeeper.session)
    doing = asyncio.ensure_future(there.does(SetProducerIds(1, 1, 0, 999, 0)))
    await asyncio.sleep(0)
    there.zookeeper.resume()
    assert await doing == (Result.FAILED, -1)


def _moved(ticket: int, index: int, epoch: int = 0) -> SetState:
    return SetState(ticket, "t", index, STATE._replace(leader=2, partition_epoch=epoch))


async def _three_states() -> Scene:
    there = await scene()
    done = await there.writes.do_states([CreateState(each, "t", each, STATE) for each in range(3)])
    assert done == [WriteResult(each, Result.OK, 0) for each in range(3)]
    return there


@pytest.mark.parametrize("lost", [0, 1, 2])
@pytest.mark.parametrize("count", [1, 3])
async def test_partition_state_write_fails_if_a_broker_registered_after_the_decision(
    count: int, lost: int
) -> None:
    there = await scene()
    created = [CreateState(each, "t", each, STATE) for each in range(count)]
    await there.writes.do_states(created)
    before = (await there.other.set(brokers.IDS, b"")).version
    changes = [SetState(each, "t", each, STATE._replace(isr=(1,))) for each in range(count)]

    assert {each.result for each in await there.writes.do_states(created, before - 1)} == {
        Result.NODE_EXISTS
    }
    there.zookeeper.lose_answers(lost)
    outdated = await there.writes.do_states(changes, before - 1)
    assert {each.result for each in outdated} == {Result.OUTDATED}
    assert topics.decode_state("t", 0, (await there.other.get(PATH))[0]).isr == (1, 2)

    there.zookeeper.lose_answers(lost)
    done = await there.writes.do_states(changes, before)
    assert [(each.result, each.version) for each in done] == [(Result.OK, 1)] * count


@pytest.mark.parametrize("count", [1, 3])
async def test_retried_write_of_a_partition_state_succeeds_when_a_broker_has_registered(
    count: int,
) -> None:
    there = await scene()
    await there.writes.do_states([CreateState(each, "t", each, STATE) for each in range(count)])
    before = (await there.other.set(brokers.IDS, b"")).version
    changes = [SetState(each, "t", each, STATE._replace(isr=(1,))) for each in range(count)]
    multi = there.zookeeper.multi

    async def multi_of_lost_answer(operations: Sequence[Operation]) -> list[Done]:
        there.zookeeper.multi = multi  # type: ignore[method-assign]
        await multi(operations)
        await there.other.set(brokers.IDS, b"")
        try:
            return await multi(operations)
        except MultiFailed as failed:
            failed.error.unsure = True
            raise

    there.zookeeper.multi = multi_of_lost_answer  # type: ignore[method-assign]
    done = await there.writes.do_states(changes, before)
    assert [(each.result, each.version) for each in done] == [(Result.OK, 1)] * count


async def test_partition_states_of_one_batch_are_written_by_one_zookeeper_multi() -> None:
    there = await _three_states()
    before = len(there.ensemble.writes)
    done = await there.writes.do_states([_moved(each, each) for each in range(3)])
    assert done == [WriteResult(each, Result.OK, 1) for each in range(3)]
    fences = [each for each in there.ensemble.writes[before:] if isinstance(each, Check)]
    assert len(fences) == 1


async def test_valid_partition_states_are_written_when_other_states_fail() -> None:
    there = await _three_states()
    writes = [_moved(1, 0), _moved(2, 1, epoch=7), _moved(3, 9), _moved(4, 2)]
    done = await there.writes.do_states([*writes, CreateState(5, "gone", 0, STATE)])
    assert [(each.ticket, each.result) for each in done] == [
        (1, Result.OK),
        (2, Result.BAD_VERSION),
        (3, Result.NO_NODE),
        (4, Result.OK),
        (5, Result.NO_NODE),
    ]


@pytest.mark.parametrize("lost", [1, 2])
async def test_partition_state_write_succeeds_when_only_its_response_is_lost(
    lost: int,
) -> None:
    there = await scene()
    there.zookeeper.lose_answers(lost)
    created = [CreateState(each, "t", each, STATE) for each in range(3)]
    assert [each.result for each in await there.writes.do_states(created)] == [Result.OK] * 3
    there.zookeeper.lose_answers(lost)
    done = await there.writes.do_states([_moved(each, each) for each in range(3)])
    assert done == [WriteResult(each, Result.OK, 1) for each in range(3)]


async def test_partition_state_batch_of_a_fenced_controller_is_refused() -> None:
    there = await _three_states()
    await there.other.set(cluster.CONTROLLER_EPOCH, b"2")
    done = await there.writes.do_states([_moved(1, 0), CreateState(2, "t", 8, STATE)])
    assert [each.result for each in done] == [Result.FENCED] * 2
