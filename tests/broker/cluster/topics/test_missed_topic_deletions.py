"""Tests that a broker removes topics that were deleted while it was not registered, with a
controller of any version. The time of the event loop is virtual: pauses take no time."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.topics import missed_topic_deletions
from broker.cluster.topics.missed_topic_deletions import MissedTopicDeletions, expect_topics
from broker.cluster.zookeeper.zookeeper import ensure_path
from broker.loop.background import Background
from broker.loop.watchdog import Watchdog
from broker.test_mode.registry.ensemble import Ensemble
from broker.test_mode.registry.memory_zookeeper import MemoryZooKeeper
from protocol.znodes import brokers
from protocol.znodes.topics import topic_path
from tests.broker.cluster.members import members
from tests.broker.cluster.told import tell, topic
from tests.broker.mock_time import NoWaiting
from tests.broker.serving import asked, eventually

ID, OTHER_ID = bytes(range(16)), bytes(range(1, 17))


class Scene:
    """A broker that has reconnected to ZooKeeper. It knew topics a and b before, and these topics
    still exist in ZooKeeper."""

    def __init__(self) -> None:
        self.zookeeper = MemoryZooKeeper(Ensemble())
        self.cache = MetadataCache(1)
        self.forgotten: list[Collection[str]] = []
        self.time = NoWaiting()
        self.background = Background(self.time, Watchdog(self.time))
        self.unheard = MissedTopicDeletions(
            self.zookeeper, self.cache, self._forget, self.time, self.background.spawn
        )

    def _forget(self, names: Collection[str]) -> None:
        self.forgotten.append(sorted(names))
        self.cache.forget(names)

    async def begin(self) -> None:
        for name in ("a", "b"):
            await ensure_path(self.zookeeper, topic_path(name))
            tell(self.cache, topic(name, [2, 3], ID if name == "a" else OTHER_ID))
        self.unheard.registered(7)

    async def passes(self, looks: int) -> None:
        """Waits until ``looks`` checks have run, or until no check remains."""
        while self.background.tasks and len(self.time.slept_s) < looks + 1:
            await asyncio.sleep(0)


async def test_topic_without_a_znode_is_removed_unless_the_controller_sends_it() -> None:
    there = Scene()
    await there.begin()
    await there.zookeeper.delete(topic_path("a"))
    await there.passes(2)
    assert there.forgotten == [["a"]]
    assert set(there.cache.topics) == {"b"}
    assert there.cache.topic_name(ID) is None
    tell(there.cache, topic("b", [2, 3], OTHER_ID))
    await there.passes(1000)
    assert not there.background.tasks
    assert there.forgotten == [["a"]]


async def test_topic_deleted_soon_after_the_registration_is_removed() -> None:
    """The controller deletes the topic's nodes before it has seen the registration."""
    there = Scene()
    await there.begin()
    tell(there.cache, topic("b", [2, 3], OTHER_ID))
    await there.passes(2)
    assert there.forgotten == []
    await there.zookeeper.delete(topic_path("a"))
    await there.passes(1000)
    assert there.forgotten == [["a"]]
    assert not there.background.tasks


async def test_intervals_between_checks_for_deleted_topics_grow() -> None:
    there = Scene()
    await there.begin()
    await there.passes(8)
    assert there.time.slept_s[:8] == [1, 2, 4, 8, 16, 32, 60, 60]
    there.unheard.stop()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not there.background.tasks


async def test_topic_is_kept_when_it_is_recreated_during_a_deletion_check() -> None:
    there = Scene()
    await there.begin()
    await there.zookeeper.delete(topic_path("a"))
    reading = there.zookeeper.children

    async def children(path: str, watch: Any = None) -> list[str]:
        found = await reading(path)
        tell(there.cache, topic("a", [2], OTHER_ID), topic("b", [2], ID))
        return found

    there.zookeeper.children = children  # type: ignore[method-assign, assignment]
    await there.passes(1000)
    assert there.forgotten == []
    assert len(there.cache.topics["a"].partitions) == 1


async def test_first_registration_starts_no_checks_for_deleted_topics() -> None:
    there = Scene()
    there.unheard.registered(1)
    assert not there.background.tasks


async def test_topics_in_zookeeper_count_as_missing_until_the_controller_sends_them() -> None:
    there = Scene()
    for name in ("a", "b", "c"):
        await ensure_path(there.zookeeper, topic_path(name))
    await expect_topics(there.zookeeper, there.cache)
    there.unheard.registered(1)
    assert there.cache.missing == {"a", "b", "c"}
    tell(there.cache, topic("a", [2], ID))
    await there.zookeeper.delete(topic_path("b"))
    await there.passes(2)
    assert there.cache.missing == {"c"}
    await there.passes(3)
    assert there.cache.missing == {"c"}
    await there.passes(4)
    assert there.cache.missing == set()


async def test_broker_with_an_expired_session_removes_a_deleted_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(missed_topic_deletions, "FIRST_LOOK_S", 0.01)
    async with members(tmp_path) as there:
        await there.create("stays", 1)
        controller = there.brokers[there.brokers[1].cluster.controller_id]
        away = next(each for each in there.brokers if there.brokers[each] is not controller)
        others = [each for each in there.brokers if each != away]
        made = {
            "name": "goes",
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": [{"partition_index": 0, "broker_ids": others}],
            "configs": [],
        }
        value = {"topics": [made], "timeout_ms": 15_000, "validate_only": False}
        await asked(controller, lambda wire: wire.call("CreateTopics", 5, value))
        await there.leader("goes", 0)

        session = there.ensemble.nodes[brokers.path(away)].owner
        client = there.ensemble.sessions[session]
        client.suspend()
        there.ensemble.end_session(session)
        gone = {"topic_names": ["goes"], "timeout_ms": 15_000}
        await asked(controller, lambda wire: wire.call("DeleteTopics", 5, gone))
        await eventually(
            "the topic's node is gone", lambda: topic_path("goes") not in there.ensemble.nodes
        )
        view = there.brokers[away].cluster
        assert view.partition("goes", 0) is not None, "nobody could tell it"
        client.resume()
        await eventually("it is gone there too", lambda: view.partition("goes", 0) is None)
        assert "goes" not in there.brokers[away].registry.topics
        await eventually(
            "it is registered again", lambda: brokers.path(away) in there.ensemble.nodes
        )
        assert view.partition("stays", 0) is not None
