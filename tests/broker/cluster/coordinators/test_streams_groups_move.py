"""Streams groups of KIP-1071 on three whole brokers: streams.version, fail-over, and internal
topics."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from broker.broker import Broker
from broker.cluster.topics.cluster_topics import ClusterTopics
from broker.cluster.zookeeper.zookeeper import Create, Delete, ZooKeeperError
from broker.topics.startup_parts import CannotJoin
from broker.web.views.streams import topology_view
from protocol.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    FENCED_MEMBER_EPOCH,
    NONE,
    NOT_COORDINATOR,
    UNSUPPORTED_VERSION,
)
from protocol.znodes import cluster as cluster_nodes
from protocol.znodes import topics as topic_nodes
from tests.broker.cluster.members import GROUP, Members, members
from tests.broker.cluster.share_members import SAFE_DOWNGRADE, set_level
from tests.broker.cluster.withheld_topic import restart_without
from tests.broker.serving import asked, eventually
from tests.wire import Wire

RETRIED = (COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR)
LEVEL = "streams.version"
SETTINGS = {
    "default.replication.factor": "3",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.min.heartbeat.interval.ms": "1",
}
PLAIN = {"epoch": 0, "subtopologies": [{"subtopology_id": "0", "source_topics": ["lines"]}]}
STORE, REPARTITION = "g-store-changelog", "g-words-repartition"
STATEFUL = {
    "epoch": 0,
    "subtopologies": [
        {
            "subtopology_id": "0",
            "source_topics": ["lines"],
            "repartition_sink_topics": [REPARTITION],
        },
        {
            "subtopology_id": "1",
            "repartition_source_topics": [
                {"name": REPARTITION, "partitions": 3, "replication_factor": -1}
            ],
            "state_changelog_topics": [
                {
                    "name": STORE,
                    "replication_factor": -1,
                    "topic_configs": [{"key": "cleanup.policy", "value": "compact"}],
                }
            ],
        },
    ],
}
Tasks = dict[str, list[int]]


class Member:
    """A member of the streams group g. The object keeps the tasks of the last assignment."""

    def __init__(self, cluster: Members, name: str, topology: dict[str, Any] = PLAIN) -> None:
        self.cluster, self.name, self.topology = cluster, name, topology
        self.epoch = 0
        self.tasks: Tasks = {}

    def request(self) -> dict[str, Any]:
        owned = [{"subtopology_id": name, "partitions": each} for name, each in self.tasks.items()]
        request = {
            "group_id": "g",
            "member_id": self.name,
            "member_epoch": self.epoch,
            "active_tasks": owned,
            "standby_tasks": [],
            "warmup_tasks": [],
        }
        if self.epoch:
            return request
        joining = {"rebalance_timeout_ms": 60_000, "process_id": f"process-{self.name}"}
        return {**request, **joining, "topology": self.topology}

    async def beat(self) -> dict[str, Any]:
        """Sends a heartbeat to the coordinator; returns the response."""
        replies: list[dict[str, Any]] = []

        def run(wire: Wire) -> int:
            replies.append(wire.call("StreamsGroupHeartbeat", 1, self.request()))
            return int(replies[-1]["error_code"])

        await self.cluster.at_coordinator("g", GROUP, run, *RETRIED)
        reply = replies[-1]
        if reply["error_code"] == NONE:
            self.epoch = reply["member_epoch"]
        if reply["active_tasks"] is not None:
            self.tasks = {
                each["subtopology_id"]: each["partitions"] for each in reply["active_tasks"]
            }
        return reply

    async def until(self, tasks: Tasks) -> None:
        """Sends heartbeats until the member has the tasks."""
        for _ in range(600):
            reply = await self.beat()
            assert reply["error_code"] == NONE, reply
            if self.tasks == tasks:
                return
            await asyncio.sleep(0.02)
        raise AssertionError(f"{self.name} has {self.tasks}, not {tasks}; the last reply: {reply}")


async def status(member: Member) -> dict[int, str]:
    reply = await member.beat()
    return {each["status_code"]: each["status_detail"] for each in reply["status"]}


async def failed_creation(member: Member) -> str:
    """Sends heartbeats until the status has the reason why internal topics can't be created."""
    for _ in range(200):
        text = (await status(member)).get(3, "")
        if "Creation failed" in text:
            return text
    raise AssertionError(text)


