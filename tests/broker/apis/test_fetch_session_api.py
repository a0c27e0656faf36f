"""Tests incremental fetch sessions (KIP-227), whose requests and responses contain only changed
partitions."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.errors import (
    FETCH_SESSION_ID_NOT_FOUND,
    FETCH_SESSION_TOPIC_ID_ERROR,
    INVALID_FETCH_SESSION_EPOCH,
    NONE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from tests.broker.topic_calls import create_topic, fetch_request, produce
from tests.wire import Wire, batch, values_of

VERSIONS = [7, 11, 12]


def open_session(wire: Wire, name: str, version: int, partitions: int = 1) -> dict[str, Any]:
    """Sends a full Fetch that creates a session. Returns the response."""
    request = fetch_request(name, session_epoch=0)
    entry = request["topics"][0]["partitions"][0]
    request["topics"][0]["partitions"] = [{**entry, "partition": p} for p in range(partitions)]
    return wire.call("Fetch", version, request)


def incremental(
    wire: Wire, version: int, session_id: int, epoch: int, topics: Any = (), forgotten: Any = ()
) -> dict[str, Any]:
    return wire.call(
        "Fetch",
        version,
        {
            **fetch_request("", session_id=session_id, session_epoch=epoch),
            "topics": list(topics),
            "forgotten_topics_data": list(forgotten),
        },
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_incremental_fetch_returns_only_partitions_with_new_records(
    wire: Wire, name: str, version: int
) -> None:
    create_topic(wire, name, 3)
    first = open_session(wire, name, version, 3)
    assert len(first["responses"][0]["partitions"]) == 3
    session = first["session_id"]

    assert incremental(wire, version, session, 1)["responses"] == []
    produce(wire, name, batch(b"news"), partition=1)
    (topic,) = incremental(wire, version, session, 2)["responses"]

    (partition,) = topic["partitions"]
    assert (partition["partition_index"], values_of(partition["records"])) == (1, [b"news"])


def test_fetch_session_keeps_the_offset_of_an_earlier_request(wire: Wire, name: str) -> None:
    create_topic(wire, name, 2)
    produce(wire, name, batch(b"a"))
    session = open_session(wire, name, 12, 2)["session_id"]
    moved = fetch_request(name, 1)["topics"]

    assert incremental(wire, 12, session, 1, moved)["responses"] == []
    produce(wire, name, batch(b"b"))
    (topic,) = incremental(wire, 12, session, 2)["responses"]

    assert values_of(topic["partitions"][0]["records"]) == [b"b"]


def test_fetch_session_does_not_return_a_forgotten_partition(wire: Wire, name: str) -> None:
    create_topic(wire, name, 2)
    session = open_session(wire, name, 12, 2)["session_id"]

    incremental(wire, 12, session, 1, (), [{"topic": name, "partitions": [0]}])
    produce(wire, name, batch(b"unseen"), partition=0)
    produce(wire, name, batch(b"seen"), partition=1)
    (topic,) = incremental(wire, 12, session, 2)["responses"]

    assert [p["partition_index"] for p in topic["partitions"]] == [1]


def test_fetch_session_ends_when_its_last_partition_is_forgotten(wire: Wire, name: str) -> None:
    create_topic(wire, name)
    session = open_session(wire, name, 12)["session_id"]

    last = incremental(wire, 12, session, 1, (), [{"topic": name, "partitions": [0]}])

    assert (last["error_code"], last["session_id"]) == (NONE, 0)
    assert incremental(wire, 12, session, 2)["error_code"] == FETCH_SESSION_ID_NOT_FOUND


def test_fetch_session_continues_after_a_request_with_a_wrong_epoch(wire: Wire, name: str) -> None:
    create_topic(wire, name)
    session = open_session(wire, name, 12)["session_id"]

    assert incremental(wire, 12, session, 5)["error_code"] == INVALID_FETCH_SESSION_EPOCH
    assert incremental(wire, 12, session, 1)["error_code"] == NONE


def test_fetch_with_an_unknown_session_id_is_an_error(wire: Wire) -> None:
    answer = incremental(wire, 12, 424242, 1)

    assert (answer["error_code"], answer["responses"]) == (FETCH_SESSION_ID_NOT_FOUND, [])


def test_fetch_session_with_topic_names_refuses_requests_with_topic_ids(
    wire: Wire, name: str
) -> None:
    create_topic(wire, name)
    session = open_session(wire, name, 12)["session_id"]

    assert incremental(wire, 13, session, 1)["error_code"] == FETCH_SESSION_TOPIC_ID_ERROR


def test_fetch_with_session_epoch_minus_1_ends_the_session(wire: Wire, name: str) -> None:
    create_topic(wire, name)
    session = open_session(wire, name, 12)["session_id"]

    answer = wire.call("Fetch", 12, fetch_request(name, session_id=session, session_epoch=-1))

    assert (answer["session_id"], len(answer["responses"])) == (0, 1)
    assert incremental(wire, 12, session, 1)["error_code"] == FETCH_SESSION_ID_NOT_FOUND


def test_fetch_session_repeats_a_partition_error_until_it_is_resolved(
    wire: Wire, name: str
) -> None:
    answer = open_session(wire, name, 12)
    session = answer["session_id"]
    assert answer["responses"][0]["partitions"][0]["error_code"] == UNKNOWN_TOPIC_OR_PARTITION

    (topic,) = incremental(wire, 12, session, 1)["responses"]
    assert topic["partitions"][0]["error_code"] == UNKNOWN_TOPIC_OR_PARTITION
    create_topic(wire, name)
    (topic,) = incremental(wire, 12, session, 2)["responses"]

    assert topic["partitions"][0]["error_code"] == NONE
    assert incremental(wire, 12, session, 3)["responses"] == []


def test_fetch_session_moves_a_partition_with_returned_records_to_the_end(
    wire: Wire, name: str
) -> None:
    create_topic(wire, name, 2)
    for partition in (0, 1):
        produce(wire, name, batch(b"x" * 5000), partition=partition)
    request = fetch_request(name, session_epoch=0, max_bytes=6000)
    entry = request["topics"][0]["partitions"][0]
    request["topics"][0]["partitions"].append({**entry, "partition": 1})
    first = wire.call("Fetch", 12, request)
    session = first["session_id"]

    second = wire.call(
        "Fetch",
        12,
        {
            **fetch_request("", session_id=session, session_epoch=1, max_bytes=6000),
            "topics": [],
        },
    )

    filled = [
        [p["partition_index"] for p in answer["responses"][0]["partitions"] if p["records"]]
        for answer in (first, second)
    ]
    assert filled == [[0], [1]]
