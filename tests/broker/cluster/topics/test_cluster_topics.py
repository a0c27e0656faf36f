"""Tests the topics of a cluster: a broker writes ZooKeeper nodes to change them, and knows a topic
when the controller has sent its metadata."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, cast

import pytest

from broker.cluster.controller.controller_host import ControllerHost
from broker.cluster.membership.registration import prepare
from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.topics.cluster_registry import ClusterRegistry
from broker.cluster.topics.cluster_topics import ClusterTopics
from broker.cluster.zookeeper import zookeeper
from broker.config.config import Config
from broker.test_mode.registry.ensemble import Ensemble
from broker.test_mode.registry.memory_zookeeper import MemoryZooKeeper
from broker.time import Time
from broker.topics.owned_topics import OWNED
from broker.topics.registry import OFFSETS_TOPIC, TRANSACTION_TOPIC, uuid_text
from broker.topics.topic_changes import (
    LEFT_TO_BROKER,
    BadAssignment,
    BadFactor,
    BeingReassigned,
    CannotChange,
    NoSuchTopic,
    TopicExists,
)
from controller.requests import ShownTopic
from protocol.schema import ZERO_UUID
from protocol.topic_names import BadTopicName
from protocol.znodes.topics import VERSION, VERSION_BEFORE_IDS
from tests.broker.cluster.told import brokers, deleted, tell, topic

ID = bytes(range(16))


@dataclass
class Host:
    """A fake of the controller's host. `is_active` says whether this broker is the controller."""

    is_active: bool = True


class Scene:
    """The topic changes of one broker in a cluster of three brokers."""

    def __init__(
        self,
        alive: int = 3,
        version: int = VERSION,
        racks: Mapping[int, str] | None = None,
        **settings: str,
    ) -> None:
        given = {name.replace("_", "."): text for name, text in settings.items()}
        self.zookeeper = MemoryZooKeeper(Ensemble())
        self.cache = MetadataCache(1)
        self.registry = ClusterRegistry(1, "cluster", self.cache)
        self.host = Host()
        self.topics = ClusterTopics(
            Config(given),
            self.registry,
            self.cache,
            self.zookeeper,
            cast(ControllerHost, self.host),
            Time(),
            version,
        )
        self.alive = brokers(range(1, alive + 1), racks)

    def tell(self, *told: ShownTopic) -> None:
        """Applies an UpdateMetadata request of the controller."""
        self.registry.learnt(tell(self.cache, *told, alive=self.alive))

    async def node(self, path: str) -> Any:
        data, _ = await self.zookeeper.get(path)
        return json.loads(data) if data else None


def run_in_scene(conduct: Callable[[Scene], Coroutine[Any, Any, None]], **scene: Any) -> None:
    async def play() -> None:
        async with asyncio.timeout(120):
            there = Scene(**scene)
            await prepare(there.zookeeper)
            there.tell()
            await conduct(there)

    asyncio.run(play())


def test_topic_is_created_with_its_settings_in_one_write() -> None:
    async def conduct(scene: Scene) -> None:
        made = await scene.topics.create("t", 2, {"retention.ms": "1"}, [[1, 2], [2, 3]])

        assert await scene.node("/config/topics/t") == {
            "version": 1,
            "config": {"retention.ms": "1"},
        }
        assert await scene.node("/brokers/topics/t") == {
            "version": 3,
            "topic_id": uuid_text(made.topic_id),
            "partitions": {"0": [1, 2], "1": [2, 3]},
            "adding_replicas": {},
            "removing_replicas": {},
        }
        assert scene.zookeeper.ensemble.nodes["/config/topics/t"].czxid == (
            scene.zookeeper.ensemble.nodes["/brokers/topics/t"].czxid
        )
        assert scene.registry.topic("t") is None  # The controller has not sent the topic yet.

    run_in_scene(conduct)


def test_new_topic_has_the_default_replication_factor() -> None:
    async def conduct(scene: Scene) -> None:
        await scene.topics.create("t", 6, {})

        partitions = (await scene.node("/brokers/topics/t"))["partitions"]
        assert all(len(set(replicas)) == 2 for replicas in partitions.values())
        assert {replicas[0] for replicas in partitions.values()} == {1, 2, 3}

    run_in_scene(conduct, default_replication_factor="2")


