"""Decodes the records section of a stored batch into runs, fast enough for the load of a log.

Most records of `__consumer_offsets` are plain (plain_record.py has a picture of their bytes).
Consecutive plain records usually have the same group, topic and timestamp. Records are decoded by
the first of three methods that applies:

    alike     plain records with consecutive partitions and offset deltas and the same epoch: they
              are compared with the expected bytes, and their offsets become a column at once
    rows      plain records in which other numbers differ: they are unpacked as a table
    one       any other record: a plain record by its positions, other records field by field

All three methods produce the same runs (record_reader.py).
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections import Counter
from collections.abc import Iterator

from offsets.plain_record import (
    END,
    END_BYTES,
    NO_METADATA,
    OFFSET_FROM_END,
    PARTITION_BYTES,
    TAIL_BYTES,
    TIMESTAMP_FROM_END,
    VALUE_HEAD,
    VALUE_HEAD_FROM_END,
)
from offsets.record_reader import BasedRun, RunBuilder, known_names, names_of
from offsets.record_values import CorruptRecord, Malformed
from protocol.records.corrupt import CorruptRecords
from protocol.records.stretch import TWO_BYTES_FROM, deltas_from
from protocol.records.varint import read_varint, read_varlong

_LONGEST_PROLOGUE = 8
_ALIKE_MAX = 256
"""The maximum number of consecutive records that are compared in one step. The step computes only
the last byte of each record's partition number, and this byte has only 256 values."""
_ROWS_MAX = 64
"""The maximum number of records that are unpacked in one step. For each possible number of records,
a ``struct.Struct`` of up to 12 KB is created."""
_TABLES_KEPT = 256
_tables: dict[tuple[int, int, int, int], struct.Struct] = {}
_last_bytes = bytearray(range(256))
_LAST_FIRST = (7, 6, 5, 4, 3, 2, 1, 0)
_SWAP = sys.byteorder == "little"


def runs_of_section(
    section: bytes,
    base_offset: int,
    count: int,
    skipped: Counter[int] | None = None,
    timestamp_ms: int = -1,
) -> list[BasedRun]:
    """Returns the runs of a batch's uncompressed records section, in log order, each with the log
    offset of its first record.

    ``base_offset`` and ``count`` are from the batch header. ``skipped`` counts the records of
    unknown types, by key type. ``timestamp_ms`` is the timestamp of the batch; it becomes the
    timestamp of runs of consumer groups. Raises CorruptRecord unless the section consists of
    exactly ``count`` valid records.
    """
    return list(iter_runs_of_section(section, base_offset, count, skipped, timestamp_ms))


def iter_runs_of_section(
    section: bytes,
    base_offset: int,
    count: int,
    skipped: Counter[int] | None = None,
    timestamp_ms: int = -1,
) -> Iterator[BasedRun]:
    """Yields the same runs as `runs_of_section`, in steps of a few milliseconds. CorruptRecord may
    be raised after the first runs."""
    builder = RunBuilder(skipped)
    builder.timestamp_ms = timestamp_ms
    position = done = 0
    while done < count:
        taken, end = _take_plain(section, position, base_offset, count - done, builder)
        if not taken:
            taken, end = 1, _take_any(section, position, base_offset, builder)
        done += taken
        position = end
        if builder.is_slow:
            yield from builder.take()
    if position != len(section):
        raise CorruptRecord(
            base_offset,
            f"{len(section) - position} bytes follow the {count} records of the batch",
        )
    yield from builder.take(final=True)


