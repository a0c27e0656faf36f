"""The Produce answer packed at once equals the reference codec's, in every version."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.apis.produce.response import Appended, as_dict, produce_frame
from protocol.headers import response_header
from protocol.messages.produce import API

INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
PARTITIONS = st.lists(st.builds(Appended, INT32, st.just(0), INT64, INT64, INT64), max_size=4)
TOPICS = st.lists(
    st.tuples(st.text(max_size=40), st.binary(min_size=16, max_size=16), PARTITIONS), max_size=3
)


def reference(version: int, correlation_id: int, topics: Any) -> bytes:
    value = {
        "responses": [
            {
                "name": name,
                "topic_id": topic_id,
                "partition_responses": [as_dict(partition) for partition in partitions],
            }
            for name, topic_id, partitions in topics
        ]
    }
    body = response_header(API.key, version, correlation_id) + API.encode_response(version, value)
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize("version", API.versions)
@given(correlation_id=INT32, topics=TOPICS)
def test_equals_the_reference_codec(version: int, correlation_id: int, topics: Any) -> None:
    named = [(by_id if version >= 13 else name, found) for name, by_id, found in topics]
    assert produce_frame(version, correlation_id, named) == reference(
        version, correlation_id, topics
    )
