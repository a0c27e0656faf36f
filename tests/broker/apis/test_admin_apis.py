"""Tests administrative APIs: log directories, producers, leader epochs, leader elections,
reassignments and lists."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from protocol.errors import (
    ELECTION_NOT_NEEDED,
    FENCED_LEADER_EPOCH,
    INVALID_REPLICA_ASSIGNMENT,
    INVALID_REQUEST,
    INVALID_TOPIC_EXCEPTION,
    LOG_DIR_NOT_FOUND,
    NO_REASSIGNMENT_IN_PROGRESS,
    NONE,
    UNKNOWN_LEADER_EPOCH,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSUPPORTED_VERSION,
)
from tests.broker.topic_calls import create_topic, metadata, produce
from tests.brokers import Broker
from tests.wire import Wire, batch

# -- DescribeLogDirs


def log_dirs(wire: Wire, version: int, topics: Any) -> dict[str, Any]:
    answer = wire.call("DescribeLogDirs", version, {"topics": topics})
    assert answer["error_code"] == NONE
    (result,) = answer["results"]
    return dict(result)


@pytest.mark.parametrize("version", range(6))
def test_describe_log_dirs_returns_partition_sizes_in_every_version(
    wire: Wire, broker: Broker, name: str, version: int
) -> None:
    create_topic(wire, name, 3)
    records = batch(b"x" * 1000)
    produce(wire, name, records, partition=1)

    told = log_dirs(wire, version, [{"topic": name, "partitions": [0, 1, 7]}])

    assert told["log_dir"] == os.path.abspath(broker.data)
    (topic,) = told["topics"]
    sizes = {each["partition_index"]: each["partition_size"] for each in topic["partitions"]}
    assert sizes == {0: 0, 1: len(records)}, "what is not there is not told of"
    assert all(each["offset_lag"] == 0 for each in topic["partitions"])
    if version >= 4:
        disk = os.statvfs(broker.data)
        assert told["total_bytes"] == disk.f_blocks * disk.f_frsize
        assert 0 < told["usable_bytes"] <= told["total_bytes"]
    else:
        assert told["total_bytes"] == -1


def test_describe_log_dirs_without_topics_describes_all_partitions(wire: Wire, name: str) -> None:
    create_topic(wire, name, 2)

    everything = {each["name"]: each["partitions"] for each in log_dirs(wire, 4, None)["topics"]}

    assert len(everything[name]) == 2
    assert log_dirs(wire, 4, [])["topics"] == []
    assert log_dirs(wire, 4, [{"topic": "not-there", "partitions": [0]}])["topics"] == []


# -- DescribeProducers


def producers(wire: Wire, name: str, partition: int = 0) -> dict[str, Any]:
    request = {"topics": [{"name": name, "partition_indexes": [partition]}]}
    (topic,) = wire.call("DescribeProducers", 0, request)["topics"]
    (entry,) = topic["partitions"]
    return dict(entry)


def test_describe_producers_returns_last_sequence_and_timestamp(wire: Wire, name: str) -> None:
    create_topic(wire, name)
    for sequence in (0, 2):
        fields = {"producer_id": 77, "producer_epoch": 3, "base_sequence": sequence}
        assert produce(wire, name, batch(b"a", b"b", timestamp=5_000, **fields))["error_code"] == 0
    produce(wire, name, batch(b"of nobody"))

    (told,) = producers(wire, name)["active_producers"]

    assert told.pop("_tagged_fields", {}) == {}
    assert told == {
        "producer_id": 77,
        "producer_epoch": 3,
        "last_sequence": 3,
        "last_timestamp": 5_001,
        "coordinator_epoch": -1,
        "current_txn_start_offset": -1,
    }


@pytest.mark.parametrize(
    ("topic", "partition", "error_code"),
    [
        ("not-there", 0, UNKNOWN_TOPIC_OR_PARTITION),
        ("not legal", 0, INVALID_TOPIC_EXCEPTION),
        ("", 0, INVALID_TOPIC_EXCEPTION),
    ],
)
def test_describe_producers_of_unknown_or_invalid_topic_is_an_error(
    wire: Wire, topic: str, partition: int, error_code: int
) -> None:
    told = producers(wire, topic, partition)

    assert (told["error_code"], told["active_producers"]) == (error_code, [])
    assert told["error_message"]


# -- OffsetForLeaderEpoch


def end_of_epoch(
    wire: Wire, name: str, epoch: int, version: int = 4, current: int = -1, partition: int = 0
) -> tuple[int, int, int]:
    """Sends OffsetForLeaderEpoch. Returns the error code, the leader epoch and the end offset."""
    wanted = {"partition": partition, "leader_epoch": epoch, "current_leader_epoch": current}
    request = {"replica_id": -1, "topics": [{"topic": name, "partitions": [wanted]}]}
    (topic,) = wire.call("OffsetForLeaderEpoch", version, request)["topics"]
    (entry,) = topic["partitions"]
    return entry["error_code"], entry["leader_epoch"], entry["end_offset"]


@pytest.mark.parametrize("version", range(5))
def test_offset_for_latest_leader_epoch_is_the_log_end_offset(
    wire: Wire, name: str, version: int
) -> None:
    create_topic(wire, name)
    produce(wire, name, batch(b"a", b"b"))

    epoch = 0 if version else -1
    assert end_of_epoch(wire, name, 0, version) == (NONE, epoch, 2)
    assert end_of_epoch(wire, name, 1, version) == (NONE, -1, -1), "nobody led so late"


@pytest.mark.campaign
def test_offset_for_earlier_leader_epoch_is_the_start_of_the_next_epoch(
    brokers: Callable[..., Broker], name: str
) -> None:
    """The log contains batches of several leaders: epoch 0 up to offset 1, then epoch 4."""
    broker = brokers()
    with Wire(broker.port) as wire:
        create_topic(wire, name)
        produce(wire, name, batch(b"a", b"b"))
    broker.stop()
    checkpoint = broker.partition_folder(name, 0) / "leader-epoch-checkpoint"
    checkpoint.write_text("0\n2\n0 0\n4 1\n")
    broker.start()
    with Wire(broker.port) as wire:
        assert end_of_epoch(wire, name, 0) == (NONE, 0, 1)
        assert end_of_epoch(wire, name, 3) == (NONE, 0, 1), "the greatest at or below it"
        assert end_of_epoch(wire, name, 4) == (NONE, 4, 2)
        assert end_of_epoch(wire, name, 4, current=3) == (FENCED_LEADER_EPOCH, -1, -1)
        assert end_of_epoch(wire, name, 4, current=5) == (UNKNOWN_LEADER_EPOCH, -1, -1)


def test_offset_for_leader_epoch_of_unknown_partition_is_an_error(wire: Wire, name: str) -> None:
    create_topic(wire, name)

    unknown = (UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    assert end_of_epoch(wire, name, 0, partition=1) == unknown
    assert end_of_epoch(wire, "not-there", 0) == unknown


# -- ElectLeaders, reassignments


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("election_type", [0, 1])
def test_elect_leaders_returns_not_needed_on_a_standalone_broker(
    wire: Wire, name: str, version: int, election_type: int
) -> None:
    create_topic(wire, name)
    request = {
        "election_type": election_type,
        "topic_partitions": [{"topic": name, "partitions": [0, 9]}],
    }

    answer = wire.call("ElectLeaders", version, request)

    (topic,) = answer["replica_election_results"]
    codes = [each["error_code"] for each in topic["partition_result"]]
    assert (answer["error_code"], codes) == (
        NONE,
        [ELECTION_NOT_NEEDED, UNKNOWN_TOPIC_OR_PARTITION],
    )


def test_elect_leaders_for_all_partitions_returns_an_empty_list_and_refuses_unknown_types(
    wire: Wire,
) -> None:
    everything = {"election_type": 0, "topic_partitions": None}

    answer = wire.call("ElectLeaders", 2, everything)
    assert (answer["error_code"], answer["replica_election_results"]) == (NONE, [])
    assert wire.call("ElectLeaders", 2, {**everything, "election_type": 5})["error_code"] == (
        INVALID_REQUEST
    )


def test_list_reassignments_is_empty_on_a_standalone_broker(wire: Wire, name: str) -> None:
    create_topic(wire, name)
    for topics in (None, [{"name": name, "partition_indexes": [0]}]):
        answer = wire.call("ListPartitionReassignments", 0, {"topics": topics})
        assert (answer["error_code"], answer["topics"]) == (NONE, [])


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("may_change_factor", [True, False])
def test_reassignment_to_another_broker_is_refused_on_a_standalone_broker(
    wire: Wire, name: str, version: int, may_change_factor: bool
) -> None:
    create_topic(wire, name)
    (ours,) = [broker["node_id"] for broker in metadata(wire, name)["brokers"]]
    asked = [
        (name, 0, [ours], NONE),
        (name, 0, [99], INVALID_REPLICA_ASSIGNMENT),
        (name, 0, [ours, 99], INVALID_REPLICA_ASSIGNMENT),
        (name, 0, [ours, ours], INVALID_REPLICA_ASSIGNMENT),
        (name, 0, [-1], INVALID_REPLICA_ASSIGNMENT),
        (name, 0, [], INVALID_REPLICA_ASSIGNMENT),
        (name, 0, None, NO_REASSIGNMENT_IN_PROGRESS),
        (name, 1, [ours], UNKNOWN_TOPIC_OR_PARTITION),
        (name, -1, None, UNKNOWN_TOPIC_OR_PARTITION),
        (f"{name}-not", 0, [ours], UNKNOWN_TOPIC_OR_PARTITION),
        (f"{name}-not", 0, None, UNKNOWN_TOPIC_OR_PARTITION),
    ]
    topics = [
        {"name": topic, "partitions": [{"partition_index": index, "replicas": replicas}]}
        for topic, index, replicas, _ in asked
    ]
    value = {"topics": topics, "allow_replication_factor_change": may_change_factor}

    answer = wire.call("AlterPartitionReassignments", version, value)

    codes = [each["error_code"] for entry in answer["responses"] for each in entry["partitions"]]
    assert (answer["error_code"], codes) == (NONE, [expected for *_, expected in asked])
    assert answer["allow_replication_factor_change"] == (version == 0 or may_change_factor)
    assert metadata(wire, name)["topics"][0]["partitions"][0]["replica_nodes"] == [ours]


@pytest.mark.parametrize("version", range(3))
def test_alter_replica_log_dirs_accepts_only_the_brokers_own_directory(
    wire: Wire, name: str, version: int
) -> None:
    create_topic(wire, name)
    (directory,) = wire.call("DescribeLogDirs", 4, {"topics": None})["results"]

    def codes(path: str) -> list[tuple[int, int]]:
        dirs = [{"path": path, "topics": [{"name": name, "partitions": [0, 9]}]}]
        (topic,) = wire.call("AlterReplicaLogDirs", version, {"dirs": dirs})["results"]
        return [(each["partition_index"], each["error_code"]) for each in topic["partitions"]]

    assert codes(directory["log_dir"]) == [(0, NONE), (9, UNKNOWN_TOPIC_OR_PARTITION)]
    assert codes("/nowhere") == [(0, LOG_DIR_NOT_FOUND), (9, LOG_DIR_NOT_FOUND)]


# -- DescribeTopicPartitions


def pages(wire: Wire, names: list[str], limit: int) -> list[tuple[str, list[int]]]:
    """Returns the topics and partitions of each page of DescribeTopicPartitions, in order."""
    told = []
    cursor = None
    while True:
        request = {
            "topics": [{"name": name} for name in names],
            "response_partition_limit": limit,
            "cursor": cursor,
        }
        answer = wire.call("DescribeTopicPartitions", 0, request)
        for topic in answer["topics"]:
            assert topic["error_code"] == NONE
            told.append((topic["name"], [p["partition_index"] for p in topic["partitions"]]))
        cursor = answer["next_cursor"]
        if cursor is None:
            return told


def test_describe_topic_partitions_pages_have_at_most_the_requested_partition_count(
    wire: Wire, name: str
) -> None:
    first, second = f"{name}-a", f"{name}-b"
    create_topic(wire, second, 2)
    create_topic(wire, first, 3)

    assert pages(wire, [second, first], 2000) == [(first, [0, 1, 2]), (second, [0, 1])]
    assert pages(wire, [second, first], 2) == [
        (first, [0, 1]),
        (first, [2]),
        (second, [0]),
        (second, [1]),
    ]
    assert pages(wire, [second, first], 3) == [(first, [0, 1, 2]), (second, [0, 1])]
    assert (first, [0, 1, 2]) in pages(wire, [], 2000), "an empty list asks for all"


def test_describe_topic_partitions_agrees_with_metadata(wire: Wire, name: str) -> None:
    create_topic(wire, name)
    (known,) = metadata(wire, name)["topics"]

    request = {"topics": [{"name": name}, {"name": "not-there"}, {"name": "not legal"}]}
    answer = wire.call("DescribeTopicPartitions", 0, request)

    bad, unknown, (topic) = sorted(answer["topics"], key=lambda each: -int(each["error_code"]))[:3]
    codes = {each["name"]: each["error_code"] for each in (bad, unknown)}
    assert codes == {"not legal": INVALID_TOPIC_EXCEPTION, "not-there": UNKNOWN_TOPIC_OR_PARTITION}
    assert topic["topic_id"] == known["topic_id"]
    (partition,) = topic["partitions"]
    assert partition["leader_id"] == known["partitions"][0]["leader_id"]
    assert partition["eligible_leader_replicas"] == partition["last_known_elr"] == []


@pytest.mark.parametrize(
    "cursor",
    [
        {"topic_name": "another", "partition_index": 0},
        {"topic_name": "t", "partition_index": -1},
    ],
)
def test_describe_topic_partitions_refuses_an_invalid_cursor(
    wire: Wire, cursor: dict[str, Any]
) -> None:
    request = {"topics": [{"name": "t"}], "cursor": cursor}

    answer = wire.call("DescribeTopicPartitions", 0, request)

    assert [topic["error_code"] for topic in answer["topics"]] == [INVALID_REQUEST]


@pytest.mark.campaign
def test_broker_setting_bounds_the_limit_in_a_describe_topic_partitions_request(
    brokers: Callable[..., Broker], name: str
) -> None:
    with Wire(brokers({"max.request.partition.size.limit": "2"}).port) as wire:
        create_topic(wire, name, 3)

        assert pages(wire, [name], 2000) == [(name, [0, 1]), (name, [2])]


# -- ListConfigResources

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


def test_list_config_resources_returns_topics_and_the_broker(wire: Wire, name: str) -> None:
    create_topic(wire, name)

    def listed(version: int, *kinds: int) -> set[tuple[str, int]]:
        answer = wire.call("ListConfigResources", version, {"resource_types": list(kinds)})
        assert answer["error_code"] == NONE
        return {
            (each["resource_name"], each["resource_type"]) for each in answer["config_resources"]
        }

    assert listed(0) == set()
    assert listed(1, BROKER) == {("1", BROKER)}
    assert (name, TOPIC) in listed(1, TOPIC)
    assert {("1", BROKER), (name, TOPIC)} <= listed(1)
    assert listed(1, BROKER_LOGGER, CLIENT_METRICS, GROUP) == set()


def test_list_config_resources_refuses_an_unknown_type(wire: Wire) -> None:
    answer = wire.call("ListConfigResources", 1, {"resource_types": [77]})

    assert (answer["error_code"], answer["config_resources"]) == (UNSUPPORTED_VERSION, [])
