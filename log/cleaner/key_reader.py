"""Reads the keys of a records section. Consecutive records with the same layout (a stretch) are
read together.

Consecutive records often differ only in their contents (protocol/records/stretch.py). One `struct`
reads the keys of all records of such a stretch, and slices with the record length as step read
their offset deltas. This takes a quarter of the time of reading record by record.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import chain

from protocol import compiled
from protocol.errors import INVALID_RECORD
from protocol.records.corrupt import CorruptRecords
from protocol.records.stretch import TRIALS_MAX, Places, deltas_ascend, records_alike
from protocol.records.varint import read_bits

_STRETCH_MIN = 8
_SHAPES_KEPT = 512
_shapes: dict[tuple[int, int, int], struct.Struct] = {}
_compiled_note_keys = None if compiled.MODULE is None else compiled.MODULE.note_keys
_NULL = 1
"""The length of a null value, encoded as a varint."""


def note_keys(section: bytes, count: int, base_offset: int, latest: dict[bytes, int]) -> int:
    """Enters each record's key and offset into ``latest``. A tombstone's offset is entered as its
    bitwise complement. Records without a key are skipped.

    Returns the total size of the keys in bytes. Raises CorruptRecords unless ``count`` records fill
    the section. Compiled code (protocol/c/keys.c) reads the sections that it supports.
    """
    if _compiled_note_keys is not None:
        known: int | None = _compiled_note_keys(section, count, base_offset, latest)
        if known is not None:
            return known
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
                value = stop + 1
                while section[value - 1] > 0x7F:
                    value += 1
                key = stop - (bits >> 1)
                places = Places(start, body, body + 1, delta_at, key_at, key, stop, value, end)
                taken = _take_stretch(section, places, count - index, base_offset, latest)
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
    section: bytes, places: Places, left: int, base_offset: int, latest: dict[bytes, int]
) -> int:
    """Adds keys to ``latest``: the keys of at most ``left`` records after the record at ``places``,
    up to the first record with another layout. Returns the number of records that were read."""
    width = places.key_length - places.delta
    stride = places.end - places.length
    if width > 2 or min(left, (len(section) - places.end) // stride) < _STRETCH_MIN:
        return 0
    count = records_alike(section, places, left)
    if not count:
        return 0
    offsets = _offsets(section, places.delta + stride, width, stride, count, base_offset)
    if section[places.value_length] == _NULL:  # if one is a tombstone, all are
        offsets = [~offset for offset in offsets]
    keys = _unpacker(
        places.key - places.length,
        places.value_length - places.key,
        places.end - places.value_length,
    ).iter_unpack(memoryview(section)[places.end : places.end + count * stride])
    latest.update(zip(chain.from_iterable(keys), offsets, strict=True))
    return count


def _offsets(
    section: bytes, at: int, width: int, stride: int, count: int, base_offset: int
) -> Iterable[int]:
    """Returns the offsets of ``count`` records. The offset delta of the first record is at position
    ``at`` of ``section``, and those of the next records follow at distances of ``stride`` bytes.
    Each delta is a varint of ``width`` bytes."""
    stop = at + (count - 1) * stride + 1
    low = section[at:stop:stride]
    high = section[at + 1 : stop + 1 : stride] if width == 2 else bytes(count)
    first = (low[0] & 0x7F | high[0] << 7) >> 1
    if deltas_ascend(section, at, width, stride, count, first):
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
        f"The length of record {index} of {count} does not fit its batch of {size} record bytes.",
        INVALID_RECORD,
    )
