"""Tests of the codec of ``__share_group_state`` records. This codec writes the same bytes as the
codec that interprets Kafka's schemas."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import log_records
from protocol.records.batch import assemble_batch, read_header, records_of
from protocol.records.section import Record
from share.persister import record_codec
from share.persister.combining import combine
from share.persister.record_codec import (
    SNAPSHOT,
    UPDATE,
    CorruptShareRecord,
    decode_value,
    encode_key,
    encode_value,
    run_bytes_at_most,
    run_records,
    runs_in_pieces,
    runs_of_records,
)
from share.persister.values import ShareStateRun, SnapshotValue, UpdateValue, coordinator_key
from share.values import SharePartitionKey, StateBatch

GOLDEN = Path(__file__).parents[2] / "data" / "golden" / "records.jsonl"
INT16 = st.integers(-(1 << 15), (1 << 15) - 1)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
KEYS = st.builds(
    SharePartitionKey, st.text(max_size=30), st.binary(min_size=16, max_size=16), INT32
)


@st.composite
def batches(draw: st.DrawFn) -> tuple[StateBatch, ...]:
    drawn = draw(
        st.lists(
            st.tuples(st.integers(0, 1 << 40), st.integers(0, 9), st.integers(-128, 127), INT16),
            max_size=5,
        )
    )
    found = [StateBatch(first, first + more, state, count) for first, more, state, count in drawn]
    return combine((), found, -1)


SNAPSHOTS = st.builds(SnapshotValue, INT32, INT32, INT32, INT64, INT64, INT64, batches(), INT32)
UPDATES = st.builds(UpdateValue, INT32, INT32, INT64, batches(), INT32)
VALUES = st.one_of(SNAPSHOTS, UPDATES)


def type_of(value: SnapshotValue | UpdateValue) -> int:
    return SNAPSHOT if isinstance(value, SnapshotValue) else UPDATE


def by_schema(value: SnapshotValue | UpdateValue) -> bytes:
    """Encodes a value with the schema codec."""
    fields: dict[str, Any] = value._asdict()
    fields["state_batches"] = [batch._asdict() for batch in fields.pop("batches")]
    if isinstance(value, SnapshotValue):
        fields["create_timestamp"] = fields.pop("create_ms")
        fields["write_timestamp"] = fields.pop("write_ms")
        return b"\0\0" + log_records.encode("ShareSnapshotValue", 0, fields)
    return b"\0\0" + log_records.encode("ShareUpdateValue", 0, fields)


@given(VALUES)
def test_share_state_is_encoded_as_by_the_schema_codec_and_decoded_unchanged(
    value: SnapshotValue | UpdateValue,
) -> None:
    data = encode_value(value)
    assert data == by_schema(value)
    assert decode_value(type_of(value), data) == value


@settings(max_examples=40)
@given(KEYS, st.none() | VALUES, st.sampled_from([0, 1, 63, 64, 130]))
def test_batch_of_share_state_records_is_decoded_to_its_run(
    key: SharePartitionKey, value: SnapshotValue | UpdateValue | None, before: int
) -> None:
    run = ShareStateRun(key, value)
    filler = ShareStateRun(key, None)
    sections = [run_records(filler, delta) for delta in range(before)] + [run_records(run, before)]
    batch = assemble_batch(b"".join(sections), before + 1, 40, 1, 1)
    runs = list(runs_of_records(records_of(batch, read_header(batch)), Counter()))
    assert runs[-1] == (40 + before, run)
    count = 0 if value is None else len(value.batches)
    assert len(sections[-1]) <= run_bytes_at_most(key, count)


@given(VALUES, st.data())
def test_damaged_share_state_value_is_decoded_or_raises_a_record_error(
    value: SnapshotValue | UpdateValue, data: st.DataObject
) -> None:
    encoded = bytearray(encode_value(value) or b"")
    cut = data.draw(st.integers(0, len(encoded)))
    if data.draw(st.booleans()):
        del encoded[cut:]
    elif cut < len(encoded):
        encoded[cut] ^= data.draw(st.integers(1, 255))
    key = encode_key(ShareStateRun(SharePartitionKey("g", b"t" * 16, 0), value))
    with suppress(CorruptShareRecord):
        list(runs_of_records([Record(7, 0, key, bytes(encoded))], Counter()))


def test_share_state_values_of_kafka_are_decoded_as_by_the_schema_codec() -> None:
    lines = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
    golden = [
        line for line in lines if line["record"] in ("ShareSnapshotValue", "ShareUpdateValue")
    ]
    assert len(golden) == 6
    for line in golden:
        record_type = SNAPSHOT if line["record"] == "ShareSnapshotValue" else UPDATE
        data = b"\0\0" + bytes.fromhex(line["hex"])
        pairs = [
            (each["firstOffset"], each["lastOffset"]) for each in line["value"]["stateBatches"]
        ]
        if any(last < first for first, last in pairs):
            with pytest.raises(Exception, match="is empty"):
                decode_value(record_type, data)
            continue
        value = decode_value(record_type, data)
        assert value.delivery_complete_count == line["value"]["deliveryCompleteCount"]
        if pairs == sorted(pairs):
            assert encode_value(value) == data


def test_overlapping_state_batches_of_a_record_are_combined() -> None:
    data = by_schema(UpdateValue(1, 2, 3, (StateBatch(5, 9, 0, 1), StateBatch(0, 6, 2, 1)), 4))
    value = decode_value(UPDATE, data)
    assert value.batches == (StateBatch(0, 6, 2, 1), StateBatch(7, 9, 0, 1))


def test_value_with_unknown_tagged_fields_is_decoded() -> None:
    value = SnapshotValue(1, 2, 3, 4, 5, 6, (StateBatch(0, 6, 2, 1),), 7)
    data = encode_value(value)
    assert data is not None
    assert data[-7:] == b"\1\0\4\0\0\0\7"
    assert decode_value(SNAPSHOT, data[:-7] + b"\2\0\4\0\0\0\7\5\1x") == value


KEY = b"\0\0\0\1g" + b"t" * 16 + b"\0\0\0\0"


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        (None, b"", "the key is missing"),
        (b"\0", b"", "the key is missing, or too short"),
        (KEY[:-1], b"", "can't have a group id of 1 bytes"),
        (b"\0\0\0\1", b"", "can't have a group id of 1 bytes"),
        (b"\0\0\0\1\xff" + KEY[5:], None, "utf-8"),
        (KEY, b"\0", "too short to contain a version"),
        (KEY, b"\0\1" + b"\0" * 50, "has version 1, expected 0"),
        (KEY, b"\0\0" + b"\0" * 20, "ShareSnapshotValue"),
        (b"\0\1" + KEY[2:], b"\0\0" + b"\0" * 10, "ShareUpdateValue"),
        (b"\0\1" + KEY[2:], None, "a ShareUpdate must not be a tombstone"),
    ],
)
def test_unreadable_record_raises_an_error_with_its_offset(
    key: bytes | None, value: bytes | None, error: str
) -> None:
    with pytest.raises(CorruptShareRecord, match=error) as raised:
        list(runs_of_records([Record(7, 0, key, value)], Counter()))
    assert raised.value.log_offset == 7


def test_records_of_unknown_types_are_skipped_and_counted() -> None:
    skipped: Counter[int] = Counter()
    records = [
        Record(0, 0, b"\0\2future", b"x"),
        Record(1, 0, KEY, None),
        Record(2, 0, b"\0\2", b""),
    ]
    ((offset, run),) = runs_of_records(records, skipped)
    assert (offset, run.value) == (1, None)
    assert skipped == {2: 2}


def test_coordinator_key_of_a_share_partition_has_kafkas_form() -> None:
    key = SharePartitionKey("grüße", bytes(range(250, 256)) * 2 + bytes(4), 12)
    assert coordinator_key(key) == "grüße:-vv8_f7_-vv8_f7_AAAAAA:12"


def large_record(batches: int, **changed: StateBatch) -> Record:
    """Returns the record of a snapshot with this number of batches. ``changed`` replaces batches,
    by names such as b7."""
    found = [StateBatch(3 * n, 3 * n, 2, 1) for n in range(batches)]
    for name, batch in changed.items():
        found[int(name[1:])] = batch
    run = ShareStateRun(
        SharePartitionKey("g", bytes(16), 0), SnapshotValue(0, 0, 0, 0, 1, 1, tuple(found), 5)
    )
    return Record(7, 0, encode_key(run), encode_value(run.value))


@pytest.mark.parametrize("batches", range(8))
def test_share_state_value_decoded_in_slices_equals_the_value_decoded_at_once(
    batches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = large_record(batches)
    [(_, whole)] = runs_in_pieces([record], Counter())
    monkeypatch.setattr(record_codec, "_BATCHES_PER_PIECE", 2)
    *pauses, last = runs_in_pieces([record], Counter())
    assert last == (7, whole)
    pieces = max(1, (batches + 1) // 2)
    assert pauses == [(7, None)] * (2 * (pieces - 1))
    assert list(runs_of_records([record], Counter())) == [last]


@pytest.mark.parametrize("at", range(1, 6))
def test_overlapping_share_state_batches_are_combined_and_empty_batches_are_refused(
    at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_codec, "_BATCHES_PER_PIECE", 2)
    overlapping = large_record(6, **{f"b{at}": StateBatch(3 * at - 3, 3 * at, 4, 1)})
    [(_, run)] = runs_of_records([overlapping], Counter())
    assert isinstance(run.value, SnapshotValue)
    assert len(run.value.batches) == 5
    empty = large_record(6, **{f"b{at}": StateBatch(3 * at, 3 * at - 1, 4, 1)})
    with pytest.raises(CorruptShareRecord, match=f"the batch {3 * at} to {3 * at - 1} is empty"):
        list(runs_in_pieces([empty], Counter()))


def test_largest_share_state_record_is_decoded_in_several_slices() -> None:
    record = large_record(45_000)
    *pauses, (_, run) = runs_in_pieces([record], Counter())
    assert run is not None
    assert len(pauses) == 16
