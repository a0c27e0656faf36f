"""Tests that the Fetch messages between brokers equal those of the reference codec in every
version."""

from __future__ import annotations

from typing import Any

import pytest

from broker.cluster.peers.fitting import fitting
from broker.cluster.replicas.fetch_messages import (
    FLEXIBLE,
    NEWEST,
    OLDEST,
    WITH_IDS,
    WITH_SESSIONS,
    Answered,
    Asked,
    FetchHead,
    TopicKey,
    decode_fetch,
    encode_fetch,
)
from protocol.errors import ProtocolError
from protocol.messages.fetch import API

VERSIONS = range(OLDEST, NEWEST + 1)
HEAD = FetchHead(7, 77, 500, 1, 10_000, 5, 6)
ID = bytes(range(16))


def _key(version: int, name: str, topic_id: bytes) -> TopicKey:
    return topic_id if version >= WITH_IDS else name


@pytest.mark.parametrize("version", VERSIONS)
def test_fetch_requests_of_a_follower_are_encoded_as_by_the_reference_codec(version: int) -> None:
    first, second = _key(version, "t", ID), _key(version, "ü" * 200, b"2" * 16)
    asked = {
        first: [Asked(0, 3, 10, 2, 1, 1000), Asked(4, 3, 1 << 40, 2, 1, 1000)],
        second: [Asked(1, 0, 0, -1, 0, 2000)],
    }
    forgotten = {first: [8, 9]} if version >= WITH_SESSIONS else {}
    value = API.decode_request(version, encode_fetch(version, HEAD, asked, forgotten))
    expected: dict[str, Any] = {
        "replica_id": 7,
        "replica_state": {"replica_id": 7, "replica_epoch": 77},
        "max_wait_ms": 500,
        "min_bytes": 1,
        "max_bytes": 10_000,
        "isolation_level": 0,
        "session_id": 5,
        "session_epoch": 6,
        "rack_id": "",
        "topics": [
            {
                "topic": topic,
                "topic_id": topic,
                "partitions": [
                    {
                        "partition": each.partition,
                        "current_leader_epoch": each.leader_epoch,
                        "fetch_offset": each.offset,
                        "last_fetched_epoch": each.last_epoch,
                        "log_start_offset": each.log_start_offset,
                        "partition_max_bytes": each.max_bytes,
                    }
                    for each in partitions
                ],
            }
            for topic, partitions in asked.items()
        ],
        "forgotten_topics_data": [
            {"topic": topic, "topic_id": topic, "partitions": found}
            for topic, found in forgotten.items()
        ],
    }
    encoded = API.encode_request(version, fitting(API.request, version, expected))
    assert API.decode_request(version, encoded) == value
    assert encode_fetch(version, HEAD, asked, forgotten) == encoded


def _answer(version: int, diverging: tuple[int, int] | None) -> bytes:
    value: dict[str, Any] = {
        "throttle_time_ms": 9,
        "error_code": 70,
        "session_id": 12,
        "responses": [
            {
                "topic": "t",
                "topic_id": ID,
                "partitions": [
                    {
                        "partition_index": index,
                        "error_code": index,
                        "high_watermark": 100 + index,
                        "last_stable_offset": 90,
                        "log_start_offset": 5,
                        "aborted_transactions": aborted,
                        "preferred_read_replica": -1,
                        "records": records,
                        "diverging_epoch": {"epoch": diverging[0], "end_offset": diverging[1]}
                        if diverging and index
                        else {"epoch": -1, "end_offset": -1},
                        "current_leader": {"leader_id": 3, "leader_epoch": 9},
                        "snapshot_id": {"end_offset": -1, "epoch": -1},
                    }
                    for index, aborted, records in (
                        (0, None, b"records"),
                        (1, [{"producer_id": 1, "first_offset": 2}], None),
                        (2, [], b""),
                    )
                ],
            }
        ],
    }
    return API.encode_response(version, fitting(API.response, version, value))


@pytest.mark.parametrize("version", VERSIONS)
def test_fetch_responses_are_decoded_in_every_version(version: int) -> None:
    frame = b"head" + _answer(version, (3, 44))
    answer = decode_fetch(version, frame, 4)
    assert (answer.error_code, answer.session_id) == (
        (70, 12) if version >= WITH_SESSIONS else (0, 0)
    )
    start = 5 if version >= 5 else -1
    parted = (3, 44) if version >= FLEXIBLE else None
    key = _key(version, "t", ID)
    assert answer.partitions == [
        (key, Answered(0, 0, 100, start, None, memoryview(b"records"))),
        (key, Answered(1, 1, 101, start, parted, memoryview(b""))),
        (key, Answered(2, 2, 102, start, parted, memoryview(b""))),
    ]
    assert answer.partitions[0][1].records.obj is frame  # The records are not copied.


@pytest.mark.parametrize("version", VERSIONS)
def test_fetch_response_with_missing_or_excess_bytes_is_an_error(version: int) -> None:
    whole = _answer(version, (3, 44))
    for length in range(len(whole)):
        with pytest.raises(ProtocolError):
            decode_fetch(version, whole[:length], 0)
    with pytest.raises(ProtocolError, match="1 bytes after"):
        decode_fetch(version, whole + b"\0", 0)
