"""Tests of the codec of ``__transaction_state`` records. This codec writes the same bytes as the
codec that interprets Kafka's schemas."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol import log_records
from protocol.records.batch import BatchHeader, assemble_batch, read_header, records_of
from protocol.records.section import Record
from transactions.record_codec import (
    CorruptTransactionRecord,
    decode_value,
    encode_key,
    encode_value,
    run_bytes_at_most,
    run_records,
    runs_of_records,
)
from transactions.states import State
from transactions.values import TransactionRun, TransactionValue

GOLDEN = Path(__file__).parent.parent / "data" / "golden" / "records.jsonl"
INT16 = st.integers(-(1 << 15), (1 << 15) - 1)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
STATES = [state for state in State if state is not State.DEAD]


@st.composite
def values(draw: st.DrawFn) -> TransactionValue:
    state = draw(st.sampled_from(STATES))
    topics = st.tuples(st.text(max_size=20), st.lists(INT32, max_size=5).map(tuple))
    partitions = () if state is State.EMPTY else tuple(draw(st.lists(topics, max_size=4)))
    return TransactionValue(
        draw(INT64),
        draw(INT16),
        draw(INT32),
        state,
        partitions,
        draw(INT64),
        draw(INT64),
        draw(INT64),
        draw(INT64),
        draw(INT16),
        draw(INT16),
    )


def fields_of(value: TransactionValue, version: int) -> dict[str, Any]:
    """Returns the fields of a value as the schema codec expects them."""
    fields = {
        "producer_id": value.producer_id,
        "producer_epoch": value.producer_epoch,
        "transaction_timeout_ms": value.timeout_ms,
        "transaction_status": value.state.number,
        "transaction_partitions": None
        if value.state is State.EMPTY
        else [{"topic": topic, "partition_ids": list(ids)} for topic, ids in value.partitions],
        "transaction_last_update_timestamp_ms": value.last_update_ms,
        "transaction_start_timestamp_ms": value.start_ms,
    }
    if version:
        fields |= {
            "previous_producer_id": value.previous_producer_id,
            "next_producer_id": value.next_producer_id,
            "client_transaction_version": value.client_rules,
            "next_producer_epoch": value.next_producer_epoch,
        }
    return fields


@given(values(), st.sampled_from([0, 1]))
def test_transaction_value_is_encoded_as_by_the_schema_codec_and_can_be_decoded(
    value: TransactionValue, version: int
) -> None:
    data = encode_value(value, version)
    reference = log_records.encode("TransactionLogValue", version, fields_of(value, version))
    assert data == version.to_bytes(2, "big") + reference
    kept = (
        value
        if version
        else value._replace(
            previous_producer_id=-1, next_producer_id=-1, client_rules=0, next_producer_epoch=-1
        )
    )
    assert decode_value(data) == (kept, version)


@given(st.text(max_size=50), st.none() | values(), st.integers(0, 200))
def test_transaction_record_is_unchanged_after_encoding_and_decoding_of_its_batch(
    name: str, value: TransactionValue | None, before: int
) -> None:
    run = TransactionRun(name, value)
    filler = TransactionRun("filler", None)
    sections = [run_records(filler, delta) for delta in range(before)] + [run_records(run, before)]
    batch = assemble_batch(b"".join(sections), before + 1, 40, 1, 1)
    header: BatchHeader = read_header(batch)
    runs = list(runs_of_records(records_of(batch, header), Counter()))
    assert runs[-1] == (40 + before, run)
    if value is not None:
        assert len(sections[-1]) <= run_bytes_at_most(name, value.partitions)


@given(values(), st.data())
def test_damaged_transaction_value_is_decoded_or_raises_a_record_error(
    value: TransactionValue, data: st.DataObject
) -> None:
    encoded = bytearray(encode_value(value, 1))
    cut = data.draw(st.integers(0, len(encoded)))
    if data.draw(st.booleans()):
        del encoded[cut:]
    elif cut < len(encoded):
        encoded[cut] ^= data.draw(st.integers(1, 255))
    with suppress(CorruptTransactionRecord):
        list(runs_of_records([Record(7, 0, encode_key("x"), bytes(encoded))], Counter()))


def test_transaction_values_of_kafkas_serializer_are_read_and_written() -> None:
    lines = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
    golden = [line for line in lines if line["record"] == "TransactionLogValue"]
    assert {line["version"] for line in golden} == {0, 1}
    for line in golden:
        data = line["version"].to_bytes(2, "big") + bytes.fromhex(line["hex"])
        status = line["value"]["transactionStatus"]
        if not 0 <= status <= 5:
            with pytest.raises(Exception, match="status"):
                decode_value(data)
            continue
        value, version = decode_value(data)
        assert encode_value(value, version) == data


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        (None, b"", "the key is missing"),
        (b"\0", b"", "the key is missing, or too short"),
        (b"\0\0\0\x05abc", b"", "claims an id of 5"),
        (b"\0\0\0\x01\xff", None, "utf-8"),
        (b"\0\0\0\x01a", b"\0", "too short to contain a version"),
        (b"\0\0\0\x01a", b"\0\x02abc", "has version 2, expected 0 or 1"),
        (b"\0\0\0\x01a", b"\0\0", "truncated"),
    ],
)
def test_unreadable_record_raises_an_error_with_its_offset(
    key: bytes | None, value: bytes | None, error: str
) -> None:
    with pytest.raises(CorruptTransactionRecord, match=error) as caught:
        list(runs_of_records([Record(3, 0, key, value)], Counter()))
    assert caught.value.log_offset == 3


def test_keys_of_unknown_versions_are_skipped_and_counted() -> None:
    skipped: Counter[int] = Counter()
    records = [Record(0, 0, b"\0\x09abc", b"?"), Record(1, 0, encode_key("x"), None)]
    assert list(runs_of_records(records, skipped)) == [(1, TransactionRun("x", None))]
    assert skipped == {9: 1}