def test_new_topic_has_a_replica_in_each_rack() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}

    async def conduct(scene: Scene) -> None:
        await scene.topics.create("t", 8, {})
        scene.tell(topic("t", [1] * 8, ID, replicas=[1, 3]))
        await scene.topics.add_partitions("t", 12)

        partitions = (await scene.node("/brokers/topics/t"))["partitions"]
        assert len(partitions) == 12
        for replicas in partitions.values():
            assert {racks[each] for each in replicas} == {"a", "b"}

    run_in_scene(conduct, alive=4, racks=racks, default_replication_factor="2")


def test_new_topic_has_no_id_when_the_protocol_version_has_no_topic_ids() -> None:
    async def conduct(scene: Scene) -> None:
        made = await scene.topics.create("t", 1, {}, [[1]])

        assert made.topic_id == ZERO_UUID
        node = await scene.node("/brokers/topics/t")
        assert node["version"] == 2
        assert "topic_id" not in node

    run_in_scene(conduct, version=VERSION_BEFORE_IDS)


def test_creation_of_an_existing_topic_is_refused() -> None:
    async def conduct(scene: Scene) -> None:
        await scene.topics.create("t", 1, {"retention.ms": "1"}, [[1]])
        # The topic is in ZooKeeper, but the controller has not sent it.
        with pytest.raises(TopicExists):
            await scene.topics.create("t", 2, {}, [[2], [2]])
        assert (await scene.node("/brokers/topics/t"))["partitions"] == {"0": [1]}
        assert (await scene.node("/config/topics/t"))["config"] == {"retention.ms": "1"}
        scene.tell(topic("t", [1], ID))
        with pytest.raises(TopicExists):
            scene.topics.check_new("t")
        with pytest.raises(BadTopicName):
            scene.topics.check_new("a/b")
        assert scene.topics.collisions("t") == []

    run_in_scene(conduct)


def test_topic_creation_replaces_settings_left_by_an_earlier_unfinished_creation() -> None:
    async def conduct(scene: Scene) -> None:
        await scene.zookeeper.create("/config/topics/t", b"")

        await scene.topics.create("t", 1, {"retention.ms": "1"}, [[1]])

        assert (await scene.node("/config/topics/t"))["config"] == {"retention.ms": "1"}

    run_in_scene(conduct)


def test_topic_is_not_created_while_a_topic_of_its_name_is_being_deleted() -> None:
    """The controller deletes the topic's node, then its settings, then the deletion request."""

    async def conduct(scene: Scene) -> None:
        await scene.zookeeper.create("/admin/delete_topics/t", None)
        with pytest.raises(TopicExists):
            await scene.topics.create("t", 1, {}, [[1]])
        assert await scene.zookeeper.exists("/config/topics/t") is None

    run_in_scene(conduct)


@pytest.mark.parametrize("lost", [1, 3])
def test_topic_creation_succeeds_when_its_response_is_lost(lost: int) -> None:
    """NODEEXISTS can mean that the first attempt of the broker succeeded."""

    async def conduct(scene: Scene) -> None:
        scene.zookeeper.lose_answers(lost)
        made = await scene.topics.create("t", 1, {}, [[1]])
        node = await scene.node("/brokers/topics/t")
        assert node["topic_id"] == uuid_text(made.topic_id)

    run_in_scene(conduct)


def test_topic_changes_fail_when_the_zookeeper_session_ends() -> None:
    async def conduct(scene: Scene) -> None:
        scene.tell(topic("t", [1], ID))
        scene.zookeeper.suspend()
        works = [
            asyncio.ensure_future(each)
            for each in (
                scene.topics.create("new", 1, {}, [[1]]),
                scene.topics.add_partitions("t", 2),
                scene.topics.delete("t"),
            )
        ]
        await asyncio.sleep(0)
        scene.zookeeper.ensemble.end_session(scene.zookeeper.session)
        scene.zookeeper.resume()
        for each in works:
            with pytest.raises(CannotChange):
                await each

    run_in_scene(conduct)