def created(cluster: Members, topic: str) -> int:
    """Returns how often ZooKeeper has created the node of a topic."""
    path = topic_nodes.topic_path(topic)
    return sum(isinstance(each, Create) and each.path == path for each in cluster.ensemble.writes)


def replicas(cluster: Members, topic: str) -> dict[str, list[int]]:
    """Returns the replicas of each partition of a topic."""
    node = cluster.ensemble.nodes[topic_nodes.topic_path(topic)].data
    assert node is not None
    found: dict[str, list[int]] = json.loads(node)["partitions"]
    return found


async def test_streams_groups_are_off_until_streams_version_is_raised(tmp_path: Path) -> None:
    setting = {"name": "streams.heartbeat.interval.ms", "config_operation": 0, "value": "7000"}
    resource = {"resource_type": 32, "resource_name": "g", "configs": [setting]}
    change = {"resources": [resource], "validate_only": False}
    async with members(tmp_path, SETTINGS) as cluster:
        await cluster.create("lines", 2)
        at = cluster.brokers[1]
        member = Member(cluster, "a")
        described = {"group_ids": ["g"]}
        for reply in (
            await member.beat(),
            *(await asked(at, lambda wire: wire.call("StreamsGroupDescribe", 1, described)))[
                "groups"
            ],
        ):
            assert reply["error_code"] == UNSUPPORTED_VERSION
            assert reply["error_message"].endswith(
                "Raise it with kafka-features.sh upgrade --feature streams.version=1, or use"
                " group.protocol=classic."
            )
        coordinator = await cluster.coordinator("g", GROUP)
        wanted = {each.api: each.advice for each in coordinator.server.unsupported.wanted()}
        assert "--feature streams.version=1" in wanted["StreamsGroupHeartbeat"]
        refused = await asked(at, lambda wire: wire.call("IncrementalAlterConfigs", 1, change))
        assert "streams.version of this cluster are at" in refused["responses"][0]["error_message"]
        cluster.settings = {**SETTINGS, "group.coordinator.rebalance.protocols": "classic,consumer"}
        await cluster.start(4)
        reply = await set_level(cluster, 1, name=LEVEL)
        assert reply["error_message"].endswith("Broker 4 does not support this feature.")
        await cluster.stop(4)
        assert (await set_level(cluster, 1, name=LEVEL))["error_code"] == NONE
        software = {"client_software_name": "test", "client_software_version": "1"}
        versions = await asked(at, lambda wire: wire.call("ApiVersions", 4, software))
        level = {"name": LEVEL, "max_version_level": 1, "min_version_level": 1}
        assert versions["finalized_features"] == [level]
        assert {88, 89} <= {each["api_key"] for each in versions["api_keys"]}
        with pytest.raises(CannotJoin, match=r"add streams to group\.coordinator"):
            await cluster.start(4)
        altered = await asked(at, lambda wire: wire.call("IncrementalAlterConfigs", 1, change))
        assert [each["error_code"] for each in altered["responses"]] == [NONE]
        await eventually(
            "all brokers have the setting",
            lambda: all(each.registry.group_configs for each in cluster.brokers.values()),
        )
        reply = await member.beat()
        assert (member.tasks, reply["heartbeat_interval_ms"]) == ({"0": [0, 1]}, 7000)
        assert (await set_level(cluster, 0, SAFE_DOWNGRADE, LEVEL))["error_code"] == NONE
        assert (await member.beat())["error_code"] == UNSUPPORTED_VERSION


