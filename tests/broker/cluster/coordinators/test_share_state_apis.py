"""Tests the APIs 83 to 87 of the share coordinator, and FindCoordinator for share partitions, on a
cluster of three brokers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.apis.find_coordinator import _is_share_key
from broker.broker import Broker
from broker.topics.registry import SHARE_STATE_TOPIC
from protocol.errors import (
    FENCED_LEADER_EPOCH,
    FENCED_STATE_EPOCH,
    INVALID_REQUEST,
    NONE,
    NOT_COORDINATOR,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from share.persister.values import coordinator_key
from tests.broker.cluster.members import Members, members
from tests.broker.cluster.share_members import (
    SETTINGS,
    TOPIC,
    key_of,
    set_level,
    share_coordinator,
)
from tests.broker.serving import asked, eventually

ONE_PARTITION = {**SETTINGS, "share.coordinator.state.topic.num.partitions": "1"}
"""Settings with which one of the three brokers coordinates all share partitions."""
INIT, READ, WRITE, DELETE, SUMMARY = (
    "InitializeShareGroupState",
    "ReadShareGroupState",
    "WriteShareGroupState",
    "DeleteShareGroupState",
    "ReadShareGroupStateSummary",
)
BATCH = {"first_offset": 0, "last_offset": 4, "delivery_state": 2, "delivery_count": 1}


def init(state_epoch: int, start_offset: int = 0) -> dict[str, Any]:
    return {"state_epoch": state_epoch, "start_offset": start_offset}


def write(state_epoch: int, leader_epoch: int, start_offset: int = 5) -> dict[str, Any]:
    return {
        "state_epoch": state_epoch,
        "leader_epoch": leader_epoch,
        "start_offset": start_offset,
        "state_batches": [BATCH],
    }


def leader(epoch: int) -> dict[str, Any]:
    return {"leader_epoch": epoch}


CALLS: list[tuple[str, int, int, dict[str, Any], int]] = [
    (READ, 0, 0, leader(0), INVALID_REQUEST),
    (WRITE, 1, 0, write(0, 0), INVALID_REQUEST),
    (SUMMARY, 1, 0, leader(0), NONE),
    (DELETE, 0, 0, {}, NONE),
    (INIT, 0, -1, init(2), INVALID_REQUEST),
    (INIT, 0, 7, init(2), UNKNOWN_TOPIC_OR_PARTITION),
    (INIT, 0, 0, init(2), NONE),
    (INIT, 0, 0, init(1), FENCED_STATE_EPOCH),
    (READ, 0, 0, leader(3), NONE),
    (READ, 0, 0, leader(2), FENCED_LEADER_EPOCH),
    (READ, 0, -1, leader(3), INVALID_REQUEST),
    (WRITE, 0, 0, write(1, 2), FENCED_LEADER_EPOCH),
    (WRITE, 0, 0, write(1, 3), FENCED_STATE_EPOCH),
    (WRITE, 1, 0, write(2, 3), NONE),
    (SUMMARY, 0, 7, leader(3), UNKNOWN_TOPIC_OR_PARTITION),
    (SUMMARY, 0, 0, leader(3), NONE),
]
"""API, version, partition, fields, and the expected error of each call, in order."""


def request(group_id: str, topic_id: bytes, partition: int, fields: Any) -> dict[str, Any]:
    entry = {"partition": partition, **fields}
    return {"group_id": group_id, "topics": [{"topic_id": topic_id, "partitions": [entry]}]}


async def found(
    at: Broker, keys: list[str], version: int = 6, key_type: int = 2
) -> list[dict[str, Any]]:
    value = {"key_type": key_type, "coordinator_keys": keys}
    reply = await asked(at, lambda wire: wire.call("FindCoordinator", version, value))
    answers: list[dict[str, Any]] = reply["coordinators"]
    return answers


async def coordinated(cluster: Members) -> Broker:
    """Makes FindCoordinator create the topic __share_group_state. Returns the share coordinator."""
    await cluster.create(TOPIC, 1)
    key = coordinator_key(key_of(cluster))

    async def is_found() -> int:
        [answer] = await found(cluster.brokers[1], [key])
        return int(answer["node_id"])

    for _ in range(200):
        if (node_id := await is_found()) >= 0:
            break
    coordinator = cluster.brokers[node_id]
    await eventually("the shard is hosted", lambda: coordinator.share_states.hosted_shards)
    return coordinator


async def test_share_coordinator_checks_for_errors_in_the_order_of_kafka(tmp_path: Path) -> None:
    async with members(tmp_path, ONE_PARTITION) as cluster:
        assert (await set_level(cluster, 1))["error_code"] == NONE
        coordinator = await coordinated(cluster)
        topic_id = key_of(cluster).topic_id
        entries: list[dict[str, Any]] = []
        for api, version, partition, fields, error in CALLS:
            value = request("g", topic_id, partition, fields)
            reply = await asked(
                coordinator, lambda wire, v=value, a=api, n=version: wire.call(a, n, v)
            )
            [topic] = reply["results"]
            [entry] = topic["partitions"]
            entries.append(entry)
            assert (topic["topic_id"], entry["partition"]) == (topic_id, partition)
            assert entry["error_code"] == error, (api, version, partition, fields, entry)
        assert (entries[2]["start_offset"], entries[2]["delivery_complete_count"]) == (-1, -1)
        summary = entries[-1]
        epochs = summary["state_epoch"], summary["leader_epoch"]
        assert (summary["start_offset"], *epochs) == (5, 2, 3)
        other = next(each for each in cluster.brokers.values() if each is not coordinator)
        for api, fields in ((INIT, init(9)), (READ, leader(9)), (WRITE, write(9, 9)), (DELETE, {})):
            value = request("g", topic_id, 0, fields)
            reply = await asked(other, lambda wire, v=value, a=api: wire.call(a, 0, v))
            assert reply["results"][0]["partitions"][0]["error_code"] == NOT_COORDINATOR
        for value in (request("", topic_id, 0, init(9)), {"group_id": "g", "topics": []}):
            reply = await asked(coordinator, lambda wire, v=value: wire.call(INIT, 0, v))
            assert reply["results"] == []


async def test_find_coordinator_returns_the_share_coordinator_of_a_share_partition(
    tmp_path: Path,
) -> None:
    async with members(tmp_path, SETTINGS) as cluster:
        await cluster.create(TOPIC, 1)
        key = coordinator_key(key_of(cluster))
        at = cluster.brokers[1]
        [off] = await found(at, [key])
        assert off["error_code"] == INVALID_REQUEST
        assert at.registry.topic(SHARE_STATE_TOPIC) is None
        assert (await set_level(cluster, 1))["error_code"] == NONE
        [old] = await found(at, [key], version=5)
        assert old["error_code"] == INVALID_REQUEST
        bad = ["g", "g:x:0", f"{key}x", ":" + key.partition(":")[2]]
        assert {each["error_code"] for each in await found(at, bad)} == {INVALID_REQUEST}
        assert at.registry.topic(SHARE_STATE_TOPIC) is None, "no topic for invalid keys"
        await found(at, [key])
        expected = await share_coordinator(cluster)
        [answer] = await found(at, [key])
        assert (answer["error_code"], answer["node_id"]) == (NONE, expected.registry.node_id)


@pytest.mark.parametrize("key", ["g:dHR0dHR0dHR0dHR0dHR0dA:0", "a:b:dHR0dHR0dHR0dHR0dHR0dA:12"])
def test_group_id_of_a_share_partition_may_contain_colons(key: str) -> None:
    assert _is_share_key(key)
