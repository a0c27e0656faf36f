"""Tests transaction markers for partitions that other brokers lead."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from broker.cluster.coordinators.remote_markers import RemoteMarkers
from broker.cluster.peers.inter_broker import parse
from broker.test_mode.registry.ensemble import Ensemble
from broker.test_mode.registry.memory_zookeeper import MemoryZooKeeper
from broker.time import Time
from log.values import Marker
from protocol.errors import (
    INVALID_PRODUCER_EPOCH,
    NETWORK_EXCEPTION,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    TRANSACTION_COORDINATOR_FENCED,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSUPPORTED_FOR_MESSAGE_FORMAT,
    UNSUPPORTED_VERSION,
)
from protocol.messages.write_txn_markers import API
from protocol.znodes.topics import topic_path
from tests.broker.cluster.other_broker import SETTINGS, FakeView, OtherBroker, Value, other_broker
from tests.broker.edge import Taker, eventually

COMMIT = Marker(7, 1, 5, committed=True)


@dataclass
class MarkerScene:
    """A broker that sends markers to other brokers, and the error codes of the responses."""

    other: OtherBroker
    cluster: FakeView
    zookeeper: MemoryZooKeeper
    markers: RemoteMarkers
    answers: dict[tuple[str, int], int] = field(default_factory=dict)

    def write(self, topic: str, partition: int, marker: Marker = COMMIT) -> None:
        def take(error_code: int) -> None:
            self.answers[topic, partition] = error_code

        self.markers.write(topic, partition, marker, Taker(take))

    async def answered(self, count: int) -> dict[tuple[str, int], int]:
        await eventually(lambda: len(self.answers) == count)
        return self.answers


@asynccontextmanager
async def marker_scene(spoken: str = "3.9") -> AsyncIterator[MarkerScene]:
    zookeeper = MemoryZooKeeper(Ensemble())
    async with other_broker() as other:
        cluster = FakeView(other.node)
        tasks: set[asyncio.Task[None]] = set()

        def spawn(work: Any, name: str) -> asyncio.Task[None]:
            task = asyncio.get_running_loop().create_task(work, name=name)
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            return task

        markers = RemoteMarkers(cluster, SETTINGS, parse(spoken), zookeeper, Time(), spawn)
        try:
            yield MarkerScene(other, cluster, zookeeper, markers)
        finally:
            markers.stop()
            await zookeeper.close()


def _all(error_code: int, request: Value) -> Value:
    return {
        "markers": [
            {
                "producer_id": marker["producer_id"],
                "topics": [
                    {
                        "name": topic["name"],
                        "partitions": [
                            {"partition_index": index, "error_code": error_code}
                            for index in topic["partition_indexes"]
                        ],
                    }
                    for topic in marker["topics"]
                ],
            }
            for marker in request["markers"]
        ]
    }


def answers(error_code: int) -> Any:
    async def answer(_: int, request: Value) -> Value:
        return _all(error_code, request)

    return answer


@pytest.mark.parametrize(("spoken", "version"), [("3.9", 1), ("2.8", 1), ("1.0", 0)])
async def test_markers_of_one_turn_share_one_request(spoken: str, version: int) -> None:
    async with marker_scene(spoken) as here:
        here.other.serve(API.key, 0, 1, answers(NONE))
        abort = Marker(8, 0, 5, committed=False)
        for partition in range(3):
            here.cluster.leaders["orders", partition] = 2
            here.write("orders", partition)
        here.cluster.leaders["paid", 0] = 2
        here.write("paid", 0, abort)

        assert await here.answered(4) == dict.fromkeys(here.cluster.leaders, NONE)
        [(key, sent, request)] = here.other.asked
        assert (key, sent) == (API.key, version)
        assert request["markers"] == [
            {
                "producer_id": 7,
                "producer_epoch": 1,
                "transaction_result": True,
                "topics": [{"name": "orders", "partition_indexes": [0, 1, 2]}],
                "coordinator_epoch": 5,
                "transaction_version": 0,
            },
            {
                "producer_id": 8,
                "producer_epoch": 0,
                "transaction_result": False,
                "topics": [{"name": "paid", "partition_indexes": [0]}],
                "coordinator_epoch": 5,
                "transaction_version": 0,
            },
        ]


async def test_markers_that_arrive_during_a_request_share_the_next_request() -> None:
    async with marker_scene() as here:
        go_on = asyncio.Event()

        async def answer(_: int, request: Value) -> Value:
            await go_on.wait()
            return _all(NONE, request)

        here.other.serve(API.key, 0, 1, answer)
        for partition in range(4):
            here.cluster.leaders["orders", partition] = 2
        here.write("orders", 0)
        await eventually(lambda: len(here.other.asked) == 1)
        for partition in (1, 2, 3):
            here.write("orders", partition)
        go_on.set()
        await here.answered(4)
        named = [request["markers"][0]["topics"][0] for _, _, request in here.other.asked]
        assert [each["partition_indexes"] for each in named] == [[0], [1, 2, 3]]


@pytest.mark.parametrize(
    ("said", "taken"),
    [
        (UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER),
        (UNSUPPORTED_FOR_MESSAGE_FORMAT, NONE),
        (INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_EPOCH),
        (TRANSACTION_COORDINATOR_FENCED, TRANSACTION_COORDINATOR_FENCED),
        (NOT_LEADER_OR_FOLLOWER, NOT_LEADER_OR_FOLLOWER),
    ],
)
async def test_marker_error_of_a_partition_leader_is_mapped_for_the_coordinator(
    said: int, taken: int
) -> None:
    """UNKNOWN_TOPIC_OR_PARTITION becomes NOT_LEADER_OR_FOLLOWER, so that the coordinator sends the
    marker again: the partition exists, and its leader only does not know it yet."""
    async with marker_scene() as here:
        here.other.serve(API.key, 0, 1, answers(said))
        here.cluster.leaders["orders", 0] = 2
        here.write("orders", 0)
        assert await here.answered(1) == {("orders", 0): taken}


async def test_markers_fail_when_the_peer_disconnects_and_later_markers_use_a_new_connection() -> (
    None
):
    async with marker_scene() as here:

        async def hang_up(_: int, __: Value) -> None:
            return None

        here.other.serve(API.key, 0, 1, hang_up)
        for partition in range(2):
            here.cluster.leaders["orders", partition] = 2
            here.write("orders", partition)
        assert set((await here.answered(2)).values()) == {NETWORK_EXCEPTION}
        here.other.serve(API.key, 0, 1, answers(NONE))
        here.answers.clear()
        here.write("orders", 0)
        assert await here.answered(1) == {("orders", 0): NONE}


async def test_marker_gets_a_retriable_error_when_leader_is_unknown_or_down() -> None:
    async with marker_scene() as here:
        here.cluster.leaders.update({("orders", 0): -1, ("orders", 1): 1, ("orders", 2): 3})
        for partition in range(3):
            here.write("orders", partition)
        assert await here.answered(3) == {
            ("orders", 0): NOT_LEADER_OR_FOLLOWER,
            # This broker does not know yet that it is the leader.
            ("orders", 1): NOT_LEADER_OR_FOLLOWER,
            ("orders", 2): NETWORK_EXCEPTION,
        }


async def test_marker_gets_unknown_partition_when_the_topic_znode_does_not_exist() -> None:
    async with marker_scene() as here:
        await here.zookeeper.create("/brokers", None)
        await here.zookeeper.create("/brokers/topics", None)
        await here.zookeeper.create(topic_path("new"), b"{}")
        here.write("new", 0)
        here.write("gone", 0)
        here.write("gone", 1)
        assert await here.answered(3) == {
            ("new", 0): NOT_LEADER_OR_FOLLOWER,
            ("gone", 0): UNKNOWN_TOPIC_OR_PARTITION,
            ("gone", 1): UNKNOWN_TOPIC_OR_PARTITION,
        }


async def test_marker_gets_a_retriable_error_when_zookeeper_is_closed() -> None:
    async with marker_scene() as here:
        await here.zookeeper.close()
        here.write("new", 0)
        assert await here.answered(1) == {("new", 0): NOT_LEADER_OR_FOLLOWER}


async def test_markers_are_not_sent_to_brokers_that_do_not_support_transactions() -> None:
    async with marker_scene("0.10.2") as here:
        here.cluster.leaders["orders", 0] = 2
        here.write("orders", 0)
        assert here.answers == {("orders", 0): UNSUPPORTED_VERSION}
