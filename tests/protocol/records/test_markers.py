"""Tests of the encoder of transaction markers, which fills in a template. The result has the same
bytes as a batch that is encoded with the marker as its record."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from protocol.records.batch import (
    ABORT,
    COMMIT,
    CREATE_TIME,
    LOG_APPEND_TIME,
    encode_batch,
    read_header,
    validate_batch,
)
from protocol.records.markers import MARKER_BYTES, encode_end_transaction, transaction_end
from protocol.records.section import Record

INT64 = st.integers(0, (1 << 63) - 1)
INT32 = st.integers(0, (1 << 31) - 1)


@given(
    st.sampled_from((ABORT, COMMIT)),
    INT64,
    INT64,
    INT64,
    st.integers(0, 32767),
    INT32,
    INT32,
    st.sampled_from((CREATE_TIME, LOG_APPEND_TIME)),
)
def test_encoded_marker_equals_a_batch_that_contains_the_marker_record(
    outcome: int,
    offset: int,
    timestamp: int,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    leader_epoch: int,
    timestamp_type: int,
) -> None:
    marker = encode_end_transaction(
        outcome,
        base_offset=offset,
        timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        leader_epoch=leader_epoch,
        timestamp_type=timestamp_type,
    )
    key, value = struct.pack(">hh", 0, outcome), struct.pack(">hi", 0, coordinator_epoch)
    assert marker == encode_batch(
        [Record(offset, timestamp, key, value)],
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        timestamp_type=timestamp_type,
        is_transactional=True,
        is_control=True,
    )
    assert len(marker) == MARKER_BYTES
    header = read_header(marker)
    validate_batch(marker, header)
    assert transaction_end(marker, header) == (outcome == COMMIT, coordinator_epoch)
