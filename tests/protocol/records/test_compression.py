"""Tests of compression codecs: round trips, frames that Java clients can read, and a size limit
against decompression bombs."""

from __future__ import annotations

import struct
import tracemalloc
import zlib

import cramjam
import lz4.frame
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.errors import MESSAGE_TOO_LARGE, UNSUPPORTED_COMPRESSION_TYPE
from protocol.records.compression import GZIP, LZ4, NAMES, SNAPPY, ZSTD, compress, decompress
from protocol.records.corrupt import CorruptRecords
from protocol.records.lz4_header import old_lz4_header, xxhash32_short

REAL_CODECS = [GZIP, SNAPPY, LZ4, ZSTD]
TEXT = b"the quick brown fox jumps over the lazy dog. " * 100
MIB = 1 << 20


@given(
    codec=st.sampled_from([0, *REAL_CODECS]),
    magic=st.sampled_from([0, 1, 2]),
    data=st.one_of(st.binary(max_size=2000), st.binary(min_size=1, max_size=9).map(TEXT.__add__)),
)
def test_compressed_data_is_decompressed_to_the_original(
    codec: int, magic: int, data: bytes
) -> None:
    if codec == ZSTD and magic < 2:
        with pytest.raises(CorruptRecords) as refused:
            compress(codec, data, magic)
        assert refused.value.error_code == UNSUPPORTED_COMPRESSION_TYPE
        return
    assert decompress(codec, compress(codec, data, magic), len(data), magic) == data


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_data_of_several_blocks_is_decompressed_to_the_original(codec: int) -> None:
    data = bytes(range(256)) * 4096
    assert decompress(codec, compress(codec, data), len(data)) == data


@pytest.mark.parametrize("codec", [0, *REAL_CODECS], ids=NAMES)
def test_decompression_fails_one_byte_above_the_limit(codec: int) -> None:
    packed = compress(codec, TEXT)
    assert decompress(codec, packed, len(TEXT)) == TEXT
    with pytest.raises(CorruptRecords) as refused:
        decompress(codec, packed, len(TEXT) - 1)
    assert refused.value.error_code == MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", REAL_CODECS, ids=NAMES[1:])
def test_decompression_bomb_allocates_no_more_than_its_limit(codec: int) -> None:
    bomb = compress(codec, bytes(64 * MIB))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptRecords, match="more than 1048576 bytes"):
            decompress(codec, bomb, MIB)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Twice the output, and copies of the input: snappy's bomb is itself 3 MiB.
    assert peak < 3 * MIB + 2 * len(bomb)


@pytest.mark.parametrize("codec", REAL_CODECS, ids=NAMES[1:])
def test_truncated_compressed_data_is_refused(codec: int) -> None:
    packed = compress(codec, TEXT)
    for end in range(len(packed)):
        # A xerial stream has no end mark: a stream that is truncated between blocks is a valid
        # shorter one.
        if codec == SNAPPY and end == 16:
            assert decompress(codec, packed[:end], len(TEXT)) == b""
            continue
        with pytest.raises(CorruptRecords):
            decompress(codec, packed[:end], len(TEXT))


@pytest.mark.parametrize("codec", REAL_CODECS, ids=NAMES[1:])
@given(data=st.data())
@settings(max_examples=150)
def test_mutated_compressed_data_is_decompressed_or_refused(
    codec: int, data: st.DataObject
) -> None:
    packed = bytearray(compress(codec, TEXT))
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(packed) - 1))
        packed[position] = data.draw(st.integers(0, 255))
    try:
        out = decompress(codec, packed, 10_000)
    except CorruptRecords:
        return
    assert len(out) <= 10_000


@pytest.mark.parametrize("codec", [*REAL_CODECS, 5, 7])
@given(data=st.binary(max_size=200))
def test_random_bytes_are_decompressed_or_refused(codec: int, data: bytes) -> None:
    try:
        out = decompress(codec, data, 10_000, 2)
    except CorruptRecords:
        return
    assert len(out) <= 10_000


def test_unknown_codec_raises_unsupported_compression_type() -> None:
    with pytest.raises(CorruptRecords) as refused:
        decompress(5, b"", 10)
    assert refused.value.error_code == UNSUPPORTED_COMPRESSION_TYPE


class TestGzip:
    def test_data_of_several_gzip_members_is_concatenated(self) -> None:
        assert decompress(GZIP, compress(GZIP, b"ab") + compress(GZIP, b"cd"), 4) == b"abcd"

    def test_more_than_64_gzip_members_are_refused(self) -> None:
        with pytest.raises(CorruptRecords, match="64 members"):
            decompress(GZIP, compress(GZIP, b"") * 65, 10)

    def test_wrong_gzip_trailer_is_refused(self) -> None:
        packed = bytearray(compress(GZIP, TEXT))
        packed[-8] ^= 1
        with pytest.raises(CorruptRecords):
            decompress(GZIP, packed, len(TEXT))

    def test_zlib_stream_is_refused_as_gzip(self) -> None:
        with pytest.raises(CorruptRecords):
            decompress(GZIP, zlib.compress(TEXT), len(TEXT))


