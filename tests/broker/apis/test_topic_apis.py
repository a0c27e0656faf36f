"""Tests CreateTopics, DeleteTopics and CreatePartitions in every version, and the message of each
refusal."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from protocol.errors import (
    INVALID_CONFIG,
    INVALID_PARTITIONS,
    INVALID_REPLICA_ASSIGNMENT,
    INVALID_REPLICATION_FACTOR,
    INVALID_REQUEST,
    INVALID_TOPIC_EXCEPTION,
    NONE,
    POLICY_VIOLATION,
    TOPIC_ALREADY_EXISTS,
    TOPIC_DELETION_DISABLED,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from tests.broker.topic_calls import (
    create_topic,
    create_topics,
    fetch,
    metadata,
    produce,
    produce_request,
    topic,
)
from tests.brokers import Broker
from tests.wire import Wire, batch, values_of

CREATE_VERSIONS = range(8)
DELETE_VERSIONS = range(7)
GROW_VERSIONS = range(4)


def exists(wire: Wire, name: str) -> bool:
    (found,) = metadata(wire, name, create=False)["topics"]
    return bool(found["error_code"] == NONE)


# -- CreateTopics


@pytest.mark.parametrize("version", CREATE_VERSIONS)
def test_create_topics_creates_a_topic_in_every_version(
    wire: Wire, name: str, version: int
) -> None:
    answer = create_topic(wire, name, 3, version)

    (made,) = metadata(wire, name, create=False)["topics"]
    assert (answer["name"], answer["error_code"]) == (name, NONE)
    assert len(made["partitions"]) == 3
    if version >= 5:
        assert (answer["num_partitions"], answer["replication_factor"]) == (3, 1)
        assert {c["name"]: c["value"] for c in answer["configs"]}["cleanup.policy"] == "delete"
    assert answer["topic_id"] == (made["topic_id"] if version >= 7 else bytes(16))


@pytest.mark.parametrize("version", CREATE_VERSIONS[1:])
def test_create_topics_with_validate_only_creates_no_topic(
    wire: Wire, name: str, version: int
) -> None:
    (answer,) = create_topics(wire, [topic(name, 2)], version, validate_only=True)

    assert answer["error_code"] == NONE
    assert not exists(wire, name)


@pytest.mark.parametrize("version", CREATE_VERSIONS)
def test_create_topics_refuses_an_existing_topic(wire: Wire, name: str, version: int) -> None:
    create_topic(wire, name)

    answer = create_topic(wire, name, 5, version)

    assert answer["error_code"] == TOPIC_ALREADY_EXISTS
    if version >= 1:
        assert answer["error_message"] == f"Topic '{name}' already exists."


REFUSALS = [
    # fields, error code, part of the error message
    ({"num_partitions": 0}, INVALID_PARTITIONS, "larger than 0"),
    ({"num_partitions": -2}, INVALID_PARTITIONS, "larger than 0"),
    ({"num_partitions": 2**31 - 1}, INVALID_PARTITIONS, "at most"),
    ({"replication_factor": 0}, INVALID_REPLICATION_FACTOR, "larger than 0"),
    ({"replication_factor": 2}, INVALID_REPLICATION_FACTOR, "only 1 broker(s) are registered"),
    (
        {"assignments": [{"partition_index": 0, "broker_ids": [1]}]},
        INVALID_REQUEST,
        "cannot be used at the same time",
    ),
    (
        {"num_partitions": -1, "replication_factor": -1,
         "assignments": [{"partition_index": 1, "broker_ids": [1]}]},
        INVALID_REPLICA_ASSIGNMENT,
        "consecutive",
    ),
    (
        {"num_partitions": -1, "replication_factor": -1,
         "assignments": [{"partition_index": 0, "broker_ids": [9]}]},
        INVALID_REPLICA_ASSIGNMENT,
        "unknown brokers: [9]",
    ),
    (
        {"num_partitions": -1, "replication_factor": -1,
         "assignments": [{"partition_index": 0, "broker_ids": [1, 1]}]},
        INVALID_REPLICA_ASSIGNMENT,
        "twice",
    ),
    (
        {"num_partitions": -1, "replication_factor": -1,
         "assignments": [{"partition_index": 0, "broker_ids": []}]},
        INVALID_REPLICA_ASSIGNMENT,
        "no replicas",
    ),
    ({"configs": {"retention.ms": None}}, INVALID_CONFIG, "Null value not supported"),
    ({"configs": {"no.such": "1"}}, INVALID_CONFIG, "Unknown topic config name: no.such"),
    ({"configs": {"retention.ms": "soon"}}, INVALID_CONFIG, "whole number"),
    ({"configs": {"segment.bytes": "1"}}, INVALID_CONFIG, "at least 14"),
    ({"configs": {"cleanup.policy": "burn"}}, INVALID_CONFIG, "delete"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "error_code", "sentence"), REFUSALS)
def test_create_topics_refuses_invalid_fields_with_a_message(
    wire: Wire, name: str, fields: dict[str, Any], error_code: int, sentence: str
) -> None:
    wanted = dict(fields)
    partitions = wanted.pop("num_partitions", 1)

    answer = create_topic(wire, name, partitions, **wanted)

    assert answer["error_code"] == error_code
    assert sentence in answer["error_message"]
    assert not exists(wire, name)


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        ("", "the empty string is not allowed"),
        ("..", "'.' or '..' is not allowed"),
        ("a/b", "other than ASCII alphanumerics"),
        ("x" * 250, "longer than the max allowed length 249"),
    ],
)
def test_create_topics_refuses_an_invalid_topic_name(wire: Wire, bad: str, sentence: str) -> None:
    answer = create_topic(wire, bad)

    assert answer["error_code"] == INVALID_TOPIC_EXCEPTION
    assert sentence in answer["error_message"]


def test_create_topics_refuses_a_name_that_collides_in_metrics(wire: Wire, name: str) -> None:
    create_topic(wire, f"{name}_a")

    answer = create_topic(wire, f"{name}.a")

    assert answer["error_code"] == INVALID_TOPIC_EXCEPTION
    assert f"collides with existing topic: {name}_a" in answer["error_message"]


def test_topic_with_the_longest_name_can_be_created_written_and_deleted(
    wire: Wire, name: str
) -> None:
    longest = (name + "x" * 249)[:249]

    assert create_topic(wire, longest)["error_code"] == NONE
    assert produce(wire, longest)["error_code"] == NONE
    (answer,) = delete(wire, [longest])
    assert answer["error_code"] == NONE


@pytest.mark.campaign
@pytest.mark.parametrize(
    "internal", ["__consumer_offsets", "__transaction_state", "__share_group_state"]
)
def test_create_topics_refuses_internal_topics(
    brokers: Callable[..., Broker], internal: str
) -> None:
    """Otherwise a coordinator could find a topic that was created for another purpose."""
    with Wire(brokers().port) as wire:
        answer = create_topic(wire, internal, 3)

        assert answer["error_code"] == INVALID_TOPIC_EXCEPTION
        assert not exists(wire, internal)


def test_create_topics_uses_the_brokers_defaults_when_both_counts_are_minus_1(
    wire: Wire, name: str
) -> None:
    answer = create_topic(wire, name, -1, replication_factor=-1)

    assert (answer["error_code"], answer["num_partitions"]) == (NONE, 1)
    assert answer["replication_factor"] == 1


def test_create_topics_derives_the_partition_count_from_assignments(wire: Wire, name: str) -> None:
    assignments = [{"partition_index": i, "broker_ids": [1]} for i in (1, 0)]

    answer = create_topic(wire, name, -1, replication_factor=-1, assignments=assignments)

    assert (answer["error_code"], answer["num_partitions"]) == (NONE, 2)


def test_create_topics_refuses_a_duplicate_topic(wire: Wire, name: str) -> None:
    (answer,) = create_topics(wire, [topic(name), topic(name, 2)])

    assert answer["error_code"] == INVALID_REQUEST
    assert not exists(wire, name)


def test_create_topics_creates_valid_topics_when_another_topic_is_refused(
    wire: Wire, name: str
) -> None:
    good, bad = create_topics(wire, [topic(name), topic(f"{name}-2", 0)])

    assert (good["error_code"], bad["error_code"]) == (NONE, INVALID_PARTITIONS)
    assert exists(wire, name)


def test_create_topics_returns_values_and_sources_of_settings(wire: Wire, name: str) -> None:
    answer = create_topic(wire, name, configs={"retention.ms": "5000"})

    told = {c["name"]: (c["value"], c["config_source"]) for c in answer["configs"]}
    assert told["retention.ms"] == ("5000", 1)
    assert told["segment.bytes"] == ("1073741824", 5)


def test_create_topics_refuses_topics_above_the_partition_limit(wire: Wire, name: str) -> None:
    topics = [topic(f"{name}-{n}", 6000) for n in range(2)]

    answers = create_topics(wire, topics, validate_only=True)

    assert [answer["error_code"] for answer in answers] == [NONE, POLICY_VIOLATION]


def test_request_after_create_topics_waits_until_the_topic_exists(wire: Wire, name: str) -> None:
    wire.send("CreateTopics", 5, {"topics": [topic(name)], "timeout_ms": 1000})
    wire.send("Produce", 9, produce_request(name, batch(b"at once")))

    wire.receive()
    _, answer = wire.receive()

    assert answer["responses"][0]["partition_responses"][0]["error_code"] == NONE


# -- DeleteTopics


def delete(wire: Wire, names: list[str], version: int = 5) -> list[dict[str, Any]]:
    if version >= 6:
        request = {"topics": [{"name": name, "topic_id": bytes(16)} for name in names]}
    else:
        request = {"topic_names": names}
    answers: list[dict[str, Any]] = wire.call(
        "DeleteTopics", version, {**request, "timeout_ms": 10_000}
    )["responses"]
    return answers


@pytest.mark.parametrize("version", DELETE_VERSIONS)
def test_delete_topics_deletes_by_name_in_every_version(
    wire: Wire, name: str, version: int
) -> None:
    topic_id = create_topic(wire, name, 2)["topic_id"]

    (answer,) = delete(wire, [name], version)

    assert (answer["name"], answer["error_code"]) == (name, NONE)
    assert answer["topic_id"] == (topic_id if version >= 6 else bytes(16))
    assert not exists(wire, name)


def test_delete_topics_v6_deletes_by_topic_id(wire: Wire, name: str) -> None:
    topic_id = create_topic(wire, name)["topic_id"]
    unknown = uuid.uuid4().bytes
    asked = [{"name": None, "topic_id": i} for i in (topic_id, unknown)]

    done, missing = wire.call("DeleteTopics", 6, {"topics": asked, "timeout_ms": 0})["responses"]

    assert (done["name"], done["error_code"]) == (name, NONE)
    assert (missing["topic_id"], missing["error_code"]) == (unknown, UNKNOWN_TOPIC_ID)
    assert not exists(wire, name)


@pytest.mark.parametrize("version", DELETE_VERSIONS)
def test_delete_topics_of_an_unknown_topic_is_an_error(wire: Wire, name: str, version: int) -> None:
    (answer,) = delete(wire, [name], version)

    assert answer["error_code"] == UNKNOWN_TOPIC_OR_PARTITION


def test_delete_topics_needs_exactly_one_of_name_and_topic_id(wire: Wire, name: str) -> None:
    topic_id = create_topic(wire, name)["topic_id"]
    asked = [{"name": name, "topic_id": topic_id}, {"name": None, "topic_id": bytes(16)}]

    answers = wire.call("DeleteTopics", 6, {"topics": asked, "timeout_ms": 0})["responses"]

    assert [answer["error_code"] for answer in answers] == [INVALID_REQUEST, INVALID_REQUEST]
    assert exists(wire, name)


def test_recreated_topic_is_empty_and_has_another_id(wire: Wire, name: str) -> None:
    before = create_topic(wire, name)["topic_id"]
    produce(wire, name, batch(b"old"))
    delete(wire, [name])

    after = create_topic(wire, name)["topic_id"]

    assert before != after
    assert values_of(fetch(wire, name)["records"]) == []
    assert produce(wire, name)["base_offset"] == 0


@pytest.mark.parametrize(
    ("name", "owner", "keys"),
    [
        ("__consumer_offsets", "the group coordinator", "groups"),
        ("__transaction_state", "the transaction coordinator", "transactional ids"),
        ("__share_group_state", "the share coordinator", "share partitions"),
    ],
)
def test_deletion_and_extension_of_coordinator_topics_are_refused(
    wire: Wire, name: str, owner: str, keys: str
) -> None:
    metadata(wire, name)

    (deleted,) = delete(wire, [name])
    grown = grow(wire, name, 60)

    assert deleted["error_code"] == grown["error_code"] == INVALID_TOPIC_EXCEPTION
    assert owner in deleted["error_message"]
    assert grown["error_message"].endswith(f"where existing {keys} are stored.")
    assert exists(wire, name)


@pytest.mark.parametrize(
    ("version", "error_code"), [(1, INVALID_REQUEST), (3, TOPIC_DELETION_DISABLED)]
)
def test_delete_topics_is_refused_when_deletion_is_disabled(
    brokers: Any, name: str, version: int, error_code: int
) -> None:
    with Wire(brokers({"delete.topic.enable": "false"}).port) as wire:
        create_topic(wire, name)

        (answer,) = delete(wire, [name], version)

        assert answer["error_code"] == error_code
        assert exists(wire, name)


# -- CreatePartitions


def grow(wire: Wire, name: str, count: int, version: int = 3, **fields: Any) -> dict[str, Any]:
    wanted = {"name": name, "count": count, "assignments": fields.pop("assignments", None)}
    request = {"topics": [wanted], "timeout_ms": 10_000, "validate_only": False, **fields}
    answer: dict[str, Any] = wire.call("CreatePartitions", version, request)["results"][0]
    return answer


def partitions(wire: Wire, name: str) -> int:
    return len(metadata(wire, name, create=False)["topics"][0]["partitions"])


@pytest.mark.parametrize("version", GROW_VERSIONS)
def test_create_partitions_keeps_the_records_in_every_version(
    wire: Wire, name: str, version: int
) -> None:
    create_topic(wire, name)
    produce(wire, name, batch(b"kept"))

    answer = grow(wire, name, 3, version)

    assert (answer["error_code"], answer["error_message"]) == (NONE, None)
    assert partitions(wire, name) == 3
    assert values_of(fetch(wire, name)["records"]) == [b"kept"]
    assert produce(wire, name, partition=2)["base_offset"] == 0


@pytest.mark.parametrize(
    ("count", "assignments", "error_code", "sentence"),
    [
        (2, None, INVALID_PARTITIONS, "already has 2"),
        (1, None, INVALID_PARTITIONS, "higher than the requested 1"),
        (2**31 - 1, None, INVALID_PARTITIONS, "at most"),
        (4, [{"broker_ids": [1]}], INVALID_REPLICA_ASSIGNMENT, "only 1 assignment(s)"),
        (3, [{"broker_ids": [7]}], INVALID_REPLICA_ASSIGNMENT, "unknown brokers: [7]"),
    ],
)
def test_create_partitions_refuses_an_invalid_count_or_assignment(
    wire: Wire, name: str, count: int, assignments: Any, error_code: int, sentence: str
) -> None:
    create_topic(wire, name, 2)

    answer = grow(wire, name, count, assignments=assignments)

    assert answer["error_code"] == error_code
    assert sentence in answer["error_message"]
    assert partitions(wire, name) == 2


def test_create_partitions_with_validate_only_adds_no_partition(wire: Wire, name: str) -> None:
    create_topic(wire, name)

    assert grow(wire, name, 5, validate_only=True)["error_code"] == NONE
    assert partitions(wire, name) == 1


def test_create_partitions_of_an_unknown_topic_is_an_error(wire: Wire, name: str) -> None:
    assert grow(wire, name, 2)["error_code"] == UNKNOWN_TOPIC_OR_PARTITION