def test_invalid_replication_factors_and_assignments_are_refused() -> None:
    async def conduct(scene: Scene) -> None:
        topics = scene.topics
        with pytest.raises(BadFactor, match="only 3 broker"):
            topics.placed(1, 4)
        with pytest.raises(BadFactor, match="larger than 0"):
            topics.placed(1, 0)
        assert len(topics.placed(4, 3)) == 4
        assert [len(each) for each in topics.placed(2, LEFT_TO_BROKER)] == [1, 1]
        for bad in ([[]], [[1, 1]], [[-1]], [[1, 2], [1]]):
            with pytest.raises(BadAssignment):
                topics.check_assignment(bad)
        topics.check_assignment([[1, 9]])  # As in Kafka, an assignment may name a future broker.
        scene.tell(topic("t", [1], ID, replicas=[1, 2]))
        for bad in ([[1]], [[1, 9]], [[2, 3, 1]]):
            with pytest.raises(BadAssignment):
                topics.check_more("t", 1, bad)
        topics.check_more("t", 1, [[2, 3]])

    run_in_scene(conduct)


def test_topic_is_not_created_before_brokers_are_known() -> None:
    async def play() -> None:
        scene = Scene()
        with pytest.raises(CannotChange):
            scene.topics.placed(1, 1)
        with pytest.raises(CannotChange):
            await scene.topics.ensure("t")

    asyncio.run(play())


def test_topic_is_auto_created_at_its_first_use_on_any_broker() -> None:
    async def conduct(scene: Scene) -> None:
        scene.host.is_active = False
        found = await asyncio.gather(*[scene.topics.ensure("t") for _ in range(5)])
        assert found == [None] * 5
        assert len((await scene.node("/brokers/topics/t"))["partitions"]) == 4
        # The topic exists, but the controller has not sent it.
        assert await scene.topics.ensure("t") is None
        scene.tell(topic("t", [1, 2, 3, 1], ID))
        assert await scene.topics.ensure("t") == scene.registry.topics["t"]
        assert not scene.topics.is_controller

    run_in_scene(conduct, num_partitions="4")


def test_coordinator_topics_have_their_configured_replication_factor() -> None:
    async def conduct(scene: Scene) -> None:
        assert await scene.topics.ensure(OFFSETS_TOPIC) is None
        assert await scene.topics.ensure_owned(OWNED[TRANSACTION_TOPIC]) is None

        offsets = (await scene.node(f"/brokers/topics/{OFFSETS_TOPIC}"))["partitions"]
        transactions = (await scene.node(f"/brokers/topics/{TRANSACTION_TOPIC}"))["partitions"]
        assert len(offsets) == 50
        assert {len(replicas) for replicas in offsets.values()} == {3}
        assert {len(replicas) for replicas in transactions.values()} == {2}
        settings = (await scene.node(f"/config/topics/{OFFSETS_TOPIC}"))["config"]
        assert settings["cleanup.policy"] == "compact"
        settings = (await scene.node(f"/config/topics/{TRANSACTION_TOPIC}"))["config"]
        assert settings["min.insync.replicas"] == "2"

    run_in_scene(conduct, transaction_state_log_replication_factor="2")


def test_coordinator_topic_is_not_created_with_fewer_replicas_than_configured() -> None:
    async def conduct(scene: Scene) -> None:
        with pytest.raises(BadFactor):
            await scene.topics.ensure(OFFSETS_TOPIC)
        assert await scene.zookeeper.children("/brokers/topics") == []

    run_in_scene(conduct, alive=2)


@pytest.mark.proves("clusters 17")
def test_adding_partitions_changes_nothing_else_in_the_topic_node() -> None:

    async def conduct(scene: Scene) -> None:
        node = {
            "version": 3,
            "topic_id": uuid_text(ID),
            "partitions": {"0": [2, 3], "1": [3, 1]},
            "adding_replicas": {},
            "removing_replicas": {},
            "later": 7,
        }
        await scene.zookeeper.create("/brokers/topics/t", json.dumps(node).encode())
        scene.tell(topic("t", [2, 3], ID))

        grown = await scene.topics.add_partitions("t", 4)

        assert grown.partitions == 4
        after = await scene.node("/brokers/topics/t")
        assert after == node | {"partitions": after["partitions"]}
        assert {key: after["partitions"][key] for key in "01"} == node["partitions"]
        assert [len(set(after["partitions"][key])) for key in "23"] == [2, 2]
        assert [after["partitions"][key][0] for key in "23"] == [1, 2]

        await scene.topics.add_partitions("t", 5, [[1, 3]])
        assert (await scene.node("/brokers/topics/t"))["partitions"]["4"] == [1, 3]

    run_in_scene(conduct)


