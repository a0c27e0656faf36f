"""Tests CreateTopics, CreatePartitions, DeleteTopics, Metadata and FindCoordinator in a cluster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import pytest

from broker.cluster.controller.controller_host import ControllerHost
from broker.cluster.membership.registration import prepare
from broker.cluster.topics.cluster_topics import ClusterTopics
from broker.test_mode.registry.ensemble import Ensemble
from broker.test_mode.registry.memory_zookeeper import MemoryZooKeeper
from broker.topics.registry import OFFSETS_TOPIC
from controller.requests import ShownTopic
from protocol.errors import (
    COORDINATOR_NOT_AVAILABLE,
    INVALID_REPLICA_ASSIGNMENT,
    INVALID_REPLICATION_FACTOR,
    LEADER_NOT_AVAILABLE,
    NONE,
    NOT_CONTROLLER,
    REASSIGNMENT_IN_PROGRESS,
    REQUEST_TIMED_OUT,
    TOPIC_ALREADY_EXISTS,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from tests.broker.cluster.fellows import Fellow
from tests.broker.cluster.told import brokers, deleted, tell, topic
from tests.broker.edge import eventually
from tests.wire import Wire

ID = bytes(range(16))
_CLIENTS = ThreadPoolExecutor(4)
LONG_MS = 20_000


@dataclass
class Host:
    """A fake that returns whether this broker is the controller."""

    is_active: bool = True


class Scene:
    """Broker 1 of a cluster of three brokers. The test sends the controller's requests."""

    def __init__(self) -> None:
        self.zookeeper = MemoryZooKeeper(Ensemble())
        self.host = Host()
        self.fellow = Fellow(1, topics=self._topics)

    def _topics(self, fellow: Fellow) -> ClusterTopics:
        return ClusterTopics(
            fellow.config,
            fellow.registry,
            fellow.cache,
            self.zookeeper,
            cast(ControllerHost, self.host),
            fellow.time,
        )

    def tell(self, *told: ShownTopic, alive: int = 3) -> None:
        learnt = tell(self.fellow.cache, *told, alive=brokers(range(1, alive + 1)))
        self.fellow.registry.learnt(learnt)

    def asks(self, name: str, version: int, value: dict[str, Any]) -> Awaitable[dict[str, Any]]:
        def call() -> dict[str, Any]:
            with Wire(self.fellow.port) as wire:
                return wire.call(name, version, value)

        return asyncio.get_running_loop().run_in_executor(_CLIENTS, call)

    async def create(self, timeout_ms: int = LONG_MS, **more: Any) -> dict[str, Any]:
        wanted = {
            "name": "t",
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": [],
            "configs": [],
        } | more
        value = {"topics": [wanted], "timeout_ms": timeout_ms, "validate_only": False}
        (answer,) = (await self.asks("CreateTopics", 5, value))["topics"]
        return dict(answer)

    async def grow(self, count: int, assignments: Any = None) -> int:
        wanted = {"name": "t", "count": count, "assignments": assignments}
        value = {"topics": [wanted], "timeout_ms": LONG_MS, "validate_only": False}
        (answer,) = (await self.asks("CreatePartitions", 1, value))["results"]
        return int(answer["error_code"])

    async def delete(self, timeout_ms: int = LONG_MS) -> int:
        value = {"topic_names": ["t"], "timeout_ms": timeout_ms}
        (answer,) = (await self.asks("DeleteTopics", 3, value))["responses"]
        return int(answer["error_code"])

    async def partitions(self) -> dict[str, list[int]] | None:
        found = self.zookeeper.ensemble.nodes.get("/brokers/topics/t")
        return None if found is None else dict(json.loads(found.data or b"{}")["partitions"])

    async def until_written(self, path: str) -> None:
        await eventually(lambda: path in self.zookeeper.ensemble.nodes)


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    there = Scene()
    await prepare(there.zookeeper)
    await there.fellow.start()
    there.tell()
    try:
        yield there
    finally:
        await there.fellow.stop()


async def test_topic_changes_get_not_controller_when_broker_is_not_controller() -> None:
    async with scene() as there:
        there.host.is_active = False
        there.tell(topic("t", [1], ID))
        assert (await there.create())["error_code"] == NOT_CONTROLLER
        assert await there.grow(2) == NOT_CONTROLLER
        assert await there.delete() == NOT_CONTROLLER
        assert await there.partitions() is None


async def test_create_topics_is_answered_when_all_partitions_have_leaders() -> None:
    async with scene() as there:
        creating = asyncio.ensure_future(there.create(num_partitions=2, replication_factor=3))
        await there.until_written("/brokers/topics/t")
        there.tell(topic("t", [1, -1], ID))
        there.tell(topic("t", [1, 2], ID))
        answer = await creating
        assert answer["error_code"] == NONE
        assert (answer["num_partitions"], answer["replication_factor"]) == (2, 3)
        written = await there.partitions()
        assert written is not None
        assert [sorted(each) for each in written.values()] == [[1, 2, 3]] * 2
        assert (await there.create())["error_code"] == TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize("timeout_ms", [0, -1, 1])
async def test_create_topics_and_delete_topics_return_an_error_at_their_timeout(
    timeout_ms: int,
) -> None:
    async with scene() as there:
        assert (await there.create(timeout_ms))["error_code"] == REQUEST_TIMED_OUT
        assert await there.partitions() is not None
        there.tell(topic("t", [1], ID))
        assert await there.delete(timeout_ms) == REQUEST_TIMED_OUT