def _take_plain(
    section: bytes, position: int, base_offset: int, left: int, builder: RunBuilder
) -> tuple[int, int]:
    """Decodes the records from ``position`` on that have the usual form of an offset record (see
    plain_record.py). Returns the number of decoded records, and the position after them. The number
    is 0 if the first record has another form."""
    head = section[position : position + _LONGEST_PROLOGUE]
    if len(head) < _LONGEST_PROLOGUE or head[0] & 1:
        return 0, position
    length, at = head[0], 1
    if length >= 0x80:
        length, at = length & 0x7F | head[1] << 7, 2  # a longer record fails the next check
    end = position + at + (length >> 1)
    if (
        end > len(section)
        or section[end - VALUE_HEAD_FROM_END : end - OFFSET_FROM_END] != VALUE_HEAD
        or section[end - TAIL_BYTES : end - TIMESTAMP_FROM_END] != NO_METADATA
        or section[end - 1]  # the header count
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
    key_head = section[key_start : end - END_BYTES]
    names = known_names.get(key_head) or names_of(key_head)
    if (
        delta & 1
        or delta >= 0x4000
        or key_bytes != 2 * (len(key_head) + PARTITION_BYTES)
        or names is None
    ):
        return 0, position
    plain = END.unpack_from(section, end - END_BYTES)
    builder.add_plain(base_offset + (delta >> 1), names, plain)
    next_key = end + key_start - position
    if left == 1 or section[next_key : next_key + len(key_head)] != key_head:
        return 1, end
    more = _take_more(section, position, end, at, delta >> 1, delta_bytes, left - 1, builder)
    return 1 + more, end + more * (end - position)


def _take_more(
    section: bytes,
    position: int,
    end: int,
    delta_at: int,
    delta: int,
    delta_bytes: int,
    left: int,
    builder: RunBuilder,
) -> int:
    """Decodes the records after the record at ``position``, as long as they differ from this record
    only in offset delta, partition, offset and leader epoch. May stop earlier. Returns the number
    of decoded records.

    The record at ``position`` ends at ``end``. ``delta_at`` is the position of the offset delta in
    this record, counted from the record's first byte.
    """
    size = end - position
    key_at = delta_at + delta_bytes
    key = section[position + key_at : end - END_BYTES]
    at_most = min(left, (len(section) - end) // size, _ALIKE_MAX)
    if delta_bytes == 1:
        at_most = min(at_most, TWO_BYTES_FROM - 1 - delta)
    if at_most <= 0:
        return 0
    count = _same_key(section, end + key_at, size, key, at_most, builder.stretch)
    if count < at_most:
        builder.stretch = count
    deltas = deltas_from(delta + 1, delta_bytes, count)
    if len(deltas) != delta_bytes * count:
        count = len(deltas) // delta_bytes
        if not count:
            return 0
    first = section[position:end]
    offsets = _offsets_alike(section, end, first, delta_at, delta_bytes, deltas, count)
    if offsets is not None:
        builder.extend_alike(offsets)
        return len(offsets)
    return _take_rows(
        section, end, first, delta_at, delta_bytes, deltas, min(count, _ROWS_MAX), builder
    )


def _offsets_alike(
    section: bytes,
    begin: int,
    first: bytes,
    delta_at: int,
    delta_bytes: int,
    deltas: bytes,
    count: int,
) -> array[int] | None:
    """Returns the committed offsets of the ``count`` records from position ``begin`` on; None if
    one of these records does not continue the record ``first``.

    The records continue ``first`` if their offset deltas and partitions ascend by 1 from those of
    ``first``, and their other bytes differ only in the committed offset. Returns fewer than
    ``count`` offsets if the last byte of the partition number would overflow.
    """
    size = len(first)
    partition_at, offset_at = size - END_BYTES + 3, size - OFFSET_FROM_END
    partitions = _last_bytes[first[partition_at] + 1 : first[partition_at] + 1 + count]
    count = len(partitions)
    at = begin + partition_at
    if not count or section[at : at + count * size : size] != partitions:
        return None
    due = bytearray(first * count)
    due[partition_at::size] = partitions
    for place in range(delta_bytes):
        due[delta_at + place :: size] = deltas[place : delta_bytes * count : delta_bytes]
    values = bytearray(first[offset_at : offset_at + 8] * count)
    start, stop = begin + offset_at, begin + len(due)
    for place in _LAST_FIRST:
        column = bytearray(section[start + place : stop : size])
        values[place::8] = due[offset_at + place :: size] = column
        if not place & 3 and section.startswith(due, begin):
            break  # usually after four bytes: the high bytes equal those of the first offset
    else:
        return None
    offsets = array("q", values)
    if _SWAP:
        offsets.byteswap()
    return offsets


def _take_rows(
    section: bytes,
    begin: int,
    first: bytes,
    delta_at: int,
    delta_bytes: int,
    deltas: bytes,
    count: int,
    builder: RunBuilder,
) -> int:
    """Decodes at most ``count`` records from ``begin`` on. Stops at the first record whose constant
    bytes differ from ``first``, or whose offset delta is not the next one. Returns the number of
    decoded records."""
    size = len(first)
    key_at = delta_at + delta_bytes
    table = _tables.get((delta_at, delta_bytes, size, count)) or _remember_table(
        delta_at, delta_bytes, size, count
    )
    fields = table.unpack_from(section, begin - TAIL_BYTES)
    tail, key = first[-TAIL_BYTES:], first[key_at:-END_BYTES]
    between = tail + first[:delta_at]
    if (
        fields[:-1:6].count(between) != count
        or fields[1::6].count(key) != count
        or fields[3::6].count(VALUE_HEAD) != count
    ):
        constant = (between, key, VALUE_HEAD)
        rows = zip(fields[:-1:6], fields[1::6], fields[3::6], strict=True)
        count = next(n for n, row in enumerate(rows) if row != constant)
    if count and fields[6 * count][:TAIL_BYTES] != tail:  # the next row has the last tail
        count -= 1
    stop = begin + count * size
    for place in range(delta_bytes):
        column = section[begin + delta_at + place : stop : size]
        count = min(count, _common(column, deltas[place::delta_bytes]))
    if count:
        stop = 6 * count
        builder.extend_plain(fields[2:stop:6], fields[4:stop:6], fields[5:stop:6])
    return count


def _remember_table(delta_at: int, delta_bytes: int, size: int, count: int) -> struct.Struct:
    """Creates and caches the struct that unpacks ``count`` records of a stretch, one row per
    record.

    A row has these fields: the end of the previous record, the prologue of the record, the head of
    its key, the partition, the head of its value, the offset and the epoch. The offset deltas are
    skipped. The end of the last record is one more field.
    """
    if len(_tables) >= _TABLES_KEPT:
        _tables.clear()
    key_bytes = size - END_BYTES - delta_at - delta_bytes
    row = f"{TAIL_BYTES + delta_at}s{delta_bytes}x{key_bytes}si3sqi"
    table = struct.Struct(f">{row * count}{TAIL_BYTES}s")
    _tables[delta_at, delta_bytes, size, count] = table
    return table


def _same_key(section: bytes, at: int, step: int, key: bytes, at_most: int, guess: int) -> int:
    """Estimates how many consecutive records have the key ``key``, with few comparisons. The first
    key begins at position ``at``, and the next keys follow at intervals of ``step`` bytes. If the
    number is ``guess``, two comparisons are enough."""
    size = len(key)
    guess = min(guess, at_most)
    last = at + (guess - 1) * step
    if section[last : last + size] == key and (
        guess == at_most or section[last + step : last + step + size] != key
    ):
        return guess
    low, high = 0, 1  # record number ``low`` has the key
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


def _common(found: bytes, due: bytes) -> int:
    if found == due:
        return len(found)
    for i, (one, other) in enumerate(zip(found, due, strict=False)):
        if one != other:
            return i
    return min(len(found), len(due))


def _take_any(section: bytes, position: int, base_offset: int, builder: RunBuilder) -> int:
    """Decodes one record of any kind. Returns the position after the record."""
    try:
        length, start = read_varint(section, position)
        end = start + length
        if length < 0 or end > len(section):
            raise Malformed(
                f"{length} bytes from byte {start} do not fit into {len(section)} bytes"
            )
        _, at = read_varlong(section, start + 1)
        delta, at = read_varint(section, at)
        key, at = _blob(section, at, end)
        value, at = _blob(section, at, end)
    except (CorruptRecords, Malformed) as error:
        raise CorruptRecord(
            base_offset, f"the record at byte {position} of the batch is invalid: {error}"
        ) from None
    builder.add(base_offset + delta, key, value)
    return end


def _blob(section: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    size, position = read_varint(section, position)
    if size < 0:
        return None, position
    if position + size > end:
        raise Malformed(
            f"{size} bytes from byte {position} do not fit into the record, which ends at {end}"
        )
    return section[position : position + size], position + size
