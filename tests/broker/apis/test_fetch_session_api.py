"""Incremental fetch sessions over the wire (KIP-227): only what is new is said, either way."""

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


def opened(wire: Wire, name: str, version: int, partitions: int = 1) -> dict[str, Any]:
    """A full fetch that asks for a session; the whole answer."""
    request = fetch_request(name, session_epoch=0)
    entry = request["topics"][0]["partitions"][0]
    request["topics"][0]["partitions"] = [{**entry, "partition": p} for p in range(partitions)]
    return wire.call("Fetch", version, request)


def again(
    wire: Wire, version: int, session_id: int, epoch: int, topics: Any = (), forgotten: Any = ()
) -> dict[str, Any]:
    """An incremental fetch."""
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
def test_only_partitions_with_news_are_told_of(wire: Wire, name: str, version: int) -> None:
    create_topic(wire, name, 3)
    first = opened(wire, name, version, 3)
    assert len(first["responses"][0]["partitions"]) == 3
    session = first["session_id"]

    assert again(wire, version, session, 1)["responses"] == []
    produce(wire, name, batch(b"news"), partition=1)
    (topic,) = again(wire, version, session, 2)["responses"]

    (partition,) = topic["partitions"]
    assert (partition["partition_index"], values_of(partition["records"])) == (1, [b"news"])


def test_a_new_offset_is_all_that_a_client_says(wire: Wire, name: str) -> None:
    create_topic(wire, name, 2)
    produce(wire, name, batch(b"a"))
    session = opened(wire, name, 12, 2)["session_id"]
    moved = fetch_request(name, 1)["topics"]

    assert again(wire, 12, session, 1, moved)["responses"] == []
    produce(wire, name, batch(b"b"))
    (topic,) = again(wire, 12, session, 2)["responses"]

    assert values_of(topic["partitions"][0]["records"]) == [b"b"]


def test_a_forgotten_partition_is_told_of_no_more(wire: Wire, name: str) -> None:
    create_topic(wire, name, 2)
    session = opened(wire, name, 12, 2)["session_id"]

    again(wire, 12, session, 1, (), [{"topic": name, "partitions": [0]}])
    produce(wire, name, batch(b"unseen"), partition=0)
    produce(wire, name, batch(b"seen"), partition=1)
    (topic,) = again(wire, 12, session, 2)["responses"]

    assert [p["partition_index"] for p in topic["partitions"]] == [1]


def test_a_session_without_partitions_is_over(wire: Wire, name: str) -> None:
    create_topic(wire, name)
    session = opened(wire, name, 12)["session_id"]

    last = again(wire, 12, session, 1, (), [{"topic": name, "partitions": [0]}])

    assert (last["error_code"], last["session_id"]) == (NONE, 0)
    assert again(wire, 12, session, 2)["error_code"] == FETCH_SESSION_ID_NOT_FOUND


def test_a_wrong_epoch_is_refused_and_the_session_lives(wire: Wire, name: str) -> None:
    create_topic(wire, name)
    session = opened(wire, name, 12)["session_id"]

    assert again(wire, 12, session, 5)["error_code"] == INVALID_FETCH_SESSION_EPOCH
    assert again(wire, 12, session, 1)["error_code"] == NONE


def test_an_unknown_session_is_told(wire: Wire) -> None:
    answer = again(wire, 12, 424242, 1)

    assert (answer["error_code"], answer["responses"]) == (FETCH_SESSION_ID_NOT_FOUND, [])


def test_names_and_ids_do_not_mix_in_one_session(wire: Wire, name: str) -> None:
    create_topic(wire, name)
    session = opened(wire, name, 12)["session_id"]

    assert again(wire, 13, session, 1)["error_code"] == FETCH_SESSION_TOPIC_ID_ERROR


def test_epoch_minus_one_ends_a_session(wire: Wire, name: str) -> None:
    create_topic(wire, name)
    session = opened(wire, name, 12)["session_id"]

    answer = wire.call("Fetch", 12, fetch_request(name, session_id=session, session_epoch=-1))

    assert (answer["session_id"], len(answer["responses"])) == (0, 1)
    assert again(wire, 12, session, 1)["error_code"] == FETCH_SESSION_ID_NOT_FOUND


def test_an_error_is_told_until_it_is_gone_and_then_the_partition_is_told(
    wire: Wire, name: str
) -> None:
    answer = opened(wire, name, 12)
    session = answer["session_id"]
    assert answer["responses"][0]["partitions"][0]["error_code"] == UNKNOWN_TOPIC_OR_PARTITION

    (topic,) = again(wire, 12, session, 1)["responses"]
    assert topic["partitions"][0]["error_code"] == UNKNOWN_TOPIC_OR_PARTITION
    create_topic(wire, name)
    (topic,) = again(wire, 12, session, 2)["responses"]

    assert topic["partitions"][0]["error_code"] == NONE
    assert again(wire, 12, session, 3)["responses"] == []


def test_a_partition_that_gave_data_is_read_last_the_next_time(wire: Wire, name: str) -> None:
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
