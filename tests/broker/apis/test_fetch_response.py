"""Tests that the generated encoder of Fetch responses writes the same bytes as the reference codec,
in every version."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.apis.fetch.response import Fetched
from protocol.generated.fetch import ENCODE_RESPONSE
from protocol.headers import response_header
from protocol.messages.fetch import API
from tests.tiers import sampled

INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
RECORDS = st.binary(max_size=200)
ABORTED = st.none() | st.lists(st.tuples(INT64, INT64), max_size=3)
PARTITIONS = st.lists(
    st.builds(
        lambda partition, error, offsets, aborted, data, diverging: Fetched(
            partition, error, *offsets, aborted, [data], len(data), diverging
        ),
        INT32,
        st.integers(-1, 100),
        st.tuples(INT64, INT64, INT64),
        ABORTED,
        RECORDS,
        st.none() | st.tuples(INT32.filter(lambda n: n != -1), INT64),
    ),
    max_size=4,
)
TOPICS = st.lists(
    st.tuples(st.text(max_size=40), st.binary(min_size=16, max_size=16), PARTITIONS), max_size=3
)


def reference(
    version: int, correlation_id: int, error_code: int, session_id: int, topics: Any
) -> bytes:
    value = {
        "error_code": error_code if version >= 7 else 0,
        "session_id": session_id if version >= 7 else 0,
        "responses": [
            {
                "topic": name,
                "topic_id": topic_id,
                "partitions": [as_dict(version, fetched) for fetched in partitions],
            }
            for name, topic_id, partitions in topics
        ],
    }
    body = response_header(API.key, version, correlation_id) + API.encode_response(version, value)
    return struct.pack(">i", len(body)) + body


def as_dict(version: int, fetched: Fetched) -> dict[str, Any]:
    aborted = fetched.aborted_transactions
    value: dict[str, Any] = {
        "partition_index": fetched.partition,
        "error_code": fetched.error_code,
        "high_watermark": fetched.high_watermark,
        "last_stable_offset": fetched.last_stable_offset,
        "log_start_offset": fetched.log_start_offset,
        "aborted_transactions": None
        if aborted is None
        else [{"producer_id": p, "first_offset": o} for p, o in aborted],
        "records": b"".join(bytes(chunk) for chunk in fetched.records),  # type: ignore[arg-type]
    }
    if fetched.diverging is not None and version >= 12:
        epoch, end_offset = fetched.diverging
        value["diverging_epoch"] = {"epoch": epoch, "end_offset": end_offset}
    return value


@pytest.mark.parametrize("version", sampled(range(19), (4, 11, 17)))
@given(correlation_id=INT32, error_code=st.integers(0, 100), session_id=INT32, topics=TOPICS)
def test_fetch_response_equals_the_bytes_of_the_reference_codec(
    version: int, correlation_id: int, error_code: int, session_id: int, topics: Any
) -> None:
    named = [
        (topic_id if version >= 13 else name, partitions) for name, topic_id, partitions in topics
    ]

    frame = ENCODE_RESPONSE[version](correlation_id, 0, error_code, session_id, named)

    joined = b"".join(bytes(chunk) for chunk in frame)  # type: ignore[arg-type]
    assert joined == reference(version, correlation_id, error_code, session_id, topics)
