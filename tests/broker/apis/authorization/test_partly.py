"""Tests of partly denied requests: denied elements get errors, and the other elements get their
usual responses, whatever the number of elements."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from protocol.errors import (
    GROUP_AUTHORIZATION_FAILED,
    TOPIC_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
from protocol.messages import BY_NAME
from protocol.schema import ZERO_UUID, Array, Struct
from tests.broker.apis.authorization.asking import (
    GROUP,
    Value,
    codes,
    commit,
    fetch,
    guarded_broker,
    list_offsets,
    produce,
)
from tests.wire import Wire

RULES = (
    "alice: ALL TOPIC may-*",
    "alice: ALL GROUP may-*",
    "alice: ALL TRANSACTIONAL_ID may-*",
    f"alice: ALL GROUP {GROUP}",
)
IDS = (
    TOPIC_AUTHORIZATION_FAILED,
    GROUP_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)


def topics(array: str, name: str = "name", **fields: Any) -> Any:
    """Returns a function that gets names and returns the field ``array`` of a request, with one
    element for each name. The field ``name`` of an element contains the name."""
    return lambda names: {array: [{name: each, **fields} for each in names]}


def plain(array: str, **fields: Any) -> Any:
    """Returns a function that converts a list of names to the fields of a request. The field
    ``array`` gets the list; ``fields`` are the other fields."""
    return lambda names: {array: names, **fields}


def settings(**fields: Any) -> Any:
    """Returns a function that converts a list of topic names to a request. ``fields`` are the other
    fields of each topic in the request."""
    return lambda names: {
        "resources": [{"resource_type": 2, "resource_name": each, **fields} for each in names]
    }


SETTING = {"name": "retention.ms", "value": "1"}
CHECKED = {"validate_only": True}

REQUESTS: Mapping[str, tuple[int, Any, str, Value]] = {
    # API: version, function that makes the request's array, the response's array, other fields
    "AddPartitionsToTxn": (
        3,
        topics("v3_and_below_topics", partitions=[0]),
        "results_by_topic_v3_and_below",
        {
            "v3_and_below_transactional_id": "may-pay",
            "v3_and_below_producer_id": 1,
            "v3_and_below_producer_epoch": 0,
        },
    ),
    "AlterConfigs": (1, settings(configs=[SETTING]), "responses", CHECKED),
    "CreatePartitions": (
        1,
        topics("topics", count=3, assignments=None),
        "results",
        {"timeout_ms": 1000, "validate_only": True},
    ),
    "CreateTopics": (
        5,
        topics("topics", num_partitions=1, replication_factor=1),
        "topics",
        {"timeout_ms": 1000, "validate_only": True},
    ),
    "DeleteGroups": (1, plain("groups_names"), "results", {}),
    "DeleteRecords": (
        1,
        topics("topics", partitions=[{"partition_index": 0, "offset": 0}]),
        "topics",
        {"timeout_ms": 1000},
    ),
    "DeleteTopics": (6, topics("topics", topic_id=ZERO_UUID), "responses", {"timeout_ms": 1000}),
    "DescribeConfigs": (2, settings(configuration_keys=None), "results", {}),
    "DescribeGroups": (4, plain("groups"), "groups", {"include_authorized_operations": True}),
    "DescribeProducers": (0, topics("topics", partition_indexes=[0]), "topics", {}),
    "DescribeTopicPartitions": (0, topics("topics"), "topics", {"cursor": None}),
    "DescribeTransactions": (0, plain("transactional_ids"), "transaction_states", {}),
    "Fetch": (11, lambda names: fetch(*names), "responses", {}),
    "FindCoordinator": (4, plain("coordinator_keys", key_type=1), "coordinators", {}),
    "IncrementalAlterConfigs": (
        1,
        settings(configs=[{**SETTING, "config_operation": 0}]),
        "responses",
        CHECKED,
    ),
    "ListOffsets": (5, lambda names: list_offsets(*names), "topics", {}),
    "Metadata": (
        9,
        topics("topics"),
        "topics",
        {"allow_auto_topic_creation": False, "include_topic_authorized_operations": True},
    ),
    "OffsetCommit": (8, lambda names: commit(*names), "topics", {}),
    "OffsetDelete": (
        0,
        topics("topics", partitions=[{"partition_index": 0}]),
        "topics",
        {"group_id": GROUP},
    ),
    "OffsetFetch": (7, topics("topics", partition_indexes=[0]), "topics", {"group_id": GROUP}),
    "OffsetForLeaderEpoch": (
        3,
        topics("topics", "topic", partitions=[{"partition": 0, "leader_epoch": 0}]),
        "topics",
        {},
    ),
    "Produce": (7, lambda names: produce(*names), "responses", {}),
    "TxnOffsetCommit": (
        3,
        lambda names: commit(*names),
        "topics",
        {"transactional_id": "may-pay", "producer_id": 1, "producer_epoch": 0},
    ),
}


@pytest.fixture(scope="module")
def sizes() -> tuple[int, int]:
    """Returns two numbers of elements: one that is handled in a single step, and one that is
    handled in slices and threads."""
    return 3, 300


async def test_only_denied_elements_of_a_request_get_authorization_errors(
    tmp_path: Path, sizes: tuple[int, int]
) -> None:
    def talk(wire: Wire) -> None:
        for name, (version, make, array, fields) in REQUESTS.items():
            for size in sizes:
                asked_for = [f"{may}-{number}" for number in range(size) for may in ("may", "not")]
                value = {**make(asked_for), **fields}
                answer = wire.call(name, version, value)
                _check(name, version, answer[array], asked_for)

    async with guarded_broker(tmp_path, *RULES) as asking:
        await asking.talk("alice", talk)
        assert asking.broker.internal_errors.counts.total() == 0


def _check(name: str, version: int, entries: list[Value], asked_for: list[str]) -> None:
    named = _naming(name)
    found = {each[named]: codes(each) | {each.get("error_code", 0)} for each in entries}
    assert sorted(found) == sorted(asked_for), (name, version)
    assert len(entries) == len(asked_for), (name, version)
    for each, said in found.items():
        is_denied = bool(said & set(IDS))
        assert is_denied == each.startswith("not"), (name, version, each, said)


def _naming(api: str) -> str:
    """Returns the response field that contains the name of an element."""
    _, _, array, _ = REQUESTS[api]
    [type_] = [field.type for field in BY_NAME[api].response if field.name == array]
    assert isinstance(type_, Array)
    assert isinstance(type_.element, Struct)
    names = {field.name for field in type_.element.fields}
    order = ("name", "topic", "group_id", "transactional_id", "resource_name", "key")
    return next(each for each in order if each in names)


async def test_describe_groups_lists_denied_groups_first_and_delete_groups_lists_them_last(
    tmp_path: Path,
) -> None:
    names = ["may-1", "not-1", "may-2", "not-2"]
    async with guarded_broker(tmp_path, *RULES) as asking:
        groups = await asking.ask("alice", "DescribeGroups", 4, {"groups": names})
        assert [each["group_id"] for each in groups["groups"]] == [
            "not-1",
            "not-2",
            "may-1",
            "may-2",
        ]
        deleted = await asking.ask("alice", "DeleteGroups", 1, {"groups_names": names})
        assert [each["group_id"] for each in deleted["results"]] == [
            "may-1",
            "may-2",
            "not-1",
            "not-2",
        ]


async def test_produce_with_acks_0_to_a_denied_topic_closes_the_connection(tmp_path: Path) -> None:
    def talk(wire: Wire) -> int:
        allowed = {**produce("orders"), "acks": 0}
        wire.send("Produce", 7, allowed)
        assert wire.call("ApiVersions", 0)["error_code"] == 0
        wire.send("Produce", 7, {**produce("orders", "payments"), "acks": 0})
        assert wire.is_closed()
        return 0

    async with guarded_broker(tmp_path, "alice: WRITE TOPIC orders") as asking:
        await asking.talk("alice", talk)


async def test_produce_fails_for_all_topics_when_transactional_id_is_denied(tmp_path: Path) -> None:
    async with guarded_broker(tmp_path, "alice: WRITE TOPIC orders") as asking:
        value = produce("orders", "payments", transactional=True, transactional_id="pay")
        answer = await asking.ask("alice", "Produce", 7, value)
        assert codes(answer) == {TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
        asking.rules.add("alice: WRITE TRANSACTIONAL_ID pay")
        answer = await asking.ask("alice", "Produce", 7, value)
        said = {each["name"]: codes(each) for each in answer["responses"]}
        assert said["payments"] == {TOPIC_AUTHORIZATION_FAILED}
        assert not said["orders"] & set(IDS)


async def test_request_is_denied_immediately_after_its_acl_was_removed(tmp_path: Path) -> None:
    beat = {"group_id": GROUP, "generation_id": 1, "member_id": "m"}
    requests = (
        ("Produce", 7, produce("orders")),
        ("Fetch", 11, fetch("orders")),
        ("ListOffsets", 5, list_offsets("orders")),
        ("OffsetCommit", 8, commit("orders")),
        ("Metadata", 9, {"topics": [{"name": "orders"}]}),
        ("Heartbeat", 3, beat),
        ("Heartbeat", 4, beat),
    )

    def talk(wire: Wire) -> None:
        for _ in range(2):
            asking.rules.add("alice: ALL TOPIC orders")
            asking.rules.add(f"alice: ALL GROUP {GROUP}")
            for _ in range(2):
                for request in requests:
                    assert not codes(wire.call(*request)) & set(IDS), request
            asking.rules.remove_all_of("alice")
            for request in requests:
                assert codes(wire.call(*request)) <= set(IDS), request

    async with guarded_broker(tmp_path) as asking:
        await asking.talk("alice", talk)
