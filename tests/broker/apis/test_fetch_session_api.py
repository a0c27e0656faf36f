"""Incremental fetch sessions (KIP-227) on the wire: requests and answers have only what changed."""

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
    """The answer to a full fetch that opens a session."""
    request = fetch_request(name, session_epoch=0)
    entry = request["topics"][0]["partitions"][0]
    request["topics"][0]["partitions"] = [{**entry, "partition": p} for p in range(partitions)]
    return wire.call("Fetch", version, request)


def incremental(
    wire: Wire, version: int, session_id: int, epoch: int, topics: Any = (), forgotten: Any = ()
) -> dict[str, Any]:
    """The answer to an incremental fetch."""
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
def test_incremental_answer_has_only_partitions_with_new_records(
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


def test_incremental_request_has_only_new_offsets(wire: Wire, name: str) -> None:
    create_topic(wire, name, 2)
    produce(wire, name, batch(b"a"))
    session = open_session(wire, name, 12, 2)["session_id"]
    moved = fetch_request(name, 1)["topics"]

    assert incremental(wire, 12, session, 1, moved)["responses"] == []
    produce(wire, name, batch(b"b"))
    (topic,) = incremental(wire, 12, session, 2)["responses"]

    assert values_of(topic["partitions"][0]["records"]) == [b"b"]


def test_forgotten_partition_is_not_returned(wire: Wire, name: str) -> None:
    create_topic(wire, name, 2)
    session = open_session(wire, name, 12, 2)["session_id"]

    incremental(wire, 12, session, 1, (), [{"topic": name, "partitions": [0]}])
    produce(wire, name, batch(b"unseen"), partition=0)
    produce(wire, name, batch(b"seen"), partition=1)
    (topic,) = incremental(wire, 12, session, 2)["responses"]

    assert [p["partition_index"] for p in topic["partitions"]] == [1]


def test_session_ends_when_its_last_partition_is_forgotten(wire: Wire, name: str) -> None:
    create_topic(wire, name)
    session = open_session(wire, name, 12)["session_id"]

    last = incremental(wire, 12, session, 1, (), [{"topic": name, "partitions": [0]}])

    assert (last["error_code"], last["session_id"]) == (NONE, 0)
    assert incremental(wire, 12, session, 2)["error_code"] == FETCH_SESSION_ID_NOT_FOUND


def test_wrong_epoch_is_refused_and_the_session_stays(wire: Wire, name: str) -> None:
    create_topic(wire, name)
    session = open_session(wire, name, 12)["session_id"]

    assert incremental(wire, 12, session, 5)["error_code"] == INVALID_FETCH_SESSION_EPOCH
    assert incremental(wire, 12, session, 1)["error_code"] == NONE


def test_unknown_session_is_an_error(wire: Wire) -> None:
    answer = incremental(wire, 12, 424242, 1)

    assert (answer["error_code"], answer["responses"]) == (FETCH_SESSION_ID_NOT_FOUND, [])


def test_names_and_ids_do_not_mix_in_one_session(wire: Wire, name: str) -> None:
    create_topic(wire, name)
    session = open_session(wire, name, 12)["session_id"]

    assert incremental(wire, 13, session, 1)["error_code"] == FETCH_SESSION_TOPIC_ID_ERROR


def test_epoch_minus_one_ends_a_session(wire: Wire, name: str) -> None:
    create_topic(wire, name)
    session = open_session(wire, name, 12)["session_id"]

    answer = wire.call("Fetch", 12, fetch_request(name, session_id=session, session_epoch=-1))

    assert (answer["session_id"], len(answer["responses"])) == (0, 1)
    assert incremental(wire, 12, session, 1)["error_code"] == FETCH_SESSION_ID_NOT_FOUND


def test_error_is_returned_each_time_until_the_partition_has_none(wire: Wire, name: str) -> None:
    answer = open_session(wire, name, 12)
    session = answer["session_id"]
    assert answer["responses"][0]["partitions"][0]["error_code"] == UNKNOWN_TOPIC_OR_PARTITION

    (topic,) = incremental(wire, 12, session, 1)["responses"]
    assert topic["partitions"][0]["error_code"] == UNKNOWN_TOPIC_OR_PARTITION
    create_topic(wire, name)
    (topic,) = incremental(wire, 12, session, 2)["responses"]

    assert topic["partitions"][0]["error_code"] == NONE
    assert incremental(wire, 12, session, 3)["responses"] == []


def test_partition_that_returned_data_is_read_last_next_time(wire: Wire, name: str) -> None:
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