@pytest.mark.proves("streams 10")
async def test_no_task_has_two_owners_when_the_coordinator_stops_during_a_reconciliation(
    tmp_path: Path,
) -> None:
    async with members(tmp_path, SETTINGS) as cluster:
        await cluster.create("lines", 4)
        assert (await set_level(cluster, 1, name=LEVEL))["error_code"] == NONE
        a, b = Member(cluster, "a"), Member(cluster, "b")
        await a.until({"0": [0, 1, 2, 3]})
        await b.beat()
        assert (a.epoch, b.epoch, b.tasks) == (2, 3, {})
        await stop_coordinator(cluster)
        await b.beat()
        assert (b.epoch, b.tasks) == (3, {})
        held = a.tasks
        await a.beat()
        assert (a.epoch, a.tasks) == (2, {"0": [0, 1]})
        await stop_coordinator(cluster)
        await b.beat()
        assert (b.epoch, b.tasks) == (3, {})
        a.tasks = held  # the response was lost: the coordinator repeats the tasks to give up
        await a.beat()
        assert (a.epoch, a.tasks) == (2, {"0": [0, 1]})
        await b.beat()
        assert b.tasks == {}
        await a.beat()  # without the tasks
        await b.until({"0": [2, 3]})
        assert (a.epoch, b.epoch) == (3, 3)
        await stop_coordinator(cluster)
        for member in (a, b):
            reply = await member.beat()
            assert (reply["error_code"], reply["status"], member.epoch) == (NONE, [], 3)
        assert (a.tasks, b.tasks) == ({"0": [0, 1]}, {"0": [2, 3]})
        a.epoch = 4
        assert (await a.beat())["error_code"] == FENCED_MEMBER_EPOCH


async def stop_coordinator(cluster: Members) -> None:
    """Stops the coordinator of the group. Starts the broker again when another broker has become
    the coordinator."""
    node_id = (await cluster.coordinator("g", GROUP)).registry.node_id
    await cluster.stop(node_id)
    assert (await cluster.coordinator("g", GROUP)).registry.node_id != node_id
    await cluster.start(node_id)
    await cluster.settled()


@pytest.mark.proves("streams 10")
async def test_internal_topics_are_created_once_with_the_default_replication_factor(
    tmp_path: Path,
) -> None:
    async with members(tmp_path, SETTINGS) as cluster:
        await cluster.create("lines", 2)
        assert (await set_level(cluster, 1, name=LEVEL))["error_code"] == NONE
        group = [Member(cluster, name, STATEFUL) for name in "abc"]
        await asyncio.gather(*[member.beat() for member in group])
        for _ in range(200):
            await asyncio.gather(*[member.beat() for member in group])
            if all(member.tasks for member in group):
                break
        owned = [
            (name, each)
            for member in group
            for name, partitions in member.tasks.items()
            for each in partitions
        ]
        assert sorted(owned) == [("0", 0), ("0", 1), ("1", 0), ("1", 1), ("1", 2)]
        for topic in (STORE, REPARTITION):
            assert created(cluster, topic) == 1
            found = replicas(cluster, topic)
            assert [sorted(each) for each in found.values()] == [[1, 2, 3]] * 3
        config = cluster.ensemble.nodes[f"/config/topics/{STORE}"].data
        assert config is not None
        assert json.loads(config)["config"] == {"cleanup.policy": "compact"}


async def test_creation_of_internal_topics_is_repeated_after_an_error_of_zookeeper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with members(tmp_path, SETTINGS) as cluster:
        await cluster.create("lines", 2)
        assert (await set_level(cluster, 1, name=LEVEL))["error_code"] == NONE
        await cluster.coordinator("g", GROUP)

        async def refused(*_: Any) -> None:
            raise ZooKeeperError("ZooKeeper does not respond")

        with monkeypatch.context() as patch:
            patch.setattr(ClusterTopics, "_write_new", refused)
            member = Member(cluster, "a", STATEFUL)
            text = await failed_creation(member)
            assert f"{STORE} (ZooKeeper does not respond)" in text
        await member.until({"0": [0, 1], "1": [0, 1, 2]})
        assert [created(cluster, topic) for topic in (STORE, REPARTITION)] == [1, 1]
        assert await status(member) == {}


