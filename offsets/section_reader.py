"""The records section of a stored batch to runs, at loading speed.

Most of an offsets log is records of one shape: an offset without metadata, no headers, whose
neighbours have the same group, topic and timestamp. Such a record is recognised by its constant
bytes, without decoding it field by field. A stretch of such records whose partitions ascend one by
one is compared with the expected bytes, and its offsets become a column at once. A stretch that
differs in more fields is unpacked as a table. Everything else is read record by record.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections import Counter
from typing import Any

from offsets.record_errors import CorruptRecord
from offsets.record_reader import BasedRun, RunBuilder, known_names, names_of
from offsets.record_values import Malformed
from protocol.records.corrupt import CorruptRecords
from protocol.records.varint import encode_varint, read_varint, read_varlong

# A plain record, counted from its end: partition 30, value length and version 26, offset 23,
# leader epoch 15, metadata length 11, timestamp 9, header count 1.
_VALUE_HEAD = b"\x30\x00\x03"
_plain_fields = struct.Struct(">i3xqi2xqx")
_PLAIN_BYTES = 30
_PARTITION_END, _OFFSET_FROM_END = 27, 23
_TAIL_BYTES = 11
_LONGEST_PROLOGUE = 8

_ALIKE_MAX = 256
"""Records that are compared at once: as many as the last byte of a partition counts."""
_STRETCH_MAX = 64
"""Records that are unpacked at once: of each size there is a shape, 12 KB at most."""
_SHAPES_KEPT = 256
_shapes: dict[tuple[int, int, int, int], struct.Struct] = {}
_deltas = bytearray().join(encode_varint(delta) for delta in range(8192))
_TWO_BYTES_FROM = 64
_counting = bytearray(range(256))
_LAST_FIRST = (7, 6, 5, 4, 3, 2, 1, 0)
_SWAP = sys.byteorder == "little"


def runs_of_section(
    section: bytes,
    base_offset: int,
    count: int,
    skipped: Counter[int] | None = None,
) -> list[BasedRun]:
    """The runs of a batch's uncompressed records section, in log order.

    ``base_offset`` and ``count`` are the batch header's; each run comes with the log offset of its
    first record. ``skipped`` counts, by key type, the records whose kind is unknown. CorruptRecord
    when the section is not exactly ``count`` records that can be understood.
    """
    builder = RunBuilder(skipped)
    position = done = 0
    while done < count:
        taken, end = _take_plain(section, position, base_offset, count - done, builder)
        if not taken:
            taken, end = 1, _take_any(section, position, base_offset, builder)
        done += taken
        position = end
    if position != len(section):
        raise CorruptRecord(
            base_offset, f"its batch of {count} records has {len(section) - position} bytes more"
        )
    return builder.take(final=True)


def _take_plain(
    section: bytes, position: int, base_offset: int, left: int, builder: RunBuilder
) -> tuple[int, int]:
    """(records taken, position behind them); none taken where the next one is not plain."""
    head = section[position : position + _LONGEST_PROLOGUE]
    if len(head) < _LONGEST_PROLOGUE or head[0] & 1:
        return 0, position
    length, at = head[0], 1
    if length >= 0x80:
        length, at = length & 0x7F | head[1] << 7, 2  # a third byte would make it too long below
    end = position + at + (length >> 1)
    if (
        end > len(section)
        or section[end - 26 : end - 23] != _VALUE_HEAD
        or section[end - 11 : end - 9] != b"\0\0"
        or section[end - 1]
        or head[at]
        or head[at + 1]
    ):
        return 0, position
    at += 2
    delta, delta_bytes = head[at], 1
    if delta >= 0x80:
        delta, delta_bytes = delta & 0x7F | head[at + 1] << 7, 2
    key_at = at + delta_bytes
    key_bytes, key_start = head[key_at], position + key_at + 1
    if key_bytes >= 0x80:
        key_bytes, key_start = key_bytes & 0x7F | head[key_at + 1] << 7, key_start + 1
    key_head = section[key_start : end - _PLAIN_BYTES]
    names = known_names.get(key_head) or names_of(key_head)
    if delta & 1 or delta >= 0x4000 or key_bytes != 2 * (len(key_head) + 4) or names is None:
        return 0, position
    plain = _plain_fields.unpack_from(section, end - _PLAIN_BYTES)
    builder.add_plain(base_offset + (delta >> 1), names, plain)
    next_key = end + key_start - position
    if left == 1 or section[next_key : next_key + len(key_head)] != key_head:
        return 1, end
    more = _take_stretch(section, position, end, at, delta, delta_bytes, left - 1, builder)
    return 1 + more, end + more * (end - position)


def _take_stretch(
    section: bytes,
    position: int,
    end: int,
    delta_at: int,
    delta: int,
    delta_bytes: int,
    left: int,
    builder: RunBuilder,
) -> int:
    """How many records behind the one at ``position`` differ from it in their numbers alone."""
    size = end - position
    key_at = delta_at + delta_bytes
    key_bytes = size - _PLAIN_BYTES - key_at
    key = section[position + key_at : end - _PLAIN_BYTES]
    at_most = min(left, (len(section) - end) // size, _ALIKE_MAX)
    if delta_bytes == 1:
        at_most = min(at_most, _TWO_BYTES_FROM - 1 - (delta >> 1))
    if at_most <= 0:
        return 0
    count = _same_key(section, end + key_at, size, key, at_most, builder.stretch)
    if count < at_most:
        builder.stretch = count
    if _take_alike(section, position, end, delta_at, delta, delta_bytes, count, builder):
        return count
    count = min(count, _STRETCH_MAX)
    prologue = section[position : position + delta_at]
    tail = section[end - _TAIL_BYTES : end]
    shape = _shapes.get((delta_at, delta_bytes, key_bytes, count)) or _remember_shape(
        delta_at, delta_bytes, key_bytes, count
    )
    fields = shape.unpack_from(section, end)
    between = tail + prologue
    if (
        fields[0] != prologue
        or fields[-1] != tail
        or fields[1::6].count(key) != count
        or fields[3::6].count(_VALUE_HEAD) != count
        or fields[6:-1:6].count(between) != count - 1
    ):
        count = _first_different(fields, key, between, count) if fields[0] == prologue else 0
    found = _ascending(section, end + delta_at, size, (delta >> 1) + 1, delta_bytes, count)
    if found:
        stop = 6 * found
        builder.extend_plain(fields[2:stop:6], fields[4:stop:6], fields[5 : stop + 1 : 6])
    return found


def _take_alike(
    section: bytes,
    position: int,
    end: int,
    delta_at: int,
    delta: int,
    delta_bytes: int,
    count: int,
    builder: RunBuilder,
) -> bool:
    """Take ``count`` records behind the one at ``position`` if only their offsets are free.

    Their deltas and partitions must go on from it one by one, all else must be as in it.
    """
    first = section[position:end]
    size = end - position
    partition_at, offset_at = size - _PARTITION_END, size - _OFFSET_FROM_END
    deltas = _deltas_from((delta >> 1) + 1, delta_bytes, count)
    partitions = _counting[first[partition_at] + 1 : first[partition_at] + 1 + count]
    if len(partitions) != count or len(deltas) != delta_bytes * count:
        return False
    due = bytearray(first * count)
    due[partition_at::size] = partitions
    for place in range(delta_bytes):
        due[delta_at + place :: size] = deltas[place::delta_bytes]
    values = bytearray(first[offset_at : offset_at + 8] * count)
    start, stop = end + offset_at, end + len(due)
    for place in _LAST_FIRST:
        column = bytearray(section[start + place : stop : size])
        values[place::8] = due[offset_at + place :: size] = column
        if not place & 3 and section.startswith(due, end):
            break  # which mostly is so after four bytes: the others are as in the first offset
    else:
        return False
    offsets = array("q", values)
    if _SWAP:
        offsets.byteswap()
    builder.extend_alike(offsets)
    return True


def _deltas_from(delta: int, delta_bytes: int, count: int) -> bytearray:
    """The varints of ``count`` offset deltas, fewer where they would have another size."""
    if delta_bytes == 1:
        return _deltas[delta : min(delta + count, _TWO_BYTES_FROM)]
    start = _TWO_BYTES_FROM + 2 * (delta - _TWO_BYTES_FROM)
    return _deltas[start : start + 2 * count]


def _same_key(section: bytes, at: int, step: int, key: bytes, at_most: int, guess: int) -> int:
    """About how many records ``step`` bytes apart, the first of which has ``key``, have it too."""
    size = len(key)
    guess = min(guess, at_most)
    last = at + (guess - 1) * step
    if section[last : last + size] == key and (
        guess == at_most or section[last + step : last + step + size] != key
    ):
        return guess
    low, high = 0, 1  # record number ``low`` has it
    while high < at_most and section[at + high * step : at + high * step + size] == key:
        low, high = high, 2 * high + 1
    high = min(high, at_most)
    while high - low > 1:
        middle = (low + high) // 2
        if section[at + middle * step : at + middle * step + size] == key:
            low = middle
        else:
            high = middle
    return low + 1


def _first_different(fields: tuple[Any, ...], key: bytes, between: bytes, count: int) -> int:
    """How many records at the beginning of ``fields`` are alike."""
    for record in range(count):
        at = 6 * record
        if fields[at + 1] != key or fields[at + 3] != _VALUE_HEAD:
            return record
        behind = fields[at + 6]
        if behind != between:  # the last one's tail, or one whose successor begins differently
            alike: bool = behind[:_TAIL_BYTES] == between[:_TAIL_BYTES]
            return record + alike
    return count


def _ascending(section: bytes, at: int, step: int, delta: int, delta_bytes: int, count: int) -> int:
    """How many of ``count`` deltas, ``step`` bytes apart, go on from ``delta`` one by one."""
    stop = at + count * step
    due = _deltas_from(delta, delta_bytes, count)
    return min(
        _common(section[at + place : stop : step], due[place::delta_bytes])
        for place in range(delta_bytes)
    )


def _common(found: bytes, due: bytes | bytearray) -> int:
    """Length of the common beginning."""
    if found == due:
        return len(found)
    for i, (one, other) in enumerate(zip(found, due, strict=False)):
        if one != other:
            return i
    return min(len(found), len(due))


def _remember_shape(prologue: int, delta_bytes: int, key_bytes: int, count: int) -> struct.Struct:
    """``count`` records: the prologue of the first, then per record the head of its key, partition,
    value head, offset, epoch, and its tail with the next one's prologue; deltas are passed over.
    """
    if len(_shapes) >= _SHAPES_KEPT:
        _shapes.clear()
    record = f"{delta_bytes}x{key_bytes}si3sqi"
    records = f"{record}{_TAIL_BYTES + prologue}s" * (count - 1) + f"{record}{_TAIL_BYTES}s"
    shape = struct.Struct(f">{prologue}s{records}")
    _shapes[prologue, delta_bytes, key_bytes, count] = shape
    return shape


def _take_any(section: bytes, position: int, base_offset: int, builder: RunBuilder) -> int:
    """Take one record of any shape; the position behind it."""
    try:
        length, start = read_varint(section, position)
        end = start + length
        if length < 0 or end > len(section):
            raise Malformed(f"it claims {length} bytes at byte {start} of {len(section)}")
        _, at = read_varlong(section, start + 1)
        delta, at = read_varint(section, at)
        key, at = _blob(section, at, end)
        value, at = _blob(section, at, end)
    except (CorruptRecords, Malformed) as error:
        raise CorruptRecord(
            base_offset, f"the record at byte {position} of its batch: {error}"
        ) from None
    builder.add(base_offset + delta, key, value)
    return end


def _blob(section: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    size, position = read_varint(section, position)
    if size < 0:
        return None, position
    if position + size > end:
        raise Malformed(f"{size} bytes at byte {position}, where its record ends at {end}")
    return section[position : position + size], position + size
