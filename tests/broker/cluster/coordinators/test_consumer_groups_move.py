"""Tests consumer groups (KIP-848) on a cluster of three brokers: group.version, failover, and
settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.broker import Broker
from broker.topics.registry import OFFSETS_TOPIC
from broker.topics.startup_parts import CannotJoin
from offsets.partitioner import partition_for
from protocol.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    FENCED_MEMBER_EPOCH,
    INVALID_UPDATE_VERSION,
    NONE,
    NOT_CONTROLLER,
    NOT_COORDINATOR,
    UNSUPPORTED_VERSION,
)
from protocol.znodes import cluster as cluster_nodes
from tests.broker.cluster.members import GROUP, Members, members
from tests.broker.cluster.withheld_topic import restart_without
from tests.broker.serving import asked, eventually
from tests.wire import Wire

RETRIED = (COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR)
SETTINGS = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.rebalance.heartbeat.interval.ms": "0",
}
UPGRADE, SAFE_DOWNGRADE = 1, 2
SOFTWARE = {"client_software_name": "test", "client_software_version": "1"}


def update(level: int, kind: int = UPGRADE, name: str = "group.version") -> dict[str, Any]:
    update = {"feature": name, "max_version_level": level, "upgrade_type": kind}
    return {"timeout_ms": 5000, "feature_updates": [update], "validate_only": False}


def controller(cluster: Members) -> Broker:
    return cluster.brokers[next(iter(cluster.brokers.values())).cluster.controller_id]


async def set_level(cluster: Members, level: int, kind: int = UPGRADE) -> dict[str, Any]:
    """Sends UpdateFeatures to the controller, and waits until all brokers have the level."""
    reply: dict[str, Any] = await asked(
        controller(cluster), lambda wire: wire.call("UpdateFeatures", 2, update(level, kind))
    )
    if reply["error_code"] == NONE:
        await eventually(
            "all brokers have the level",
            lambda: all(
                each.registry.features.levels.get("group.version", 0) == level
                for each in cluster.brokers.values()
            ),
        )
    return reply


def joining(**fields: Any) -> dict[str, Any]:
    request = {
        "group_id": "g",
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": ["orders"],
        "topic_partitions": [],
    }
    return {**request, **fields}


async def heartbeat(cluster: Members, **fields: Any) -> dict[str, Any]:
    """Sends a heartbeat of the member m to the coordinator of the group g."""
    found: list[dict[str, Any]] = []

    def run(wire: Wire) -> int:
        found.append(wire.call("ConsumerGroupHeartbeat", 1, joining(**fields)))
        return int(found[-1]["error_code"])

    await cluster.at_coordinator("g", GROUP, run, *RETRIED)
    return found[-1]


def owned(reply: dict[str, Any]) -> list[int]:
    topics = reply["assignment"]["topic_partitions"]
    return sorted(each for topic in topics for each in topic["partitions"])


async def test_consumer_group_survives_the_failure_of_its_coordinator(tmp_path: Path) -> None:
    async with members(tmp_path, SETTINGS) as cluster:
        await cluster.create("orders", 3)
        assert (await set_level(cluster, 1))["error_code"] == NONE
        joined = await heartbeat(cluster)
        assert (joined["error_code"], owned(joined)) == (NONE, [0, 1, 2])
        partition = partition_for("g", 4)
        leader = await cluster.leader(OFFSETS_TOPIC, partition)
        stopped = leader.registry.node_id
        await cluster.stop(stopped)
        epoch = joined["member_epoch"]
        same = await heartbeat(cluster, member_epoch=epoch)
        assert (same["error_code"], same["member_epoch"]) == (NONE, epoch)
        assert (await cluster.leader(OFFSETS_TOPIC, partition)).registry.node_id != stopped
        other = await heartbeat(cluster, member_id="n")
        assert other["member_epoch"] == epoch + 1
        old = await heartbeat(cluster, member_epoch=epoch - 1)
        assert old["error_code"] == FENCED_MEMBER_EPOCH


async def test_consumer_group_keeps_partitions_if_topic_metadata_arrives_after_the_group_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with members(tmp_path, SETTINGS) as cluster:
        await cluster.create("orders", 3)
        assert (await set_level(cluster, 1))["error_code"] == NONE
        epoch = (await heartbeat(cluster))["member_epoch"]
        withheld = await restart_without(cluster, "orders", monkeypatch)
        coordinator = await cluster.coordinator("g", GROUP)
        await eventually("the group is loaded", lambda: coordinator.groups.view_of("g") is not None)
        request = joining(member_epoch=epoch)
        early = await asked(
            coordinator, lambda wire: wire.call("ConsumerGroupHeartbeat", 1, request)
        )
        assert early["error_code"] == COORDINATOR_LOAD_IN_PROGRESS
        classic = {
            "group_id": "g",
            "session_timeout_ms": 30_000,
            "rebalance_timeout_ms": 30_000,
            "member_id": "classic",
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        }
        joined = await asked(coordinator, lambda wire: wire.call("JoinGroup", 5, classic))
        assert joined["error_code"] == COORDINATOR_LOAD_IN_PROGRESS
        await withheld.release()
        same = await heartbeat(cluster, member_epoch=epoch, topic_partitions=None)
        assert (same["error_code"], same["member_epoch"]) == (NONE, epoch)
        assert same["assignment"] is None


async def test_consumer_groups_are_disabled_until_group_version_is_raised(tmp_path: Path) -> None:
    async with members(tmp_path, SETTINGS) as cluster:
        await cluster.create("orders", 1)
        off = await heartbeat(cluster)
        assert off["error_code"] == UNSUPPORTED_VERSION
        assert "kafka-features.sh upgrade --feature group.version=1" in off["error_message"]
        at = controller(cluster)
        ask = {"group_ids": ["g"], "include_authorized_operations": False}
        described = await asked(at, lambda wire: wire.call("ConsumerGroupDescribe", 1, ask))
        assert [each["error_code"] for each in described["groups"]] == [UNSUPPORTED_VERSION]
        assert (await set_level(cluster, 1))["error_code"] == NONE
        versions = await asked(at, lambda wire: wire.call("ApiVersions", 4, SOFTWARE))
        assert versions["finalized_features"] == [
            {"name": "group.version", "max_version_level": 1, "min_version_level": 1}
        ]
        supported = [
            {"name": name, "min_version": 0, "max_version": 1}
            for name in ("group.version", "share.version", "streams.version")
        ]
        assert versions["supported_features"] == supported
        assert owned(await heartbeat(cluster)) == [0]


@pytest.mark.parametrize(
    ("level", "kind", "name", "reason"),
    [
        (2, UPGRADE, "group.version", "Broker 1 only supports versions 0-1"),
        (-1, UPGRADE, "group.version", "A feature version cannot be less than 0."),
        (1, UPGRADE, "transaction.version", "Broker 1 does not support this feature."),
        (0, UPGRADE, "nope", "Feature nope not found."),
        (1, SAFE_DOWNGRADE, "group.version", "Can't downgrade to a newer version."),
        (1, 4, "group.version", "The controller does not support the given upgrade type."),
    ],
)
async def test_invalid_feature_update_is_refused(
    tmp_path: Path, level: int, kind: int, name: str, reason: str
) -> None:
    async with members(tmp_path, SETTINGS) as cluster:
        request = update(level, kind, name)
        reply = await asked(
            controller(cluster), lambda wire: wire.call("UpdateFeatures", 2, request)
        )
        assert reply["error_code"] == INVALID_UPDATE_VERSION
        assert reply["error_message"].endswith(reason)


async def test_group_version_is_lowered_only_by_a_downgrade_at_the_controller(
    tmp_path: Path,
) -> None:
    async with members(tmp_path, SETTINGS) as cluster:
        assert (await set_level(cluster, 1))["error_code"] == NONE
        assert (await set_level(cluster, 0))["error_code"] == INVALID_UPDATE_VERSION
        request = update(0, SAFE_DOWNGRADE)
        other = next(each for each in cluster.brokers.values() if each is not controller(cluster))
        reply = await asked(other, lambda wire: wire.call("UpdateFeatures", 2, request))
        assert reply["error_code"] == NOT_CONTROLLER
        assert (await set_level(cluster, 0, SAFE_DOWNGRADE))["error_code"] == NONE


async def test_broker_that_does_not_support_a_feature_level_can_not_join(tmp_path: Path) -> None:
    async with members(tmp_path, SETTINGS) as cluster:
        assert (await set_level(cluster, 1))["error_code"] == NONE
        cluster.settings = {"group.coordinator.rebalance.protocols": "classic"}
        with pytest.raises(CannotJoin, match=r"the feature group\.version at level 1"):
            await cluster.start(4)
        data = cluster_nodes.encode_feature(2, True, {"group.version": 1, "streams.version": 2})
        cluster.ensemble.nodes["/feature"].data = data
        cluster.settings = {}
        with pytest.raises(CannotJoin, match=r"streams\.version .* use a version of Muster"):
            await cluster.start(4)


async def test_feature_level_that_a_registered_broker_does_not_support_is_refused(
    tmp_path: Path,
) -> None:
    async with members(tmp_path, SETTINGS) as cluster:
        cluster.settings = {"group.coordinator.rebalance.protocols": "classic"}
        await cluster.start(4)
        reply = await set_level(cluster, 1)
        assert reply["error_message"].endswith("Broker 4 does not support this feature.")
        await cluster.stop(4)
        assert (await set_level(cluster, 1))["error_code"] == NONE


async def test_settings_of_a_consumer_group_are_applied_by_every_coordinator(
    tmp_path: Path,
) -> None:
    async with members(tmp_path, SETTINGS) as cluster:
        await cluster.create("orders", 1)
        assert (await set_level(cluster, 1))["error_code"] == NONE
        setting = {"name": "consumer.heartbeat.interval.ms", "config_operation": 0, "value": "7000"}
        resource = {"resource_type": 32, "resource_name": "g", "configs": [setting]}
        request = {"resources": [resource], "validate_only": False}
        at = next(iter(cluster.brokers.values()))
        reply = await asked(at, lambda wire: wire.call("IncrementalAlterConfigs", 1, request))
        assert [each["error_code"] for each in reply["responses"]] == [NONE]
        await eventually(
            "all brokers have the setting",
            lambda: all(
                each.registry.group_configs == {"g": {"consumer.heartbeat.interval.ms": "7000"}}
                for each in cluster.brokers.values()
            ),
        )
        assert (await heartbeat(cluster))["heartbeat_interval_ms"] == 7000
