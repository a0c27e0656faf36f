"""Tests of conversions between batches and message sets: which fields are preserved or dropped, and
which batches cannot be converted."""

from __future__ import annotations

import pytest

from protocol.errors import UNSUPPORTED_COMPRESSION_TYPE
from protocol.records import message_set
from protocol.records.batch import (
    COMMIT,
    LOG_APPEND_TIME,
    encode_batch,
    read_header,
    records_of,
    validate_batch,
)
from protocol.records.convert import down_convert as convert
from protocol.records.convert import needs_conversion, to_magic2
from protocol.records.corrupt import CorruptRecords, NoOldForm
from protocol.records.markers import encode_end_transaction
from protocol.records.section import Record

NOON = 1_700_000_000_000
THREE = [
    Record(40, NOON + 2, b"a", b"x", [("trace", b"1")]),
    Record(42, NOON, None, b"y"),
    Record(45, NOON + 1, b"c", None),
]
PLAIN_THREE = [record._replace(headers=()) for record in THREE]
OFFSETS = [40, 42, 45]


def down_convert(entries: bytes, magic: int, first_offset: int = 0) -> bytes:
    """Converts ``entries`` to a message set of version ``magic``, and returns its bytes."""
    return convert(entries, magic, first_offset).data


class TestUp:
    @pytest.mark.parametrize("codec", [0, 1, 2, 3])
    @pytest.mark.parametrize("magic", [0, 1])
    def test_message_set_becomes_one_batch_with_offsets_from_zero(
        self, magic: int, codec: int
    ) -> None:
        data = to_magic2(message_set.encode(THREE, magic, codec), NOON)
        header = read_header(data)
        validate_batch(data, header, deep=True)
        assert header.end == len(data)
        assert header.compression == codec
        assert [(r.offset, r.key, r.value) for r in records_of(data, header)] == [
            (0, b"a", b"x"),
            (1, None, b"y"),
            (2, b"c", None),
        ]
        stamps = [record.timestamp for record in records_of(data, header)]
        assert stamps == ([NOON + 2, NOON, NOON + 1] if magic else [-1, -1, -1])
        assert header.max_timestamp == max(stamps)

    def test_several_wrappers_become_one_batch_with_the_codec_of_the_last_wrapper(self) -> None:
        both = message_set.encode(THREE, 1, 1) + message_set.encode(THREE, 1, 3)
        data = to_magic2(both, NOON)
        header = read_header(data)
        assert (header.record_count, header.compression) == (6, 3)
        assert [record.offset for record in records_of(data, header)] == list(range(6))

    def test_up_conversion_uses_the_topics_codec_and_append_time(self) -> None:
        data = to_magic2(
            message_set.encode(THREE, 0, 1), NOON, timestamp_type=LOG_APPEND_TIME, compression=4
        )
        header = read_header(data)
        assert (header.compression, header.timestamp_type) == (4, LOG_APPEND_TIME)
        assert {record.timestamp for record in records_of(data, header)} == {NOON}

    def test_empty_message_set_is_refused(self) -> None:
        with pytest.raises(CorruptRecords):
            to_magic2(b"", NOON)

    def test_damaged_message_set_is_refused(self) -> None:
        data = bytearray(message_set.encode(THREE, 1))
        data[-1] ^= 1
        with pytest.raises(CorruptRecords):
            to_magic2(data, NOON)


class TestDown:
    @pytest.mark.parametrize("codec", [0, 1, 2, 3])
    def test_down_conversion_keeps_offsets_and_times_and_drops_headers(self, codec: int) -> None:
        decoded = message_set.read_set(down_convert(encode_batch(THREE, compression=codec), 1))
        assert decoded.records == PLAIN_THREE
        assert decoded.compression == codec

    @pytest.mark.parametrize("codec", [0, 1, 2, 3])
    def test_down_conversion_to_magic_0_drops_timestamps(self, codec: int) -> None:
        records = message_set.decode(down_convert(encode_batch(THREE, compression=codec), 0))
        assert [record.offset for record in records] == OFFSETS
        assert {record.timestamp for record in records} == {-1}

    def test_down_conversion_keeps_the_append_time(self) -> None:
        for codec in (0, 1):
            data = encode_batch(
                THREE, compression=codec, timestamp_type=LOG_APPEND_TIME, max_timestamp=NOON + 99
            )
            decoded = message_set.read_set(down_convert(data, 1))
            assert decoded.timestamp_type == LOG_APPEND_TIME
            assert {record.timestamp for record in decoded.records} == {NOON + 99}

    def test_down_conversion_omits_records_before_the_fetched_offset(self) -> None:
        plain, packed = encode_batch(THREE), encode_batch(THREE, compression=1)
        assert [r.offset for r in message_set.decode(down_convert(plain, 1, 42))] == [42, 45]
        assert [r.offset for r in message_set.decode(down_convert(packed, 1, 42))] == OFFSETS

    def test_down_conversion_omits_markers_and_empty_batches(self) -> None:
        marker = encode_end_transaction(
            COMMIT, base_offset=46, timestamp=NOON, producer_id=1, producer_epoch=0,
            coordinator_epoch=0,
        )  # fmt: skip
        emptied = encode_batch([], base_offset=47, last_offset=50)
        more = encode_batch([Record(51, NOON, None, b"z")])
        data = encode_batch(THREE) + marker + emptied + more
        assert [r.offset for r in message_set.decode(down_convert(data, 1))] == [*OFFSETS, 51]

    def test_down_conversion_omits_a_truncated_last_batch(self) -> None:
        data = encode_batch(THREE) + encode_batch([Record(51, NOON, None, b"z")])
        assert [r.offset for r in message_set.decode(down_convert(data[:-1], 1))] == OFFSETS

    def test_down_conversion_of_a_zstd_batch_raises_unsupported_compression(self) -> None:
        with pytest.raises(NoOldForm, match="offset 40") as refused:
            down_convert(encode_batch(THREE, compression=4), 1)
        assert refused.value.error_code == UNSUPPORTED_COMPRESSION_TYPE

    def test_down_conversion_ends_before_a_zstd_batch(self) -> None:
        packed = encode_batch([Record(51, NOON, None, b"z")], compression=4)
        data = down_convert(encode_batch(THREE) + packed + encode_batch(THREE), 1)
        assert [r.offset for r in message_set.decode(data)] == OFFSETS

    def test_message_set_of_the_requested_magic_is_unchanged(self) -> None:
        zero = message_set.encode(THREE, 0, 1)
        one = message_set.encode([Record(50, NOON, None, b"1")], 1)
        two = encode_batch([Record(51, NOON, None, b"2")])
        assert convert(zero + one, 1) == (zero + one, 0)
        assert not needs_conversion(zero + one, 1)
        assert needs_conversion(zero + one, 0)
        converted = convert(zero + one + two, 1)
        assert converted.data.startswith(zero + one)
        assert converted.records == 1
        both = convert(zero + one + two, 0)
        assert both.records == 2
        assert [r.offset for r in message_set.decode(both.data)] == [*OFFSETS, 50, 51]

    @pytest.mark.parametrize("codec", [0, 1, 2, 3])
    def test_down_conversion_turns_magic_1_into_magic_0(self, codec: int) -> None:
        records = message_set.decode(down_convert(message_set.encode(THREE, 1, codec), 0))
        assert records == [record._replace(timestamp=-1) for record in PLAIN_THREE]
