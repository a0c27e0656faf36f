"""Checks the header of an LZ4 frame like Java's reader, and handles the old checksum of magic 0.

A frame begins with its magic, a byte of flags (FLG), a byte with the block size (BD), an optional
content size, and the header checksum. The checksum is the second byte of xxHash32 over the bytes
from FLG to the content size. Kafka's first LZ4 clients included the frame's magic in the hash.
Messages of magic 0 still use this old checksum.
"""

from __future__ import annotations

from protocol.buffer import Buffer
from protocol.records.corrupt import CorruptRecords

_FRAME_MAGIC = b"\x04\x22\x4d\x18"
_VERSION_MASK = 0xC0
_INDEPENDENT_BLOCKS = 0x20
_CONTENT_SIZE = 0x08
_RESERVED_OR_DICTIONARY = 0x03
_MASK = 0xFFFFFFFF


def xxhash32_short(data: bytes) -> int:
    """Returns the xxHash32 with seed 0 of fewer than 16 bytes, as an unsigned int."""
    assert len(data) < 16
    value = (374761393 + len(data)) & _MASK
    tail = len(data) & ~3
    for start in range(0, tail, 4):
        value = (value + int.from_bytes(data[start : start + 4], "little") * 3266489917) & _MASK
        value = ((value << 17 | value >> 15) * 668265263) & _MASK
    for byte in data[tail:]:
        value = (value + byte * 374761393) & _MASK
        value = ((value << 11 | value >> 21) * 2654435761) & _MASK
    value = ((value ^ value >> 15) * 2246822519) & _MASK
    value = ((value ^ value >> 13) * 3266489917) & _MASK
    return value ^ value >> 16


def old_lz4_header(frame: bytes) -> bytes:
    """Returns the frame with the header checksum of magic 0. The frame must have no content
    size."""
    return frame[:6] + bytes((xxhash32_short(frame[:6]) >> 8 & 0xFF,)) + frame[7:]


def check_lz4_header(data: Buffer, magic: int) -> Buffer:
    """Checks the header of a frame like Kafka's Java reader. Returns a frame that every library can
    read.

    For magic 0 the function also accepts the old header checksum, and corrects it in the result.
    """
    header = bytes(data[:15])
    if len(header) < 7 or header[:4] != _FRAME_MAGIC:
        raise CorruptRecords("The LZ4 data does not start with a frame.")
    flags = header[4]
    if flags & _VERSION_MASK != 0x40 or flags & _RESERVED_OR_DICTIONARY:
        raise CorruptRecords(f"The LZ4 frame flags 0x{flags:02x} are not supported by Kafka.")
    if not flags & _INDEPENDENT_BLOCKS:
        raise CorruptRecords("The LZ4 frame has dependent blocks, which Kafka clients can't read.")
    end = 14 if flags & _CONTENT_SIZE else 6
    if len(header) <= end:
        raise CorruptRecords("The LZ4 frame header is truncated.")
    right = xxhash32_short(header[4:end]) >> 8 & 0xFF
    if header[end] == right:
        return data
    if magic == 0 and header[end] == xxhash32_short(header[:end]) >> 8 & 0xFF:
        return b"".join((header[:end], bytes((right,)), data[end + 1 :]))
    raise CorruptRecords("The LZ4 frame header has a wrong checksum.")
