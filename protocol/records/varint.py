"""Zigzag varints: the encoding of lengths, deltas and counts in a batch of magic 2.

A varint has 32 bits in at most 5 bytes, a varlong 64 bits in at most 10. Readers accept every
encoding that Kafka's readers accept, including padding with zero groups. They reject an encoding
that exceeds the end of the buffer, the maximum length, or the number of bits.
"""

from __future__ import annotations

import mmap

from protocol.buffer import Buffer
from protocol.records.corrupt import CorruptRecords


def encode_varint(value: int) -> bytes:
    """Returns the zigzag varint of ``value``, which is at most an int64. Varint and varlong have
    the same encoding."""
    bits = (value << 1) ^ (value >> 63)
    if bits < 0x80:
        return _SHORT[bits]
    out = bytearray()
    while bits > 0x7F:
        out.append(bits & 0x7F | 0x80)
        bits >>= 7
    out.append(bits)
    return bytes(out)


_SHORT = tuple(bytes((byte,)) for byte in range(128))


def read_varint(buffer: Buffer | mmap.mmap, position: int) -> tuple[int, int]:
    """Reads a signed 32-bit varint at ``position``. Returns the number and the position after
    it."""
    bits, position = read_bits(buffer, position, 32)
    return (bits >> 1) ^ -(bits & 1), position


def read_varlong(buffer: Buffer | mmap.mmap, position: int) -> tuple[int, int]:
    """Reads a signed 64-bit varint at ``position``. Returns the number and the position after
    it."""
    bits, position = read_bits(buffer, position, 64)
    return (bits >> 1) ^ -(bits & 1), position


def read_bits(buffer: Buffer | mmap.mmap, position: int, width: int) -> tuple[int, int]:
    """Reads an unsigned varint of at most ``width`` bits. Returns the number and the position after
    it."""
    bits = shift = 0
    try:
        while True:
            byte = buffer[position]
            position += 1
            bits |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift >= width:
                raise CorruptRecords(f"A varint has more bytes than {width} bits need.")
    except IndexError:
        raise CorruptRecords("A varint is truncated.") from None
    if bits >> width:
        raise CorruptRecords(f"A varint has more than {width} bits.")
    return bits, position
