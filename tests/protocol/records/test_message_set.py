"""Tests of message sets of magic 0 and 1: a worked example, wrappers, and the exact errors of
invalid message sets."""

from __future__ import annotations

import re
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import CORRUPT_MESSAGE, INVALID_RECORD, MESSAGE_TOO_LARGE
from protocol.records.batch import LOG_APPEND_TIME
from protocol.records.compression import compress
from protocol.records.corrupt import CorruptRecords
from protocol.records.message_set import decode, encode, iter_messages, read_set
from protocol.records.section import Record

DOCS = Path(__file__).parents[3] / "docs"
NOON = 1_700_000_000_000
THREE = [
    Record(40, NOON + 2, b"a", b"x"),
    Record(42, NOON, None, b"y"),
    Record(45, NOON + 1, b"c", None),
]


def message(body: bytes, offset: int = 0) -> bytes:
    """Returns a message with the correct size and CRC. ``body`` begins with magic and
    attributes."""
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def wrapper(inner: bytes, magic: int = 1, offset: int = 2, codec: int = 1) -> bytes:
    stamp = struct.pack(">q", NOON) if magic else b""
    value = compress(codec, inner, magic)
    return message(
        bytes((magic, codec)) + stamp + b"\xff" * 4 + struct.pack(">i", len(value)) + value, offset
    )


def test_documented_message_set_example_is_decoded_and_encoded() -> None:
    page = (DOCS / "formats" / "message-sets.md").read_text()
    (block,) = re.findall(r"```hex\n(.*?)```", page, re.DOTALL)
    data = bytes.fromhex("".join(line.split("#")[0] for line in block.splitlines()))
    assert data == encode([Record(9, NOON, b"key", None)], 1)
    assert decode(data) == [Record(9, NOON, b"key", None)]


@given(
    rows=st.lists(
        st.tuples(
            st.integers(-1, 2**62),
            st.none() | st.binary(max_size=50),
            st.none() | st.binary(max_size=50),
        ),
        min_size=1,
        max_size=20,
    ),
    base=st.integers(0, 2**62),
    gap=st.integers(1, 3),
    magic=st.sampled_from([0, 1]),
    codec=st.integers(0, 3),
)
def test_records_of_an_encoded_message_set_are_decoded_unchanged(
    rows: list[Any], base: int, gap: int, magic: int, codec: int
) -> None:
    records = [Record(base + i * gap, *row) for i, row in enumerate(rows)]
    decoded = read_set(encode(records, magic, codec))
    assert (decoded.magic, decoded.compression) == (magic, codec)
    if magic == 0:
        records = [record._replace(timestamp=-1) for record in records]
    assert decoded.records == records


