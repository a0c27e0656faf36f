from __future__ import annotations

import struct

import pytest

from broker.apis.tables.cluster import SERVED_IN_CLUSTER
from broker.apis.throttling.throttle_field import has_field, size_of, with_throttle
from protocol.headers import response_header
from protocol.messages import BY_NAME

VERSIONS = [
    (row.api.name, version)
    for row in SERVED_IN_CLUSTER.values()
    for version in range(row.min_version, row.max_version + 1)
]


def framed(name: str, version: int, **value: object) -> bytes:
    api = BY_NAME[name]
    head = response_header(api.key, version, 77)
    body = api.encode_response(version, value)
    return struct.pack(">i", len(head) + len(body)) + head + body


def test_response_with_inserted_throttle_time_equals_response_encoded_with_throttle_time() -> None:
    for name, version in VERSIONS:
        key = BY_NAME[name].key
        told = with_throttle(framed(name, version), key, version, 1234)
        more = {"throttle_time_ms": 1234} if has_field(key, version) else {}
        assert told == framed(name, version, **more), f"{name} v{version}"


def test_throttle_time_of_produce_is_inserted_before_node_endpoints() -> None:
    failed = {"index": 0, "error_code": 6, "base_offset": -1, "log_append_time_ms": -1}
    node = {"node_id": 3, "host": "h", "port": 9092, "rack": None}
    for version in range(1, 13):
        for fields in ({}, {"node_endpoints": [node]} if version >= 10 else {}):
            value = {"responses": [{"name": "t", "partition_responses": [failed]}], **fields}
            told = with_throttle(framed("Produce", version, **value), 0, version, 9)
            assert told == framed("Produce", version, **value, throttle_time_ms=9)


def test_throttle_time_is_inserted_into_a_response_of_several_buffers() -> None:
    whole = framed("Fetch", 12, error_code=0, session_id=5)
    parts = [whole[:4], bytearray(whole[4:20]), whole[20:]]
    told = with_throttle(parts, 1, 12, 70_000)
    assert b"".join(bytes(part) for part in told) == framed(
        "Fetch", 12, error_code=0, session_id=5, throttle_time_ms=70_000
    )
    assert size_of(parts) == len(whole)


@pytest.mark.parametrize("version", [0, 9])
def test_throttle_time_is_not_added_to_an_empty_response(version: int) -> None:
    assert with_throttle((), 0, version, 5) == ()
