"""Record batches of magic 2: a worked example, encoding and decoding, and the exact errors of
invalid batches."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import CORRUPT_MESSAGE, INVALID_RECORD
from protocol.records import batch
from protocol.records.batch import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    assemble_batch,
    encode_batch,
    iter_batches,
    read_header,
    records_of,
    validate_batch,
)
from protocol.records.corrupt import CorruptRecords
from protocol.records.crc import crc32c
from protocol.records.section import Record, check_section, encode_record_body, encode_section
from protocol.records.stored import iter_stored
from protocol.records.varint import encode_varint

DOCS = Path(__file__).parents[3] / "docs"
NOON = 1_700_000_000_000
TWO = [
    Record(7, NOON, b"key", b"value", [("trace", b"\x01"), ("none", None)]),
    Record(8, NOON + 250, None, None),
]

records_strategy = st.lists(
    st.tuples(
        st.integers(-1, 2**62),
        st.none() | st.binary(max_size=100),
        st.none() | st.binary(max_size=200),
        st.lists(
            st.tuples(
                st.binary(max_size=6).map(lambda raw: raw.decode("utf-8", "surrogateescape")),
                st.none() | st.binary(max_size=6),
            ),
            max_size=3,
        ),
    ),
    min_size=1,
    max_size=200,
)


def with_crc(raw: bytearray) -> bytes:
    """Replaces the CRC of a batch by the correct CRC of its other bytes."""
    struct.pack_into(">I", raw, 17, crc32c(raw[21:]))
    return bytes(raw)


def batch_of_section(section: bytes, count: int, **fields: Any) -> bytes:
    return assemble_batch(section, count, 0, NOON, NOON, **fields)


def test_documented_batch_example_is_decoded_and_encoded() -> None:
    page = (DOCS / "formats" / "record-batches.md").read_text()
    (block,) = re.findall(r"```hex\n(.*?)```", page, re.DOTALL)
    data = bytes.fromhex("".join(line.split("#")[0] for line in block.splitlines()))
    assert data == encode_batch(TWO, leader_epoch=4)
    header = read_header(data)
    validate_batch(data, header, deep=True)
    assert records_of(data, header) == TWO


def test_batch_header_is_decoded_with_all_fields() -> None:
    data = encode_batch(
        TWO,
        compression=2,
        leader_epoch=3,
        producer_id=4242,
        producer_epoch=5,
        base_sequence=2**31 - 1,
        is_transactional=True,
    )
    header = read_header(b"??" + data, 2)
    assert (header.base_offset, header.last_offset, header.record_count) == (7, 8, 2)
    assert (header.base_timestamp, header.max_timestamp) == (NOON, NOON + 250)
    assert (header.compression, header.timestamp_type) == (2, CREATE_TIME)
    assert (header.partition_leader_epoch, header.magic) == (3, 2)
    assert (header.producer_id, header.producer_epoch) == (4242, 5)
    assert (header.base_sequence, header.last_sequence) == (2**31 - 1, 0)
    assert (header.is_transactional, header.is_control) == (True, False)
    assert (header.position, header.end, header.size_bytes) == (2, 2 + len(data), len(data))


@given(
    columns=records_strategy,
    gaps=st.integers(1, 3),
    codec=st.integers(0, 4),
    base=st.integers(0, 2**62),
)
def test_records_of_an_encoded_batch_are_decoded_unchanged(
    columns: list[Any], gaps: int, codec: int, base: int
) -> None:
    records = [Record(base + i * gaps, *row) for i, row in enumerate(columns)]
    data = encode_batch(records, compression=codec)
    header = read_header(data)
    validate_batch(data, header)
    back = records_of(data, header)
    assert [r._replace(headers=list(r.headers)) for r in back] == records
    assert header.max_timestamp == max(record.timestamp for record in records)


@given(records_strategy)
def test_function_check_section_returns_null_keys_and_minimum_and_maximum_timestamps(
    columns: list[Any],
) -> None:
    records = [Record(i, *row) for i, row in enumerate(columns)]
    base_timestamp = records[-1].timestamp
    section, count = encode_section(records, 0, base_timestamp)
    checked = check_section(section, count, base_timestamp, find_null_keys=True)
    assert checked.null_keys == [i for i, record in enumerate(records) if record.key is None]
    assert checked.min_timestamp == min(record.timestamp for record in records)
    assert checked.max_timestamp == max(record.timestamp for record in records)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.sampled_from([-1, 0, 1, 5, 64, 2**31 - 1, -2, None]),
            st.integers(0, 200),
        ),
        max_size=4,
    ),
    st.integers(0, 5),
)
def test_function_check_section_and_decoder_refuse_the_same_record_sections(
    changes: list[tuple[int, int | None, int]], count: int
) -> None:
    """The broker checks each section that it receives in a Produce request. Consumers must be able
    to decode all accepted sections."""
    section = bytearray()
    for index in range(4):
        section += encode_varint(11) + encode_record_body(0, index, b"ke", b"val")
    for _, value, place in changes:
        position = place % len(section)
        section[position : position + 1] = b"" if value is None else encode_varint(value)
    data = batch_of_section(bytes(section), count)
    header = read_header(data) if count else None
    if header is None:
        return
    try:
        validate_batch(data, header, deep=True)
    except CorruptRecords:
        return
    assert [record.offset for record in records_of(data, header)] == list(range(count))


class TestAppendTime:
    def test_every_record_of_a_batch_with_log_append_time_has_the_append_time(self) -> None:
        data = encode_batch(TWO, timestamp_type=LOG_APPEND_TIME, max_timestamp=NOON + 9)
        header = read_header(data)
        assert header.timestamp_type == LOG_APPEND_TIME
        assert {record.timestamp for record in records_of(data, header)} == {NOON + 9}
        stored = records_of(data, header, stored_timestamps=True)
        assert [record.timestamp for record in stored] == [NOON, NOON + 250]

    def test_batch_gets_a_new_crc_when_its_log_append_time_is_patched(self) -> None:
        buffer = bytearray(b"before" + encode_batch(TWO))
        header = read_header(buffer, 6)
        batch.patch_max_timestamp(buffer, header, NOON + 9, LOG_APPEND_TIME)
        assert read_header(buffer, 6) == header
        validate_batch(buffer, header, deep=False)
        assert records_of(buffer, header)[0].timestamp == NOON + 9


class TestPlaceInTheLog:
    def test_patched_base_offset_and_leader_epoch_of_a_batch_need_no_new_crc(self) -> None:
        buffer = bytearray(encode_batch(TWO))
        crc = read_header(buffer).crc
        batch.patch_offset_and_epoch(buffer, 0, 1_000_000, 12)
        header = read_header(buffer)
        validate_batch(buffer, header)
        assert (header.base_offset, header.partition_leader_epoch) == (1_000_000, 12)
        assert header.crc == crc
        assert [record.offset for record in records_of(buffer, header)] == [1_000_000, 1_000_001]

    def test_batch_with_fewer_records_than_offsets_is_encoded_and_decoded(self) -> None:
        data = encode_batch([TWO[1]], base_offset=5, last_offset=11, base_timestamp=NOON)
        header = read_header(data)
        assert (header.base_offset, header.last_offset, header.record_count) == (5, 11, 1)
        assert records_of(data, header) == [TWO[1]]

    def test_batch_without_records_is_decoded(self) -> None:
        data = encode_batch([], base_offset=5, last_offset=11, producer_id=9, base_sequence=3)
        header = read_header(data)
        validate_batch(data, header)
        assert records_of(data, header) == []
        assert header.last_sequence == 9

    def test_delete_horizon_of_a_batch_is_encoded_and_decoded(self) -> None:
        data = encode_batch([TWO[1]], delete_horizon_ms=NOON + 1000)
        header = read_header(data)
        assert header.delete_horizon_ms == NOON + 1000
        assert records_of(data, header) == [TWO[1]]
        assert read_header(encode_batch(TWO)).delete_horizon_ms is None


class TestManyBatches:
    def test_consecutive_batches_are_found_in_order(self) -> None:
        data = encode_batch(TWO) + encode_batch(TWO, base_offset=3)
        assert [(h.base_offset, at) for h, at in iter_batches(data)] == [
            (7, 0),
            (3, len(data) // 2),
        ]

    def test_truncated_last_batch_is_omitted_only_on_request(self) -> None:
        whole = encode_batch(TWO)
        for end in range(len(whole), 2 * len(whole)):
            data = (whole * 2)[:end]
            assert len(list(iter_stored(data, partial=True))) == 1
            if end > len(whole):
                with pytest.raises(CorruptRecords):
                    list(iter_batches(data))


class TestHeaderRefusals:
    @pytest.mark.parametrize(
        ("position", "field", "value", "code"),
        [
            (0, ">q", -1, INVALID_RECORD),
            (0, ">q", 2**63 - 1, INVALID_RECORD),
            (8, ">i", 48, CORRUPT_MESSAGE),
            (8, ">i", 0, CORRUPT_MESSAGE),
            (8, ">i", -1, CORRUPT_MESSAGE),
            (8, ">i", 2**31 - 1, CORRUPT_MESSAGE),
            (16, ">b", 1, CORRUPT_MESSAGE),
            (16, ">b", 3, CORRUPT_MESSAGE),
            (23, ">i", -1, INVALID_RECORD),
            (57, ">i", -1, INVALID_RECORD),
        ],
        ids=["negative offset", "offset past int64", "length below header", "no length",
             "negative length", "huge length", "magic 1", "magic 3", "negative delta",
             "negative count"],
    )  # fmt: skip
    def test_batch_with_an_invalid_header_field_is_refused(
        self, position: int, field: str, value: int, code: int
    ) -> None:
        raw = bytearray(encode_batch(TWO))
        struct.pack_into(field, raw, position, value)
        with pytest.raises(CorruptRecords) as refused:
            read_header(with_crc(raw))
        assert refused.value.error_code == code

    def test_batch_with_a_flipped_bit_is_refused(self) -> None:
        raw = encode_batch(TWO)
        for position in range(17, len(raw)):
            bad = bytearray(raw)
            bad[position] ^= 0x10
            with pytest.raises(CorruptRecords):
                validate_batch(bad, read_header(bad))


class TestRecordRefusals:
    @pytest.mark.parametrize(
        ("section", "count", "why"),
        [
            ("10 00 00 00 02 61 02 62 00", 2, "count too high"),
            ("10 00 00 00 02 61 02 62 00 10 00 00 02 02 61 02 62 00", 1, "count too low"),
            ("10 00 00 02 02 61 02 62 00", 1, "offset delta 1 in a batch of one"),
            ("10 00 00 01 02 61 02 62 00", 1, "negative offset delta"),
            ("0f 00 00 00 02 61 02 62 00", 1, "negative record length"),
            ("12 00 00 00 02 61 02 62 00", 1, "record longer than its batch"),
            ("0e 00 00 00 02 61 02 62 00", 1, "record shorter than its fields"),
            ("10 00 00 00 03 61 02 62 00", 1, "key of length -2"),
            ("10 00 00 00 02 61 03 62 00", 1, "value of length -2"),
            ("10 00 00 00 02 61 7e 62 00", 1, "value longer than its record"),
            ("10 00 00 00 02 61 02 62 01", 1, "negative header count"),
            ("10 00 00 00 02 61 02 62 7e", 1, "63 headers in no bytes"),
            ("18 00 00 00 02 61 02 62 02 01 02 78 00", 1, "header with a null key"),
            ("ffffffff0f 00 00 00 02 61 02 62 00", 1, "length of -2^31"),
            ("808080808000 00 00 00 02 61 02 62 00", 1, "varint of six bytes"),
            ("", 1, "nothing"),
            ("10 00 ffffffffffffffffff7f 00 01 01 00", 1, "timestamp delta above 64 bits"),
        ],
    )
    def test_batch_with_an_invalid_record_is_refused(
        self, section: str, count: int, why: str
    ) -> None:
        data = batch_of_section(bytes.fromhex(section), count)
        header = read_header(data)
        with pytest.raises(CorruptRecords):
            records_of(data, header)
        with pytest.raises(CorruptRecords):
            validate_batch(data, header, deep=True)

    def test_batch_with_a_valid_record_is_accepted(self) -> None:
        data = batch_of_section(bytes.fromhex("10 00 00 00 02 61 02 62 00"), 1)
        validate_batch(data, read_header(data), deep=True)

    def test_wrong_count_of_two_billion_records_allocates_no_memory(self) -> None:
        data = batch_of_section(b"", 2**31 - 1)
        with pytest.raises(CorruptRecords):
            records_of(data, read_header(data))

    def test_batch_with_descending_offsets_is_refused(self) -> None:
        data = encode_batch([TWO[1], TWO[0]], base_offset=7, last_offset=8)
        with pytest.raises(CorruptRecords, match="offset delta 0, but it must be from 2 to"):
            records_of(data, read_header(data))

    def test_timestamp_deltas_overflow_as_in_java(self) -> None:
        records = [Record(0, -(2**63), None, b""), Record(1, 2**63 - 1, None, b"")]
        data = encode_batch(records)
        assert records_of(data, read_header(data)) == records
