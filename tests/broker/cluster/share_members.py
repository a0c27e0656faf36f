"""Helpers for a share group on a cluster of three brokers: its member, its topic and its share
coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from broker.broker import Broker
from broker.topics.registry import SHARE_STATE_TOPIC
from offsets.partitioner import partition_for
from protocol.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    NONE,
    NOT_COORDINATOR,
)
from share.persister.values import coordinator_key
from share.values import SharePartitionKey
from tests.broker.cluster.members import GROUP, Members
from tests.broker.serving import asked, eventually
from tests.broker.share_calls import ShareMember
from tests.broker.topic_calls import produce
from tests.wire import Wire, batch

RETRIED = (COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR)
SETTINGS = {
    "share.coordinator.state.topic.num.partitions": "4",
    "share.coordinator.state.topic.min.isr": "1",
    "group.share.heartbeat.interval.ms": "5000",
}
UPGRADE, SAFE_DOWNGRADE = 1, 2
TOPIC = "orders"


async def set_level(
    cluster: Members, level: int, kind: int = UPGRADE, name: str = "share.version"
) -> dict[str, Any]:
    """Sends UpdateFeatures to the controller, and waits until all brokers have the level."""
    change = {"feature": name, "max_version_level": level, "upgrade_type": kind}
    request = {"timeout_ms": 5000, "feature_updates": [change], "validate_only": False}
    at = cluster.brokers[next(iter(cluster.brokers.values())).cluster.controller_id]
    reply: dict[str, Any] = await asked(at, lambda wire: wire.call("UpdateFeatures", 2, request))
    if reply["error_code"] == NONE:
        await eventually(
            "all brokers have the level",
            lambda: all(
                each.registry.features.levels.get(name, 0) == level
                for each in cluster.brokers.values()
            ),
        )
    return reply


async def heartbeat(cluster: Members, epoch: int = 0, **fields: Any) -> dict[str, Any]:
    """Sends a heartbeat of the member m to the coordinator of the group g."""
    request = {
        "group_id": "g",
        "member_id": "m",
        "member_epoch": epoch,
        "rack_id": None,
        "subscribed_topic_names": [TOPIC] if epoch == 0 else None,
        **fields,
    }
    found: list[dict[str, Any]] = []

    def run(wire: Wire) -> int:
        found.append(wire.call("ShareGroupHeartbeat", 1, request))
        return int(found[-1]["error_code"])

    await cluster.at_coordinator("g", GROUP, run, *RETRIED)
    return found[-1]


async def joined(cluster: Members, partitions: int) -> int:
    """Sends heartbeats of the member m until all partitions are assigned to it. Returns its
    epoch."""
    assigned = 0
    epoch = 0
    for _ in range(600):
        reply = await heartbeat(cluster, epoch)
        assert reply["error_code"] == NONE, reply
        epoch = reply["member_epoch"]
        if reply["assignment"] is not None:
            topics = reply["assignment"]["topic_partitions"]
            assigned = sum(len(each["partitions"]) for each in topics)
        if assigned == partitions:
            return epoch
        await asyncio.sleep(0.05)  # the share coordinator initializes the states
    raise AssertionError(f"{assigned} of {partitions} partitions are assigned")


async def read_from_the_start(cluster: Members) -> None:
    """Sets share.auto.offset.reset=earliest for the group g, and waits until all brokers know this
    setting."""
    setting = {"name": "share.auto.offset.reset", "config_operation": 0, "value": "earliest"}
    resource = {"resource_type": 32, "resource_name": "g", "configs": [setting]}
    request = {"resources": [resource], "validate_only": False}
    at = next(iter(cluster.brokers.values()))
    reply = await asked(at, lambda wire: wire.call("IncrementalAlterConfigs", 1, request))
    assert [each["error_code"] for each in reply["responses"]] == [NONE], reply
    await eventually(
        "all brokers have the setting",
        lambda: all("g" in each.registry.group_configs for each in cluster.brokers.values()),
    )


def key_of(cluster: Members, partition: int = 0) -> SharePartitionKey:
    topic = next(iter(cluster.brokers.values())).registry.topic(TOPIC)
    assert topic is not None
    return SharePartitionKey("g", topic.topic_id, partition)


async def share_coordinator(cluster: Members, partition: int = 0) -> Broker:
    index = partition_for(coordinator_key(key_of(cluster, partition)), 4)
    return await cluster.leader(SHARE_STATE_TOPIC, index)


async def produced(cluster: Members, *values: bytes, partition: int = 0) -> None:
    leader = await cluster.leader(TOPIC, partition)
    reply = await asked(leader, lambda wire: produce(wire, TOPIC, batch(*values), partition))
    assert reply["error_code"] == 0


async def consumed(
    cluster: Members,
    *accept: tuple[int, int, Sequence[int]],
    partition: int = 0,
    max_records: int = 500,
) -> tuple[list[tuple[int, int, int]], int]:
    """Fetches from the partition's leader in a new share session, and acknowledges the ranges
    ``accept``. Returns the acquired ranges and the error code of the acknowledgement. When the
    connection closes, the broker releases the acquired records that were not acknowledged."""
    leader = await cluster.leader(TOPIC, partition)
    topic_id = key_of(cluster).topic_id

    def run(wire: Wire) -> tuple[dict[str, Any], int]:
        member = ShareMember(wire, topic_id)
        reply = member.open(partition, max_records=max_records, max_wait_ms=10_000)
        error = member.acknowledge(*accept, partition=partition) if accept else NONE
        return reply, error

    reply, error = await asked(leader, run)
    [topic] = reply["responses"]
    [entry] = topic["partitions"]
    assert entry["error_code"] == NONE, entry
    found = [
        (each["first_offset"], each["last_offset"], each["delivery_count"])
        for each in entry["acquired_records"]
    ]
    return found, error
