"""Tests ISR changes of leaders. Either the controller or the leader itself writes a change to
ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.peers.peer import PeerLost
from broker.cluster.replicas.isr_states import IsrStates
from broker.cluster.replicas.isr_writer import AlterPartitionWriter
from broker.cluster.zookeeper.zookeeper import ensure_path
from broker.test_mode.registry.ensemble import Ensemble
from broker.test_mode.registry.memory_zookeeper import MemoryZooKeeper
from broker.time import Time
from protocol.errors import (
    FENCED_LEADER_EPOCH,
    INVALID_UPDATE_VERSION,
    NONE,
    NOT_CONTROLLER,
    STALE_BROKER_EPOCH,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from protocol.messages import alter_partition
from protocol.schema import Api
from protocol.znodes.notices import ISR_CHANGES, decode_isr_change
from protocol.znodes.topics import StateNode, decode_state, encode_state, state_path
from replication.values import PartitionState
from tests.broker.cluster.told import tell, topic
from tests.broker.edge import eventually

ID = bytes(range(16))
LEADS = PartitionState(4, 1, 7, (1,), 3, (1, 2, 3))


class FakeLedPartition:
    """A fake partition with a local leader. It records the results of its ISR changes."""

    def __init__(self, topic: str = "t", index: int = 0, state: PartitionState = LEADS) -> None:
        self.topic, self.index = topic, index
        self.state: PartitionState | None = state
        self.led: object | None = self
        self.told: list[tuple[str, int]] = []
        self.again: Callable[[], None] | None = None
        """The function that is called when a change is refused. A real partition would then request
        another ISR."""

    def isr_written(self, partition_epoch: int) -> None:
        self.told.append(("written", partition_epoch))

    def isr_refused(self, error_code: int) -> None:
        self.told.append(("refused", error_code))
        if self.again is not None:
            again, self.again = self.again, None
            again()


class ScriptedController:
    """A fake connection to the controller with scripted responses."""

    def __init__(self) -> None:
        self.version = 3
        self.asked: list[dict[str, Any]] = []
        self.versions: list[int] = []
        self.answers: list[Any] = []
        """The response to each request: the arguments of `_answer`, or an exception to raise."""
        self.looked_again = 0
        self.underway = 0

    async def version_of(self, api: Api) -> int:
        return self.version

    async def call(
        self, api: Api, version: int, value: dict[str, Any], timeout_ms: int | None = None
    ) -> dict[str, Any]:
        self.underway += 1
        assert self.underway == 1, "one request at a time"
        api.encode_request(version, value)
        self.asked.append(value)
        self.versions.append(version)
        await asyncio.sleep(0)
        self.underway -= 1
        answer = self.answers.pop(0) if self.answers else {}
        if isinstance(answer, Exception):
            raise answer
        return self._answer(value, **answer)

    def _answer(
        self, value: dict[str, Any], top: int = NONE, code: int = NONE, left_out: bool = False
    ) -> dict[str, Any]:
        topics = [
            {
                "topic_name": each.get("topic_name", ""),
                "topic_id": each.get("topic_id"),
                "partitions": [
                    {
                        "partition_index": partition["partition_index"],
                        "error_code": code,
                        "partition_epoch": partition["partition_epoch"] + 1,
                    }
                    for partition in each["partitions"]
                ],
            }
            for each in value["topics"]
        ]
        return {"error_code": top, "topics": [] if top or left_out else topics}

    def look_again(self) -> None:
        self.looked_again += 1


class ControllerScene:
    """An ISR writer that sends changes to the controller."""

    def __init__(
        self, has_topic_ids: bool = True, topic_id: bytes | None = ID, time: Time | None = None
    ) -> None:
        self.controller = ScriptedController()
        self.epoch = 99
        cache = MetadataCache(1)
        tell(cache, topic("t", [1, 1, 1], topic_id), topic("u", [1], topic_id and b"u" * 16))
        controller: Any = self.controller
        self.writer = AlterPartitionWriter(
            1, lambda: self.epoch, cache, controller, has_topic_ids, 5000, time or Time(), _spawn
        )


def _spawn(work: Any, name: str) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(work, name=name)


@asynccontextmanager
async def controller_scene(
    has_topic_ids: bool = True, topic_id: bytes | None = ID, time: Time | None = None
) -> AsyncIterator[ControllerScene]:
    found = ControllerScene(has_topic_ids, topic_id, time)
    found.writer.start()
    try:
        yield found
    finally:
        found.writer.stop()


# -- by the controller


async def test_isr_changes_that_wait_for_an_alter_partition_response_share_the_next_request() -> (
    None
):
    async with controller_scene() as house:
        first, second, third = FakeLedPartition(), FakeLedPartition(index=2), FakeLedPartition("u")
        house.writer.wanted(first, (1, 2), 3)
        await eventually(lambda: house.controller.asked)
        house.writer.wanted(second, (1, 3), 3)
        house.writer.wanted(third, (1, 2, 3), 3)
        await eventually(lambda: third.told)
    assert first.told == second.told == third.told == [("written", 4)]
    assert len(house.controller.asked) == 2
    assert house.controller.asked[0] == {
        "broker_id": 1,
        "broker_epoch": 99,
        "topics": [
            {
                "topic_id": ID,
                "partitions": [
                    {
                        "partition_index": 0,
                        "leader_epoch": 7,
                        "new_isr_with_epochs": [{"broker_id": 1}, {"broker_id": 2}],
                        "leader_recovery_state": 0,
                        "partition_epoch": 3,
                    }
                ],
            }
        ],
    }


@pytest.mark.parametrize("version", alter_partition.API.versions)
async def test_isr_change_is_written_in_every_version_of_alter_partition(version: int) -> None:
    async with controller_scene() as house:
        house.controller.version = version
        partition = FakeLedPartition()
        house.writer.wanted(partition, (1, 2), 3)
        await eventually(lambda: partition.told)
    assert partition.told == [("written", 4)]
    assert house.controller.versions == [version]


@pytest.mark.parametrize(("has_ids", "topic_id"), [(False, ID), (True, None)])
async def test_isr_changes_of_topics_without_ids_are_sent_by_name(
    has_ids: bool, topic_id: bytes | None
) -> None:
    async with controller_scene(has_ids, topic_id) as house:
        partition = FakeLedPartition()
        house.writer.wanted(partition, (1, 2), 3)
        await eventually(lambda: partition.told)
    assert partition.told == [("written", 4)]
    assert house.controller.versions == [1]
    assert house.controller.asked[0]["topics"][0]["topic_name"] == "t"


@pytest.mark.parametrize(
    "answer",
    [
        PeerLost("gone"),
        RuntimeError("a bug"),
        {"top": NOT_CONTROLLER},
        {"code": NOT_CONTROLLER},
        {"top": STALE_BROKER_EPOCH},
        {"left_out": True},
    ],
)
async def test_isr_change_is_sent_again_after_a_retriable_error(answer: Any) -> None:
    async with controller_scene() as house:
        house.controller.answers = [answer]
        partition = FakeLedPartition()
        house.writer.wanted(partition, (1, 2), 3)
        await eventually(lambda: partition.told)
    assert partition.told == [("written", 4)]
    assert len(house.controller.asked) == 2
    assert house.controller.looked_again == (NOT_CONTROLLER in getattr(answer, "values", list)())


async def test_isr_change_is_retried_with_backoff_when_controller_is_unreachable() -> None:
    pauses = []

    class NotedPauses(Time):
        async def sleep(self, seconds: float) -> None:
            pauses.append(seconds)
            await super().sleep(0)

    with capture_logs() as lines:
        async with controller_scene(time=NotedPauses()) as house:
            house.controller.answers = [PeerLost("gone")] * 20
            partition = FakeLedPartition()
            house.writer.wanted(partition, (1, 2), 3)
            await eventually(lambda: partition.told)
    assert pauses == [0.05, 0.1, 0.2, *[0.4] * 17]
    told = [each["event"] for each in lines]
    assert told.count("controller does not accept ISR changes, retrying") == 1
    assert told.count("controller accepts ISR changes again") == 1


async def test_partition_can_request_another_isr_change_after_a_refusal() -> None:
    async with controller_scene() as house:
        house.controller.answers = [{"code": UNKNOWN_SERVER_ERROR}, {"code": FENCED_LEADER_EPOCH}]
        partition = FakeLedPartition()
        partition.again = lambda: house.writer.wanted(partition, (1, 2), 3)
        house.writer.wanted(partition, (1, 2), 3)
        await eventually(lambda: len(partition.told) == 2)
    assert partition.told == [("refused", UNKNOWN_SERVER_ERROR), ("refused", FENCED_LEADER_EPOCH)]


@pytest.mark.proves("clusters 14")
async def test_isr_change_is_sent_only_when_the_broker_is_registered() -> None:
    async with controller_scene() as house:
        house.epoch = -1
        partition = FakeLedPartition()
        house.writer.wanted(partition, (1, 2), 3)
        for _ in range(20):
            await asyncio.sleep(0)
        assert house.controller.asked == []
        house.epoch = 100
        await eventually(lambda: partition.told)
    assert [each["broker_epoch"] for each in house.controller.asked] == [100]


@pytest.mark.parametrize(
    "learnt", [LEADS._replace(leader_epoch=8), LEADS._replace(partition_epoch=4), None]
)
async def test_isr_change_is_dropped_when_the_partition_state_has_changed(
    learnt: PartitionState | None,
) -> None:
    async with controller_scene() as house:
        house.controller.answers = [{"top": NOT_CONTROLLER}]
        partition, other = FakeLedPartition(), FakeLedPartition(index=1)
        house.writer.wanted(partition, (1, 2), 3)
        house.writer.wanted(other, (1, 2), 3)
        await eventually(lambda: house.controller.asked)
        partition.state = learnt
        await eventually(lambda: other.told)
    assert partition.told == []
    assert len(house.controller.asked[1]["topics"][0]["partitions"]) == 1


async def test_isr_change_is_dropped_when_the_broker_lost_the_leadership() -> None:
    async with controller_scene() as house:
        house.controller.answers = [{"top": NOT_CONTROLLER}]
        partition, other = FakeLedPartition(), FakeLedPartition(index=1)
        house.writer.wanted(partition, (1, 2), 3)
        house.writer.wanted(other, (1, 2), 3)
        await eventually(lambda: house.controller.asked)
        partition.led = None
        await eventually(lambda: other.told)
    assert partition.told == []
    assert len(house.controller.asked[1]["topics"][0]["partitions"]) == 1


# -- by the leader


@asynccontextmanager
async def leader_writer(
    time: Time | None = None,
) -> AsyncIterator[tuple[IsrStates, Ensemble, MemoryZooKeeper]]:
    ensemble = Ensemble()
    zookeeper = MemoryZooKeeper(ensemble)
    path = state_path("t", 0)
    await ensure_path(zookeeper, path)
    await ensure_path(zookeeper, ISR_CHANGES)
    for _ in range(3):  # These writes raise the version to 3.
        await zookeeper.set(path, encode_state(StateNode(1, 7, (1,), 4)))
    writer = IsrStates(zookeeper, time or Time(), _spawn)
    writer.start()
    try:
        yield writer, ensemble, zookeeper
    finally:
        writer.stop()


def written(ensemble: Ensemble) -> StateNode:
    return decode_state("t", 0, ensemble.nodes[state_path("t", 0)].data or b"")


@pytest.mark.proves("clusters 2")
async def test_isr_write_expects_the_last_known_version_of_the_state_node() -> None:
    async with leader_writer() as (writer, ensemble, _):
        partition = FakeLedPartition()
        writer.wanted(partition, (1, 2), 3)
        await eventually(lambda: partition.told)
        assert partition.told == [("written", 4)]
        assert written(ensemble) == StateNode(1, 7, (1, 2), 4)


async def test_isr_writer_does_not_overwrite_a_state_with_another_version() -> None:
    async with leader_writer() as (writer, ensemble, _):
        partition = FakeLedPartition(state=LEADS._replace(partition_epoch=2))
        writer.wanted(partition, (1, 2), 2)
        await eventually(lambda: partition.told)
        assert partition.told == [("refused", INVALID_UPDATE_VERSION)]
        assert written(ensemble) == StateNode(1, 7, (1,), 4)


@pytest.mark.proves("clusters 3")
async def test_isr_write_succeeds_when_its_response_is_lost() -> None:
    """The second attempt finds the version that the first attempt wrote."""
    async with leader_writer() as (writer, ensemble, zookeeper):
        partition = FakeLedPartition()
        zookeeper.lose_answers(1)
        writer.wanted(partition, (1, 2), 3)
        await eventually(lambda: partition.told)
        assert partition.told == [("written", 4)]
        assert written(ensemble) == StateNode(1, 7, (1, 2), 4)


async def test_isr_change_is_written_in_the_next_zookeeper_session_after_an_expiry() -> None:
    async with leader_writer() as (writer, ensemble, zookeeper):
        partition = FakeLedPartition()
        zookeeper.suspend()
        writer.wanted(partition, (1, 2), 3)
        for _ in range(20):
            await asyncio.sleep(0)
        zookeeper.expire()
        await eventually(lambda: partition.told)
        assert partition.told == [("written", 4)]
        assert written(ensemble) == StateNode(1, 7, (1, 2), 4)


async def test_isr_change_of_a_partition_without_a_state_node_is_refused() -> None:
    async with leader_writer() as (writer, _, _):
        partition = FakeLedPartition(index=9)
        writer.wanted(partition, (1, 2), 3)
        await eventually(lambda: partition.told)
        assert partition.told == [("refused", UNKNOWN_TOPIC_OR_PARTITION)]


class FastTime(Time):
    """A clock whose sleeps take one iteration of the event loop and advance the clock by the
    duration of the sleep."""

    def __init__(self) -> None:
        self.mono_s = 1000.0
        super().__init__(monotonic_s=lambda: self.mono_s)

    async def sleep(self, seconds: float) -> None:
        self.mono_s += seconds
        await asyncio.sleep(0)


async def test_isr_change_notice_is_written_to_zookeeper_within_10_s() -> None:
    time = FastTime()
    async with leader_writer(time) as (writer, ensemble, _):
        notices = lambda: [  # noqa: E731
            decode_isr_change(path, node.data or b"")
            for path, node in ensemble.nodes.items()
            if path.startswith(f"{ISR_CHANGES}/")
        ]
        time.mono_s += 100
        partition = FakeLedPartition()
        writer.wanted(partition, (1, 2), 3)
        await eventually(lambda: partition.told)
        since_s = time.mono_s
        await eventually(notices)
        assert notices() == [[("t", 0)]]
        assert time.mono_s - since_s <= 10
