"""Tests share groups (KIP-932) on a cluster of three brokers: share.version, and the moves of
leaders and coordinators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.topics.registry import SHARE_STATE_TOPIC
from broker.topics.startup_parts import CannotJoin
from protocol.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    UNSUPPORTED_VERSION,
)
from tests.broker.cluster.members import GROUP, Members, members
from tests.broker.cluster.share_members import (
    SAFE_DOWNGRADE,
    SETTINGS,
    TOPIC,
    consumed,
    heartbeat,
    joined,
    key_of,
    produced,
    read_from_the_start,
    set_level,
    share_coordinator,
)
from tests.broker.cluster.withheld_topic import restart_without
from tests.broker.serving import asked, eventually
from tests.broker.share_calls import ACCEPT, ShareMember, entry_of
from tests.wire import Wire


@pytest.mark.proves("share 14")
@pytest.mark.parametrize("failing", ["leader", "share coordinator", "group coordinator"])
async def test_accepted_share_records_are_not_delivered_again_when_a_broker_stops(
    tmp_path: Path, failing: str
) -> None:
    async with members(tmp_path, SETTINGS) as cluster:
        assert (await set_level(cluster, 1))["error_code"] == NONE
        await cluster.create(TOPIC, 1)
        await read_from_the_start(cluster)
        await joined(cluster, 1)
        topic = cluster.brokers[1].registry.topic(SHARE_STATE_TOPIC)
        assert topic is not None
        assert topic.partitions == 4
        await produced(cluster, b"0", b"1", b"2", b"3")
        found, error = await consumed(cluster, (0, 1, [ACCEPT]))
        assert (found, error) == ([(0, 3, 1)], NONE)
        stopped = {
            "leader": lambda: cluster.leader(TOPIC, 0),
            "share coordinator": lambda: share_coordinator(cluster),
            "group coordinator": lambda: cluster.coordinator("g", GROUP),
        }[failing]
        await cluster.stop((await stopped()).registry.node_id)
        found, error = await consumed(cluster, (2, 3, [ACCEPT]))
        assert error == NONE
        assert [each[:2] for each in found] == [(2, 3)]
        await joined(cluster, 1)
        await produced(cluster, b"4")
        assert await lag(cluster) == 1
        assert await consumed(cluster, (4, 4, [ACCEPT])) == ([(4, 4, 1)], NONE)
        assert await lag(cluster) == 0


async def test_share_start_offset_altered_on_the_coordinator_applies_on_the_leader(
    tmp_path: Path,
) -> None:
    async with members(tmp_path, SETTINGS) as cluster:
        assert (await set_level(cluster, 1))["error_code"] == NONE
        await cluster.create(TOPIC, 1)
        await read_from_the_start(cluster)
        await joined(cluster, 1)
        await produced(cluster, b"0", b"1")
        assert await consumed(cluster, (0, 1, [ACCEPT])) == ([(0, 1, 1)], NONE)
        leader = await cluster.leader(TOPIC, 0)
        await eventually("the session has ended", lambda: not len(leader.share_sessions))
        assert (await heartbeat(cluster, -1))["error_code"] == NONE
        partition = {"partition_index": 0, "start_offset": 0}
        topics = [{"topic_name": TOPIC, "partitions": [partition]}]
        coordinator = await cluster.coordinator("g", GROUP)
        value = {"group_id": "g", "topics": topics}
        reply = await asked(coordinator, lambda wire: wire.call("AlterShareGroupOffsets", 0, value))
        assert reply["responses"][0]["partitions"][0]["error_code"] == NONE, reply
        # As on a broker that is not the group coordinator, the leader still has the former state.
        assert await consumed(cluster, (0, 1, [ACCEPT])) == ([(0, 1, 1)], NONE)


@pytest.mark.parametrize("api", ["ShareFetch", "ShareAcknowledge"])
async def test_share_request_to_a_broker_that_is_not_the_leader_returns_the_leader(
    tmp_path: Path, api: str
) -> None:
    async with members(tmp_path, SETTINGS) as cluster:
        assert (await set_level(cluster, 1))["error_code"] == NONE
        await cluster.create(TOPIC, 1)
        leader = await cluster.leader(TOPIC, 0)
        node_id = leader.registry.node_id
        other = next(each for each in cluster.brokers.values() if each is not leader)
        topic_id = key_of(cluster).topic_id

        def run(wire: Wire) -> dict[str, Any]:
            member = ShareMember(wire, topic_id)
            opened = member.open(max_wait_ms=0)
            return opened if api == "ShareFetch" else member.send_acknowledge((0, 0, [ACCEPT]))

        reply = await asked(other, run)
        entry = entry_of(reply)
        assert entry["error_code"] == NOT_LEADER_OR_FOLLOWER
        view = other.cluster.partition(TOPIC, 0)
        assert view is not None
        named = {"leader_id": node_id, "leader_epoch": view.leader_epoch}
        assert entry["current_leader"] == named
        port = leader.sockets.addresses()[0][1]
        endpoint = {"node_id": node_id, "host": "127.0.0.1", "port": port, "rack": None}
        assert reply["node_endpoints"] == [endpoint]


REFUSED: list[tuple[str, int, dict[str, Any]]] = [
    ("ShareGroupHeartbeat", 1, {"group_id": "g", "member_id": "m", "member_epoch": 0}),
    ("ShareGroupDescribe", 1, {"group_ids": ["g"]}),
    ("ShareFetch", 2, {"group_id": "g", "member_id": "m"}),
    ("ShareAcknowledge", 1, {"group_id": "g", "member_id": "m"}),
    ("DescribeShareGroupOffsets", 0, {"groups": [{"group_id": "g", "topics": []}]}),
    ("AlterShareGroupOffsets", 0, {"group_id": "g", "topics": []}),
    ("DeleteShareGroupOffsets", 0, {"group_id": "g", "topics": []}),
]


async def test_share_groups_are_disabled_until_share_version_is_raised(tmp_path: Path) -> None:
    async with members(tmp_path, SETTINGS) as cluster:
        at = cluster.brokers[1]
        for api, version, value in REFUSED:
            reply = await asked(at, lambda wire, a=api, n=version, v=value: wire.call(a, n, v))
            [refused] = reply.get("groups", [reply])
            assert refused["error_code"] == UNSUPPORTED_VERSION, api
            assert "kafka-features.sh upgrade --feature share.version=1" in refused["error_message"]
        cluster.settings = {**SETTINGS, "group.coordinator.rebalance.protocols": "classic,consumer"}
        await cluster.start(4)
        reply = await set_level(cluster, 1)
        assert reply["error_message"].endswith("Broker 4 does not support this feature.")
        await cluster.stop(4)
        assert (await set_level(cluster, 1))["error_code"] == NONE
        software = {"client_software_name": "test", "client_software_version": "1"}
        versions = await asked(at, lambda wire: wire.call("ApiVersions", 4, software))
        level = {"name": "share.version", "max_version_level": 1, "min_version_level": 1}
        assert level in versions["finalized_features"]
        assert {83, 84, 85, 86, 87} <= {each["api_key"] for each in versions["api_keys"]}
        with pytest.raises(CannotJoin, match=r"add share to group\.coordinator"):
            await cluster.start(4)
        assert (await set_level(cluster, 0, SAFE_DOWNGRADE))["error_code"] == NONE


async def test_share_partition_states_of_a_deleted_topic_are_deleted(tmp_path: Path) -> None:
    async with members(tmp_path, SETTINGS) as cluster:
        assert (await set_level(cluster, 1))["error_code"] == NONE
        await cluster.create(TOPIC, 2)
        await joined(cluster, 2)
        assert known_states(cluster) == 2
        at = cluster.brokers[cluster.brokers[1].cluster.controller_id]
        value = {"topic_names": [TOPIC], "timeout_ms": 10_000}
        reply = await asked(at, lambda wire: wire.call("DeleteTopics", 4, value))
        assert [each["error_code"] for each in reply["responses"]] == [NONE]
        await eventually("the states are deleted", lambda: known_states(cluster) == 0)


async def test_share_partition_states_are_kept_if_topic_metadata_arrives_after_the_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with members(tmp_path, SETTINGS) as cluster:
        assert (await set_level(cluster, 1))["error_code"] == NONE
        await cluster.create(TOPIC, 1)
        await read_from_the_start(cluster)
        epoch = await joined(cluster, 1)
        await produced(cluster, b"0", b"1")
        assert await consumed(cluster, (0, 0, [ACCEPT])) == ([(0, 1, 1)], NONE)
        withheld = await restart_without(cluster, TOPIC, monkeypatch)
        coordinator = await cluster.coordinator("g", GROUP)
        await eventually("the group is loaded", lambda: coordinator.groups.view_of("g") is not None)
        await eventually("the state is loaded", lambda: known_states(cluster) == 1)
        for broker in cluster.brokers.values():
            await broker.share_pruning.run()
        value = {"group_id": "g", "member_id": "m", "member_epoch": epoch}
        early = await asked(coordinator, lambda wire: wire.call("ShareGroupHeartbeat", 1, value))
        assert early["error_code"] == COORDINATOR_LOAD_IN_PROGRESS
        assert known_states(cluster) == 1
        await withheld.release()
        await joined(cluster, 1)  # a group without the topic would initialize the state again
        assert await consumed(cluster, (1, 1, [ACCEPT])) == ([(1, 1, 2)], NONE)


def known_states(cluster: Members) -> int:
    """Returns the number of share partition states in the share coordinators of all brokers."""
    runtimes = [broker.share_states for broker in cluster.brokers.values()]
    hosted = [each for runtime in runtimes for each in runtime.hosted_shards]
    return sum(each.core.view.known() for each in hosted)


async def lag(cluster: Members) -> int:
    group = {"group_id": "g", "topics": [{"topic_name": TOPIC, "partitions": [0]}]}
    coordinator = await cluster.coordinator("g", GROUP)
    reply = await asked(
        coordinator, lambda wire: wire.call("DescribeShareGroupOffsets", 1, {"groups": [group]})
    )
    [described] = reply["groups"]
    [entry] = described["topics"][0]["partitions"]
    assert entry["error_code"] == NONE, entry
    found: int = entry["lag"]
    return found