class TestWrappers:
    def test_inner_offsets_are_relative_in_magic_1(self) -> None:
        (outer,) = iter_messages(encode(THREE, 1, 1))
        assert outer.offset == 45
        assert outer.timestamp == NOON + 2
        inner = zlib.decompress(outer.value or b"", wbits=31)
        assert [entry.offset for entry in iter_messages(inner)] == [0, 2, 5]

    def test_inner_offsets_are_absolute_in_magic_0(self) -> None:
        (outer,) = iter_messages(encode(THREE, 0, 1))
        assert outer.offset == 45
        inner = zlib.decompress(outer.value or b"", wbits=31)
        assert [entry.offset for entry in iter_messages(inner)] == [40, 42, 45]

    def test_magic_1_wrapper_offset_sets_the_inner_offsets(self) -> None:
        data = bytearray(encode(THREE, 1, 2))
        struct.pack_into(">q", data, 0, 1045)
        assert [record.offset for record in decode(data)] == [1040, 1042, 1045]

    def test_inner_messages_have_the_append_time_of_the_wrapper(self) -> None:
        data = encode(THREE, 1, 3, timestamp_type=LOG_APPEND_TIME, append_time=NOON + 50)
        decoded = read_set(data)
        assert decoded.timestamp_type == LOG_APPEND_TIME
        assert {record.timestamp for record in decoded.records} == {NOON + 50}

    def test_message_set_is_decoded_when_all_its_inner_offsets_are_zero(self) -> None:
        inner = b"".join(encode([record._replace(offset=0)], 1) for record in THREE)
        assert [record.value for record in decode(wrapper(inner))] == [b"x", b"y", None]

    @pytest.mark.parametrize("offsets", [(0, 2, 1), (1, 1, 2), (3, 0, 0), (-1, 0, 1)])
    @pytest.mark.parametrize("magic", [0, 1])
    def test_inner_offsets_that_do_not_ascend_are_refused(
        self, offsets: tuple[int, ...], magic: int
    ) -> None:
        inner = b"".join(
            encode([record._replace(offset=offset)], magic)
            for record, offset in zip(THREE, offsets, strict=True)
        )
        with pytest.raises(CorruptRecords) as refused:
            decode(wrapper(inner, magic))
        assert refused.value.error_code == INVALID_RECORD

    def test_wrapper_in_a_wrapper_is_refused(self) -> None:
        with pytest.raises(CorruptRecords, match="must not contain a compressed"):
            decode(wrapper(encode(THREE, 1, 1)))

    def test_inner_message_with_another_magic_than_its_wrapper_is_refused(self) -> None:
        with pytest.raises(CorruptRecords, match="magic 0 must not be in a wrapper of magic 1"):
            decode(wrapper(encode(THREE, 0)))

    def test_empty_wrapper_is_refused(self) -> None:
        with pytest.raises(CorruptRecords, match="must not be empty"):
            decode(wrapper(b""))
        with pytest.raises(CorruptRecords, match="must have a value"):
            decode(message(b"\x01\x01" + struct.pack(">q", NOON) + b"\xff" * 8))

    def test_damaged_inner_message_is_refused(self) -> None:
        inner = bytearray(encode(THREE, 1))
        inner[-1] ^= 1
        with pytest.raises(CorruptRecords, match="CRC"):
            decode(wrapper(bytes(inner)))

    def test_truncated_inner_message_is_refused(self) -> None:
        with pytest.raises(CorruptRecords):
            decode(wrapper(encode(THREE, 1)[:-1]), partial=True)

    def test_zstd_wrapper_is_refused(self) -> None:
        with pytest.raises(CorruptRecords, match="does not exist in magic 1"):
            decode(message(b"\x01\x04" + struct.pack(">qi", NOON, -1) + b"\0\0\0\1z"))

    def test_decompression_limit_counts_all_wrappers(self) -> None:
        big = encode([Record(0, NOON, None, bytes(1000))], 1)
        two = wrapper(big) + wrapper(big)
        assert len(decode(two, 2 * len(big))) == 2
        with pytest.raises(CorruptRecords) as refused:
            decode(two, 2 * len(big) - 100)
        assert refused.value.error_code == MESSAGE_TOO_LARGE


class TestCutTails:
    def test_incomplete_last_message_is_omitted_if_partial_is_true_and_otherwise_refused(
        self,
    ) -> None:
        one = encode(THREE[:1], 1)
        for end in range(len(one) + 1, 2 * len(one)):
            cut = (one + one)[:end]
            assert decode(cut, partial=True) == THREE[:1]
            with pytest.raises(CorruptRecords):
                decode(cut)


class TestRefusals:
    def test_message_set_with_a_flipped_bit_is_refused(self) -> None:
        data = encode(THREE[:1], 1)
        for position in range(12, len(data)):
            bad = bytearray(data)
            bad[position] ^= 1
            with pytest.raises(CorruptRecords) as refused:
                decode(bad)
            assert refused.value.error_code == CORRUPT_MESSAGE

    @pytest.mark.parametrize("size", [-1, 0, 13, 2**31 - 1])
    def test_message_with_a_wrong_size_is_refused(self, size: int) -> None:
        data = bytearray(encode(THREE[:1], 1))
        struct.pack_into(">i", data, 8, size)
        with pytest.raises(CorruptRecords, match="has a size of"):
            decode(data)

    @pytest.mark.parametrize(
        ("body", "why"),
        [
            ("00 00 00000001 61 ffffffff 00", "a byte too many"),
            ("00 00 00000009 61 ffffffff", "key longer than the message"),
            ("00 00 fffffffe ffffffff", "key of length -2"),
            ("00 00 00000004 61616161", "no value length"),
            ("01 00 ffffffff ffffffff", "magic 1 without room for a timestamp"),
            ("02 00 ffffffff ffffffff", "magic 2"),
            ("ff 00 ffffffff ffffffff", "magic -1"),
        ],
    )
    def test_invalid_message_body_with_a_valid_crc_is_refused(self, body: str, why: str) -> None:
        with pytest.raises(CorruptRecords):
            decode(message(bytes.fromhex(body)))

    def test_message_set_with_two_different_magics_is_refused(self) -> None:
        with pytest.raises(CorruptRecords, match="starts with magic 0"):
            decode(encode(THREE, 0) + encode(THREE, 1))
