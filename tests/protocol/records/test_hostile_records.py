"""Tests of record readers with mutated data. Each reader returns a result or raises
CorruptRecords."""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.records import message_set
from protocol.records.batch import (
    encode_batch,
    iter_batches,
    read_header,
    records_of,
    validate_batch,
)
from protocol.records.convert import down_convert, to_magic2
from protocol.records.corrupt import CorruptRecords
from protocol.records.crc import crc32c
from protocol.records.produce import analyse
from protocol.records.produce_rules import ProduceRules
from protocol.records.section import Record
from protocol.records.stored import iter_stored, stored_records, validate_stored

NOON = 1_700_000_000_000
RECORDS = [
    Record(i, NOON + i, b"key" if i % 2 else None, b"value" * i, [("h", b"x")] * (i % 3))
    for i in range(6)
]
BATCHES = [encode_batch(RECORDS, compression=codec) for codec in range(5)]
SETS = [message_set.encode(RECORDS, magic, codec) for magic in (0, 1) for codec in range(4)]
RULES = ProduceRules(
    compacted=True,
    timestamp_before_max_ms=1000,
    timestamp_after_max_ms=1000,
    decompressed_bytes_max=10_000,
)
LIMIT = 10_000

edits = st.lists(
    st.tuples(st.integers(0, 10_000), st.sampled_from("=+-~"), st.binary(min_size=1, max_size=9)),
    min_size=1,
    max_size=4,
)


def edit(data: bytes, changes: list[tuple[int, str, bytes]]) -> bytearray:
    raw = bytearray(data)
    for place, kind, content in changes:
        position = place % (len(raw) + 1)
        if kind == "=":
            raw[position : position + len(content)] = content
        elif kind == "+":
            raw[position:position] = content
        elif kind == "-":
            del raw[position : position + len(content)]
        else:
            raw = raw[:position] + raw[position // 2 :]
    return raw


def repair_batch(raw: bytearray) -> None:
    """Corrects the length and the CRC of a mutated batch, so that the readers parse the fields
    after the CRC."""
    if len(raw) >= 61:
        struct.pack_into(">i", raw, 8, len(raw) - 12)
        raw[16] = 2
        struct.pack_into(">I", raw, 17, crc32c(raw[21:]))


def repair_message(raw: bytearray) -> None:
    if len(raw) >= 26:
        struct.pack_into(">i", raw, 8, len(raw) - 12)
        struct.pack_into(">I", raw, 12, zlib.crc32(raw[16:]))


def try_everything(data: bytes) -> None:
    """Calls every reader of record data. Any exception other than CorruptRecords fails the test."""
    for version in (2, 9):
        for rules in (ProduceRules(decompressed_bytes_max=LIMIT), RULES):
            try:
                produced = analyse(data, version, NOON, rules)
            except CorruptRecords:
                continue
            for header in produced.batches:
                validate_batch(produced.data, header, deep=True, limit=LIMIT)
                offsets = [r.offset for r in records_of(produced.data, header, LIMIT)]
                assert offsets == list(range(header.record_count)), "accepted, so it can be read"
    for magic in (0, 1):
        with suppress(CorruptRecords):
            down_convert(data, magic, limit=LIMIT)
        with suppress(CorruptRecords):
            rules = ProduceRules(decompressed_bytes_max=LIMIT, magic=magic)
            produced = analyse(data, 2, NOON, rules)
            stored = message_set.read_set(message_set.placed(produced.data, 7), LIMIT)
            assert stored.magic == (magic if produced.data else 0)
            offsets = [record.offset for record in stored.records]
            assert offsets == list(range(7, 7 + len(offsets))), "accepted, so it can be read"
    with suppress(CorruptRecords):
        for header, _ in iter_batches(data):
            records_of(data, header, LIMIT)
    for partial in (False, True):
        with suppress(CorruptRecords):
            for header, _ in iter_stored(data, partial):
                validate_stored(data, header)
                stored_records(data, header, LIMIT)
        with suppress(CorruptRecords):
            message_set.decode(data, LIMIT, partial=partial)
    with suppress(CorruptRecords):
        to_magic2(data, NOON, limit=LIMIT)


@given(base=st.sampled_from(BATCHES), changes=edits, repaired=st.booleans())
@settings(max_examples=400)
def test_mutated_batch_is_decoded_or_raises_corrupt_records(
    base: bytes, changes: list[tuple[int, str, bytes]], repaired: bool
) -> None:
    raw = edit(base, changes)
    if repaired:
        repair_batch(raw)
    try_everything(bytes(raw))


@given(base=st.sampled_from(SETS), changes=edits, repaired=st.booleans())
@settings(max_examples=400)
def test_mutated_message_set_is_decoded_or_raises_corrupt_records(
    base: bytes, changes: list[tuple[int, str, bytes]], repaired: bool
) -> None:
    raw = edit(base, changes)
    if repaired:
        repair_message(raw)
    try_everything(bytes(raw))


@given(st.binary(max_size=200))
def test_random_record_data_is_decoded_or_raises_corrupt_records(data: bytes) -> None:
    try_everything(data)


@given(data=st.data(), base=st.sampled_from(BATCHES + SETS))
def test_truncated_record_data_is_decoded_or_raises_corrupt_records(
    data: st.DataObject, base: bytes
) -> None:
    prefix = base[: data.draw(st.integers(0, len(base) - 1))]
    try_everything(prefix)
    if prefix:
        with pytest.raises(CorruptRecords):
            analyse(prefix, 9, NOON)


@given(section=st.binary(max_size=60), count=st.integers(1, 3))
def test_random_records_after_a_valid_header_raise_no_error_other_than_corrupt_records(
    section: bytes, count: int
) -> None:
    raw = bytearray(BATCHES[0][:61] + section)
    struct.pack_into(">i", raw, 23, count - 1)
    struct.pack_into(">i", raw, 57, count)
    repair_batch(raw)
    try_everything(bytes(raw))


def test_batch_that_claims_two_billion_records_allocates_no_memory() -> None:
    raw = bytearray(BATCHES[0])
    struct.pack_into(">i", raw, 23, 2**31 - 2)
    struct.pack_into(">i", raw, 57, 2**31 - 1)
    repair_batch(raw)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptRecords):
            analyse(bytes(raw), 9, NOON)
        with pytest.raises(CorruptRecords):
            records_of(raw, read_header(raw))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