class TestSnappy:
    def test_snappy_is_written_with_xerial_framing(self) -> None:
        packed = compress(SNAPPY, b"a" * 40_000)
        assert packed[:16] == b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
        (first,) = struct.unpack_from(">i", packed, 16)
        assert cramjam.snappy.decompress_raw_len(packed[20 : 20 + first]) == 32 * 1024

    def test_raw_snappy_is_decompressed(self) -> None:
        assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT)), len(TEXT)) == TEXT

    @pytest.mark.parametrize("claimed", [b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f"])
    def test_wrong_size_in_a_snappy_header_allocates_no_memory(self, claimed: bytes) -> None:
        tracemalloc.start()
        try:
            with pytest.raises(CorruptRecords):
                decompress(SNAPPY, claimed + b"\x00a", 2**32)
            assert tracemalloc.get_traced_memory()[1] < MIB
        finally:
            tracemalloc.stop()

    @pytest.mark.parametrize("size", [-1, 0, 5, 2**31 - 1])
    def test_wrong_snappy_block_length_is_refused(self, size: int) -> None:
        header = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
        with pytest.raises(CorruptRecords, match="has a length of"):
            decompress(SNAPPY, header + struct.pack(">i", size) + b"\x01\x00a", 100)

    def test_snappy_limit_counts_the_bytes_of_all_blocks(self) -> None:
        packed = compress(SNAPPY, bytes(100_000))
        with pytest.raises(CorruptRecords, match="more than 99999"):
            decompress(SNAPPY, packed, 99_999)


class TestLz4:
    def test_lz4_frame_has_the_flags_that_java_needs(self) -> None:
        frame = compress(LZ4, TEXT)
        assert frame[4] & 0x20, "blocks must be independent"
        assert not frame[4] & 0x08, "no content size"

    def test_lz4_dependent_blocks_are_refused(self) -> None:
        frame = lz4.frame.compress(bytes(200_000), block_linked=True)
        with pytest.raises(CorruptRecords, match="dependent blocks"):
            decompress(LZ4, frame, MIB)

    def test_lz4_frame_with_content_size_and_checksums_is_accepted(self) -> None:
        frame = lz4.frame.compress(
            TEXT, block_linked=False, store_size=True, content_checksum=True, block_checksum=True
        )
        assert decompress(LZ4, frame, len(TEXT)) == TEXT

    def test_wrong_lz4_content_size_allocates_no_memory(self) -> None:
        header = b"\x68\x40" + struct.pack("<Q", 2**40)
        checksum = bytes((xxhash32_short(header) >> 8 & 0xFF,))
        body = compress(LZ4, TEXT)[7:]
        tracemalloc.start()
        try:
            with pytest.raises(CorruptRecords):
                decompress(LZ4, b"\x04\x22\x4d\x18" + header + checksum + body, 2**41)
            assert tracemalloc.get_traced_memory()[1] < MIB
        finally:
            tracemalloc.stop()

    def test_lz4_of_magic_0_is_written_with_the_old_header_checksum(self) -> None:
        old, new = compress(LZ4, TEXT, magic=0), compress(LZ4, TEXT, magic=1)
        assert old[:6] == new[:6]
        assert old[6] == 0x1A, "xxHash32 over the frame's magic too, as Kafka 0.8 wrote it"
        assert new[6] == 0x82
        assert old[7:] == new[7:]

    def test_lz4_of_magic_0_is_decompressed_with_either_checksum(self) -> None:
        for magic in (0, 1):
            assert decompress(LZ4, compress(LZ4, TEXT, magic), len(TEXT), 0) == TEXT

    @pytest.mark.parametrize("magic", [1, 2])
    def test_lz4_of_magic_1_and_2_is_refused_when_it_has_the_old_checksum(self, magic: int) -> None:
        with pytest.raises(CorruptRecords, match="wrong checksum"):
            decompress(LZ4, old_lz4_header(compress(LZ4, TEXT)), len(TEXT), magic)

    def test_bytes_after_the_lz4_frame_are_refused(self) -> None:
        with pytest.raises(CorruptRecords, match="after its frame"):
            decompress(LZ4, compress(LZ4, TEXT) + b"x", len(TEXT))


class TestZstd:
    def test_data_of_several_zstd_frames_is_concatenated(self) -> None:
        assert decompress(ZSTD, compress(ZSTD, b"ab") + compress(ZSTD, b"cd"), 4) == b"abcd"

    def test_zstd_frame_without_a_content_size_is_decompressed_whole(self) -> None:
        data = bytes(3 * MIB)
        assert decompress(ZSTD, compress(ZSTD, data), 3 * MIB) == data
