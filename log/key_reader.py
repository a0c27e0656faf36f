"""The keys of a records section, read as tables where neighbours are of one shape.

Records that follow each other often differ in nothing but their contents: the lengths of record,
key and the two deltas are the same. Such a stretch is unpacked by one `struct`, and its offset
deltas by slices over the whole stretch, in a quarter of the time that record by record takes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import chain

from protocol.errors import INVALID_RECORD
from protocol.records.corrupt import CorruptRecords
from protocol.records.stretch import (
    DELTAS,
    LAST_BYTES,
    NEXT_BYTES,
    TRIALS_MAX,
    TWO_BYTES_FROM,
    leading,
)
from protocol.records.varint import read_bits

_STRETCH_MIN = 8
_SHAPES_KEPT = 512
_shapes: dict[tuple[int, int, int], struct.Struct] = {}
_TOMBSTONE = b"\x01"


def note_keys(section: bytes, count: int, base_offset: int, latest: dict[bytes, int]) -> int:
    """Enter each record's key and offset; records without a key leave no trace.

    The offset of a tombstone is entered as its complement. Returns the bytes of all keys. Raises
    CorruptRecords unless ``count`` records fill the section.
    """
    position = key_bytes = index = 0
    size = len(section)
    trials = TRIALS_MAX
    try:
        while index < count:
            start = position
            bits = section[position]
            position += 1
            if bits > 0x7F:
                byte = section[position]
                if byte > 0x7F:
                    bits, position = read_bits(section, start, 32)
                else:
                    bits = bits & 0x7F | byte << 7
                    position += 1
            end = position + (bits >> 1)
            body = position
            position += 1  # the attributes
            while section[position] > 0x7F:  # the timestamp delta
                position += 1
            delta_at = position + 1
            delta = section[delta_at]
            position += 2
            if delta > 0x7F:
                byte = section[position]
                if byte > 0x7F:
                    delta, position = read_bits(section, position - 1, 32)
                else:
                    delta = delta & 0x7F | byte << 7
                    position += 1
            key_at = position
            bits = section[position]
            position += 1
            if bits > 0x7F:
                byte = section[position]
                if byte > 0x7F:
                    bits, position = read_bits(section, position - 1, 32)
                else:
                    bits = bits & 0x7F | byte << 7
                    position += 1
            stop = position
            if not bits & 1:
                stop = position + (bits >> 1)
                if stop >= end:
                    raise _misfit(index, count, size)
                key_bytes += bits >> 1
                offset = base_offset + (delta >> 1)
                latest[section[position:stop]] = offset if section[stop] != 1 else ~offset
            index += 1
            position = end
            if trials and not bits & 1 and section[end : end + body - start] == section[start:body]:
                shape = (start, body, delta_at, key_at, stop - (bits >> 1), stop, end)
                taken = _take_stretch(section, shape, count - index, base_offset, latest)
                key_bytes += taken * (bits >> 1)
                index += taken
                position += taken * (end - start)
                if taken < _STRETCH_MIN:
                    trials -= 1
    except IndexError:
        raise _misfit(index, count, size) from None
    if position != size:
        raise _misfit(count, count, size)
    return key_bytes


def _take_stretch(
    section: bytes,
    shape: tuple[int, int, int, int, int, int, int],
    left: int,
    base_offset: int,
    latest: dict[bytes, int],
) -> int:
    """How many of the ``left`` records behind the one described are of its shape; they are entered.

    ``shape`` are positions in that record: its length, body, offset delta, key length, key, the end
    of the key, its end.
    """
    start, body, delta_at, key_at, key, stop, end = shape
    stride = end - start
    count = min(left, (len(section) - end) // stride)
    if count < _STRETCH_MIN or key_at - delta_at > 2:
        return 0
    fixed = [*range(start, body), *range(key_at, key)]
    for at in fixed:  # the bytes of lengths: the same in all
        count = leading(section, at + stride, stride, count, section[at : at + 1])
    for at in range(body + 1, delta_at):  # the timestamp delta: as many bytes in all
        kind = LAST_BYTES if at == delta_at - 1 else NEXT_BYTES
        count = leading(section, at + stride, stride, count, kind)
    null = section[stop : stop + 1] == _TOMBSTONE
    if null:
        count = leading(section, stop + stride, stride, count, _TOMBSTONE)
    elif _TOMBSTONE in section[stop + stride : stop + stride + count * stride : stride]:
        return 0
    if key_at - delta_at == 2:
        count = leading(section, delta_at + stride, stride, count, NEXT_BYTES)
    count = leading(section, key_at - 1 + stride, stride, count, LAST_BYTES)
    if not count:
        return 0
    offsets = _offsets(section, delta_at + stride, key_at - delta_at, stride, count, base_offset)
    keys = _unpacker(key - start, stop - key, end - stop).iter_unpack(
        memoryview(section)[end : end + count * stride]
    )
    if null:
        offsets = [~offset for offset in offsets]
    latest.update(zip(chain.from_iterable(keys), offsets, strict=True))
    return count


def _offsets(
    section: bytes, at: int, size: int, stride: int, count: int, base_offset: int
) -> Iterable[int]:
    """The offsets of a stretch whose deltas are ``size`` bytes each."""
    stop = at + (count - 1) * stride + 1
    low = section[at:stop:stride]
    first = low[0] >> 1
    if size == 1:
        if low == DELTAS[first : first + count]:
            return range(base_offset + first, base_offset + first + count)
        return [base_offset + (byte >> 1) for byte in low]
    high = section[at + 1 : stop + 1 : stride]
    first = (low[0] & 0x7F | high[0] << 7) >> 1
    table = TWO_BYTES_FROM + 2 * (first - TWO_BYTES_FROM)
    due = DELTAS[table : table + 2 * count]
    if low == due[0::2] and high == due[1::2]:
        return range(base_offset + first, base_offset + first + count)
    return [
        base_offset + ((one & 0x7F | two << 7) >> 1) for one, two in zip(low, high, strict=True)
    ]


def _unpacker(before: int, key_bytes: int, behind: int) -> struct.Struct:
    shape = (before, key_bytes, behind)
    found = _shapes.get(shape)
    if found is None:
        if len(_shapes) >= _SHAPES_KEPT:
            _shapes.clear()
        found = _shapes[shape] = struct.Struct(f"{before}x{key_bytes}s{behind}x")
    return found


def _misfit(index: int, count: int, size: int) -> CorruptRecords:
    return CorruptRecords(
        f"Record {index} of {count}, in {size} bytes, has a length that does not fit its batch.",
        INVALID_RECORD,
    )