async def test_internal_topics_are_created_when_enough_brokers_are_running(tmp_path: Path) -> None:
    async with members(tmp_path, SETTINGS) as cluster:
        await cluster.create("lines", 2)
        assert (await set_level(cluster, 1, name=LEVEL))["error_code"] == NONE
        coordinator = await cluster.coordinator("g", GROUP)
        stopped = next(each for each in (1, 2, 3) if each != coordinator.registry.node_id)
        await cluster.stop(stopped)
        await cluster.settled()
        member = Member(cluster, "a", STATEFUL)
        assert "cannot be reached because only 2 broker(s)" in await failed_creation(member)
        await cluster.start(stopped)
        await member.until({"0": [0, 1], "1": [0, 1, 2]})
        assert [created(cluster, topic) for topic in (STORE, REPARTITION)] == [1, 1]


async def test_internal_topics_created_without_a_controller_get_leaders_from_the_next_controller(
    tmp_path: Path,
) -> None:
    async with members(tmp_path, SETTINGS) as cluster:
        await cluster.create("lines", 2)
        assert (await set_level(cluster, 1, name=LEVEL))["error_code"] == NONE
        await cluster.coordinator("g", GROUP)
        session = away(cluster)
        member = Member(cluster, "a", STATEFUL)
        await member.beat()
        await eventually("the topics are in ZooKeeper", lambda: created(cluster, STORE))
        for _ in range(5):
            assert list(await status(member)) == [3]
        assert created(cluster, STORE) == 1
        cluster.ensemble.end_session(session)
        await member.until({"0": [0, 1], "1": [0, 1, 2]})
        assert [created(cluster, topic) for topic in (STORE, REPARTITION)] == [1, 1]


class _NoBroker:
    """A fake broker with a ZooKeeper session. It ignores all changes of nodes."""

    def changed(self, kind: str, path: str) -> None: ...


def away(cluster: Members) -> int:
    """Registers the id of a broker that does not exist as the controller. Until the ZooKeeper
    session of this registration ends, no broker is the controller. Returns the session's id."""
    session = cluster.ensemble.begin_session(_NoBroker())
    node = cluster_nodes.encode_controller(99, 0)
    path = cluster_nodes.CONTROLLER
    cluster.ensemble.do([Delete(path), Create(path, node, ephemeral=True)], session)
    return session


async def test_streams_group_keeps_its_tasks_when_the_metadata_of_its_topic_arrives_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with members(tmp_path, SETTINGS) as cluster:
        await cluster.create("lines", 3)
        assert (await set_level(cluster, 1, name=LEVEL))["error_code"] == NONE
        member = Member(cluster, "a")
        await member.until({"0": [0, 1, 2]})
        epoch = member.epoch
        withheld = await restart_without(cluster, "lines", monkeypatch)
        coordinator = await cluster.coordinator("g", GROUP)
        await eventually("the group is loaded", lambda: coordinator.groups.view_of("g") is not None)
        request, describe = member.request(), {"group_ids": ["g"]}
        early = await asked(
            coordinator, lambda wire: wire.call("StreamsGroupHeartbeat", 1, request)
        )
        assert early["error_code"] == COORDINATOR_LOAD_IN_PROGRESS
        described = await asked(
            coordinator, lambda wire: wire.call("StreamsGroupDescribe", 1, describe)
        )
        assert described["groups"][0]["error_code"] == COORDINATOR_LOAD_IN_PROGRESS
        assert shown(coordinator) == ("Stable", None)
        await withheld.release()
        await member.beat()
        assert (member.epoch, member.tasks) == (epoch, {"0": [0, 1, 2]})
        assert shown(await cluster.coordinator("g", GROUP)) == ("Stable", None)


def shown(coordinator: Broker) -> tuple[str, object]:
    """Returns the state of the group and the problem of its topics, as the web page shows them."""
    shard = coordinator.groups.view_of("g")
    assert shard is not None
    group = shard.groups["g"]
    view = topology_view(group, coordinator.time.now())
    assert view is not None
    return group.state.value, view["problem"]