async def test_create_topics_with_validate_only_is_answered_immediately() -> None:
    async with scene() as there:
        value = {
            "topics": [
                {"name": "t", "num_partitions": 1, "replication_factor": 3}
                | {"assignments": [], "configs": []}
            ],
            "timeout_ms": 0,
            "validate_only": True,
        }
        (answer,) = (await there.asks("CreateTopics", 5, value))["topics"]
        assert answer["error_code"] == NONE
        assert await there.partitions() is None


async def test_create_topics_applies_or_refuses_a_manual_assignment() -> None:
    def named(*replicas: list[int]) -> list[dict[str, Any]]:
        return [
            {"partition_index": index, "broker_ids": each} for index, each in enumerate(replicas)
        ]

    async with scene() as there:
        for bad in (named([1, 1]), named([1], [1, 2]), named([])):
            answer = await there.create(assignments=bad)
            assert answer["error_code"] == INVALID_REPLICA_ASSIGNMENT
        answer = await there.create(replication_factor=4)
        assert answer["error_code"] == INVALID_REPLICATION_FACTOR
        assert "only 3 broker(s)" in answer["error_message"]
        creating = asyncio.ensure_future(there.create(assignments=named([2, 1], [1, 3])))
        await there.until_written("/brokers/topics/t")
        there.tell(topic("t", [2, 1], ID, replicas=[1, 2]))
        assert (await creating)["replication_factor"] == 2
        assert await there.partitions() == {"0": [2, 1], "1": [1, 3]}

        assert await there.grow(3, [{"broker_ids": [1]}]) == INVALID_REPLICA_ASSIGNMENT
        assert await there.grow(3, [{"broker_ids": [1, 9]}]) == INVALID_REPLICA_ASSIGNMENT
        growing = asyncio.ensure_future(there.grow(3, [{"broker_ids": [3, 2]}]))
        await eventually(
            lambda: (
                b'"2":[3,2]' in (there.zookeeper.ensemble.nodes["/brokers/topics/t"].data or b"")
            )
        )
        there.tell(topic("t", [2, 1, 3], ID))
        assert await growing == NONE


async def test_partitions_cannot_be_added_during_a_reassignment() -> None:
    async with scene() as there:
        node = {"partitions": {"0": [1, 2]}, "adding_replicas": {"0": [2]}}
        await there.zookeeper.create("/brokers/topics/t", json.dumps(node).encode())
        there.tell(topic("t", [1], ID))
        assert await there.grow(2) == REASSIGNMENT_IN_PROGRESS


async def test_delete_topics_is_answered_when_the_topic_is_deleted() -> None:
    async with scene() as there:
        await there.zookeeper.create("/brokers/topics/t", b'{"partitions":{"0":[1]}}')
        there.tell(topic("t", [1], ID))
        deleting = asyncio.ensure_future(there.delete())
        await there.until_written("/admin/delete_topics/t")
        there.tell(deleted("t", 1, ID))
        assert await deleting == NONE
        assert await there.delete() == UNKNOWN_TOPIC_OR_PARTITION


async def test_topic_requests_get_a_retriable_error_when_zookeeper_is_closed() -> None:
    async with scene() as there:
        there.tell(topic("u", [1], ID))
        await there.zookeeper.close()
        assert (await there.create())["error_code"] == REQUEST_TIMED_OUT
        assert (await metadata(there, "t"))["error_code"] == LEADER_NOT_AVAILABLE
        assert await coordinator(there) == COORDINATOR_NOT_AVAILABLE


async def metadata(there: Scene, name: str) -> dict[str, Any]:
    value = {"topics": [{"name": name}], "allow_auto_topic_creation": True}
    (answer,) = (await there.asks("Metadata", 4, value))["topics"]
    return dict(answer)


async def coordinator(there: Scene) -> int:
    return int((await there.asks("FindCoordinator", 0, {"key": "g"}))["error_code"])


async def test_metadata_of_an_auto_created_topic_has_no_leader_at_first() -> None:
    async with scene() as there:
        there.host.is_active = False
        for _ in range(2):
            assert (await metadata(there, "t"))["error_code"] == LEADER_NOT_AVAILABLE
        there.tell(topic("t", [1], ID))
        answer = await metadata(there, "t")
        assert answer["error_code"] == NONE
        assert [each["leader_id"] for each in answer["partitions"]] == [1]


async def test_find_coordinator_gets_not_available_until_the_partition_has_a_leader() -> None:
    async with scene() as there:
        there.tell(alive=2)
        # The topic needs three replicas.
        assert await coordinator(there) == COORDINATOR_NOT_AVAILABLE
        assert (await metadata(there, OFFSETS_TOPIC))["error_code"] == INVALID_REPLICATION_FACTOR
        there.tell(alive=3)
        assert await coordinator(there) == COORDINATOR_NOT_AVAILABLE
        assert f"/brokers/topics/{OFFSETS_TOPIC}" in there.zookeeper.ensemble.nodes
        there.tell(topic(OFFSETS_TOPIC, [2] * 50, ID))
        # The broker may not know all partitions yet.
        assert await coordinator(there) == COORDINATOR_NOT_AVAILABLE
        there.fellow.groups.partitions = 50
        there.tell(topic(OFFSETS_TOPIC, [-1] * 50, ID))
        assert await coordinator(there) == COORDINATOR_NOT_AVAILABLE
        there.tell(topic(OFFSETS_TOPIC, [2] * 50, ID))
        assert await coordinator(there) == NONE
