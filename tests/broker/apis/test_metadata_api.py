"""Tests Metadata in every version: topic creation, and the meaning of an empty topic list."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from broker.apis.metadata import partition_entry
from broker.apis.shared.authorization import NOT_ASKED
from broker.topics.cluster_view import NO_LEADER, PartitionView
from protocol.errors import (
    INVALID_REQUEST,
    INVALID_TOPIC_EXCEPTION,
    LEADER_NOT_AVAILABLE,
    LISTENER_NOT_FOUND,
    NONE,
    REPLICA_NOT_AVAILABLE,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from tests.broker.topic_calls import create_topic, metadata
from tests.brokers import Broker
from tests.wire import Wire

TOPIC_OPERATIONS, CLUSTER_OPERATIONS = 0b1101_1111_1000, 0b1_1111_1010_0000
"""The bits of all operations that an ACL on a topic, and an ACL on a cluster, can allow."""
VERSIONS = range(14)


@pytest.mark.parametrize("version", VERSIONS)
def test_metadata_returns_topic_and_leader_in_every_version(
    wire: Wire, broker: Broker, name: str, version: int
) -> None:
    created = create_topic(wire, name, 3)

    answer = metadata(wire, name, version=version)

    (node,) = answer["brokers"]
    (topic,) = answer["topics"]
    assert (node["host"], node["port"]) == ("127.0.0.1", broker.port)
    assert (topic["error_code"], topic["name"]) == (NONE, name)
    assert [p["partition_index"] for p in topic["partitions"]] == [0, 1, 2]
    for partition in topic["partitions"]:
        assert partition["leader_id"] == node["node_id"]
        assert partition["replica_nodes"] == partition["isr_nodes"] == [node["node_id"]]
        assert partition["leader_epoch"] == (0 if version >= 7 else -1)
        assert partition["offline_replicas"] == []
    assert answer["controller_id"] == (node["node_id"] if version >= 1 else -1)
    assert (answer["cluster_id"] is None) == (version < 2)
    assert topic["topic_id"] == (created["topic_id"] if version >= 10 else bytes(16))


@pytest.mark.parametrize("version", VERSIONS)
def test_metadata_with_an_empty_list_returns_all_topics_only_in_version_0(
    wire: Wire, name: str, version: int
) -> None:
    create_topic(wire, name)

    answer = wire.call("Metadata", version, {"topics": []})

    assert (name in [topic["name"] for topic in answer["topics"]]) == (version == 0)


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_metadata_with_null_topics_returns_all_topics(wire: Wire, name: str, version: int) -> None:
    create_topic(wire, name)

    answer = wire.call("Metadata", version, {"topics": None})

    assert name in [topic["name"] for topic in answer["topics"]]


@pytest.mark.parametrize("version", VERSIONS)
def test_metadata_creates_and_returns_an_unknown_topic(wire: Wire, name: str, version: int) -> None:
    (topic,) = metadata(wire, name, version=version)["topics"]

    assert topic["error_code"] == NONE
    assert len(topic["partitions"]) == 1


def test_metadata_does_not_create_a_topic_when_auto_creation_is_false(
    wire: Wire, name: str
) -> None:
    (topic,) = metadata(wire, name, create=False)["topics"]

    assert topic["error_code"] == UNKNOWN_TOPIC_OR_PARTITION
    assert name not in [t["name"] for t in wire.call("Metadata", 4, {"topics": None})["topics"]]


@pytest.mark.parametrize("bad", ["", ".", "..", "a b", "ü", "x" * 250])
@pytest.mark.parametrize("create", [True, False])
def test_metadata_refuses_an_invalid_topic_name(wire: Wire, bad: str, create: bool) -> None:
    (topic,) = metadata(wire, bad, create=create)["topics"]

    assert topic["error_code"] == INVALID_TOPIC_EXCEPTION


def test_metadata_creates_no_topic_whose_metric_names_equal_those_of_another_topic(
    wire: Wire, name: str
) -> None:
    create_topic(wire, f"{name}.a")

    (topic,) = metadata(wire, f"{name}_a")["topics"]

    assert topic["error_code"] == INVALID_TOPIC_EXCEPTION


def test_metadata_creates_valid_topics_when_another_name_is_invalid(wire: Wire, name: str) -> None:
    topics = metadata(wire, name, "not legal", f"{name}-2")["topics"]

    assert [topic["error_code"] for topic in topics] == [NONE, INVALID_TOPIC_EXCEPTION, NONE]


def test_metadata_finds_topics_by_id_from_version_12(wire: Wire, name: str) -> None:
    topic_id = create_topic(wire, name)["topic_id"]
    unknown = uuid.uuid4().bytes
    asked = [{"topic_id": i, "name": None} for i in (topic_id, unknown)]

    known, missing = wire.call("Metadata", 12, {"topics": asked})["topics"]

    assert (known["error_code"], known["name"]) == (NONE, name)
    assert (missing["error_code"], missing["name"]) == (UNKNOWN_TOPIC_ID, None)
    assert missing["topic_id"] == unknown


@pytest.mark.parametrize("version", [10, 11])
def test_metadata_refuses_a_topic_id_in_versions_10_and_11(
    wire: Wire, name: str, version: int
) -> None:
    topic_id = create_topic(wire, name)["topic_id"]

    answer = wire.call("Metadata", version, {"topics": [{"topic_id": topic_id, "name": name}]})

    assert [topic["error_code"] for topic in answer["topics"]] == [INVALID_REQUEST]


@pytest.mark.parametrize("version", range(8, 14))
@pytest.mark.parametrize("wanted", [True, False])
def test_metadata_returns_authorized_operations_on_request(
    wire: Wire, name: str, version: int, wanted: bool
) -> None:
    create_topic(wire, name)

    answer = wire.call(
        "Metadata",
        version,
        {
            "topics": [{"name": name}],
            "include_topic_authorized_operations": wanted,
            **({"include_cluster_authorized_operations": wanted} if version <= 10 else {}),
        },
    )

    expected = TOPIC_OPERATIONS if wanted else NOT_ASKED
    assert answer["topics"][0]["topic_authorized_operations"] == expected
    cluster = CLUSTER_OPERATIONS if wanted and version <= 10 else NOT_ASKED
    assert answer["cluster_authorized_operations"] == cluster


def test_authorized_operations_of_topics_with_errors_equal_those_of_kafka(
    wire: Wire, name: str
) -> None:
    """If a topic does not exist, Kafka 4.3.1 returns authorized operations for a request by topic
    name, but not for a request by topic id."""
    topics = [{"name": each} for each in (name, "bad name")]
    asked = {"include_topic_authorized_operations": True, "allow_auto_topic_creation": False}
    answer = wire.call("Metadata", 9, {"topics": topics, **asked})
    assert {
        each["error_code"]: each["topic_authorized_operations"] for each in answer["topics"]
    } == {UNKNOWN_TOPIC_OR_PARTITION: TOPIC_OPERATIONS, INVALID_TOPIC_EXCEPTION: TOPIC_OPERATIONS}
    by_id = [{"name": None, "topic_id": uuid.uuid4().bytes}]
    answer = wire.call("Metadata", 12, {"topics": by_id, **asked})
    assert answer["topics"][0]["topic_authorized_operations"] == NOT_ASKED
    answer = wire.call("DescribeTopicPartitions", 0, {"topics": topics, "cursor": None})
    assert {each["topic_authorized_operations"] for each in answer["topics"]} == {TOPIC_OPERATIONS}


def test_metadata_creates_the_coordinators_internal_topics(wire: Wire) -> None:
    made = metadata(wire, "__consumer_offsets", "__transaction_state", "__share_group_state")[
        "topics"
    ]

    assert [(each["error_code"], len(each["partitions"])) for each in made] == [(NONE, 50)] * 3


@pytest.mark.parametrize(
    ("key_type", "name"), [(0, "__consumer_offsets"), (1, "__transaction_state")]
)
def test_coordinator_topic_is_internal_with_50_partitions(
    wire: Wire, key_type: int, name: str
) -> None:
    wire.call("FindCoordinator", 3, {"key": "g", "key_type": key_type})

    (topic,) = metadata(wire, name)["topics"]

    assert topic["is_internal"]
    assert len(topic["partitions"]) == 50


# -- brokers that are not in the response


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("leader", [1, 2, NO_LEADER])
@pytest.mark.parametrize("isr", [[1], [1, 2]])
def test_metadata_of_a_partition_whose_replica_is_on_an_unlisted_broker_equals_that_of_kafka(
    version: int, leader: int, isr: list[int]
) -> None:
    """The response does not list broker 2: it is down, or does not have the listener on which the
    client sent the request."""
    view = PartitionView(leader, 4, [1, 2], isr)
    cluster = SimpleNamespace(partition=lambda *_: view)
    services: Any = SimpleNamespace(cluster=cluster)

    entry = partition_entry(services, "orders", 0, {1}, version)

    if leader == 1:
        expected = REPLICA_NOT_AVAILABLE if version == 0 else NONE
    elif leader == 2 and version >= 6:
        expected = LISTENER_NOT_FOUND
    else:
        expected = LEADER_NOT_AVAILABLE
    assert entry["error_code"] == expected
    assert entry["leader_id"] == (1 if leader == 1 else NO_LEADER)
    assert entry["replica_nodes"] == ([1] if version == 0 else [1, 2])
    assert entry["isr_nodes"] == ([1] if version == 0 else isr)