def test_partitions_cannot_be_added_during_a_reassignment_or_deletion() -> None:
    async def conduct(scene: Scene) -> None:
        node = {"version": 3, "partitions": {"0": [1, 2]}, "adding_replicas": {"0": [2]}}
        await scene.zookeeper.create("/brokers/topics/t", json.dumps(node).encode())
        scene.tell(topic("t", [1], ID))
        with pytest.raises(BeingReassigned):
            await scene.topics.add_partitions("t", 2)
        await scene.topics.delete("t")
        with pytest.raises(NoSuchTopic):
            await scene.topics.add_partitions("t", 2)
        with pytest.raises(NoSuchTopic):
            await scene.topics.add_partitions("never", 2)

    run_in_scene(conduct)


def test_empty_or_invalid_topic_node_is_an_error() -> None:
    async def conduct(scene: Scene) -> None:
        scene.tell(topic("t", [1], ID), topic("u", [1], bytes(16)))
        await scene.zookeeper.create("/brokers/topics/t", b'{"partitions":{}}')
        await scene.zookeeper.create("/brokers/topics/u", b"?")
        with pytest.raises(BadFactor):
            await scene.topics.add_partitions("t", 2)
        with pytest.raises(CannotChange):
            await scene.topics.add_partitions("u", 2)

    run_in_scene(conduct)


def test_deletion_request_of_a_topic_is_written_to_zookeeper_once() -> None:
    async def conduct(scene: Scene) -> None:
        await scene.topics.create("t", 1, {}, [[1]])
        with pytest.raises(NoSuchTopic):
            await scene.topics.delete("t")
        scene.tell(topic("t", [1], ID))
        assert (await scene.topics.delete("t")).name == "t"
        assert (await scene.topics.delete("t")).name == "t"
        assert await scene.zookeeper.children("/admin/delete_topics") == ["t"]

    run_in_scene(conduct)


def test_topic_change_waits_until_all_leaders_exist_or_topic_is_deleted() -> None:
    async def conduct(scene: Scene) -> None:
        wait = asyncio.ensure_future(scene.topics.led({"t": 2, "u": 1}, 20_000))
        scene.tell(topic("t", [1, -1], ID))
        scene.tell(topic("u", [9], bytes(range(1, 17))))  # Broker 9 is down.
        await asyncio.sleep(0)
        assert not wait.done()
        scene.tell(topic("t", [1, 2], ID))
        scene.tell(topic("u", [3], bytes(range(1, 17))))
        assert await wait == []

        gone = asyncio.ensure_future(scene.topics.gone(["t"], 20_000))
        await asyncio.sleep(0)
        scene.tell(deleted("t", 2, ID))
        assert await gone == []

    run_in_scene(conduct)


def test_wait_for_topic_creations_or_deletions_returns_unfinished_topics_after_its_timeout() -> (
    None
):
    async def conduct(scene: Scene) -> None:
        scene.tell(topic("t", [1], ID))
        assert await scene.topics.led({"t": 1, "u": 1}, 1) == ["u"]
        assert await scene.topics.led({"t": 1}, 0) == ["t"]
        assert await scene.topics.gone(["t", "u"], 1) == ["t"]

    run_in_scene(conduct)


@pytest.mark.parametrize(
    "change",
    [
        lambda scene: scene.topics.create("t", 1, {}, [[1]]),
        lambda scene: scene.topics.add_partitions("there", 2),
        lambda scene: scene.topics.delete("there"),
    ],
)
def test_topic_change_fails_when_zookeeper_does_not_respond(
    change: Callable[[Scene], Coroutine[Any, Any, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zookeeper, "ANSWERS_S", 0.02)

    async def conduct(scene: Scene) -> None:
        await scene.topics.create("there", 1, {}, [[1]])
        scene.tell(topic("there", [1]))
        scene.zookeeper.suspend()
        with pytest.raises(CannotChange, match=r"no answer from ZooKeeper for 0\.02 s"):
            await change(scene)
        scene.zookeeper.resume()
        await scene.topics.create("afterwards", 1, {}, [[1]])

    run_in_scene(conduct)
