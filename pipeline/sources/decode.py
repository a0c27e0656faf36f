"""Decodes the entries of a `__consumer_offsets` log to rows, for every message format.

Neighbouring records of a magic 2 batch that differ only in numbers, such as the offsets of one
commit, are decoded together as a numpy table. Other records of the batch are decoded one by one.
Messages of magic 0 and 1 have their own decoder. The row of a record that a transaction wrote
contains the producer id and epoch. The transaction's marker, a record of a control batch, becomes a
row too.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from offsets.plain_record import PARTITION_BYTES
from pipeline.model.events import COMMIT
from pipeline.sources.event_rows import KIND, NONE, ROW, EventRows, pack_row
from pipeline.sources.plain_values import (
    EPOCH_AT,
    OFFSET_AND_EPOCH_BYTES,
    OFFSET_AT,
    TIMESTAMP_BYTES,
    TOPIC_ID_BYTES,
    Layout,
    layout_of,
)
from protocol.buffer import Buffer
from protocol.records.batch import LOG_APPEND_BIT, BatchHeader, section_of
from protocol.records.corrupt import CorruptRecords
from protocol.records.section import wrap_int64
from protocol.records.stored import stored_records, validate_stored
from protocol.records.varint import read_varint, read_varlong

_STRETCH_MIN = 6
"""The minimum number of consecutive records that are decoded together as a table. Fewer records are
decoded faster one by one."""
_LOOK_MIN = 16
_ONE_BYTE = 0x80
_WAIT_RECORDS = 16
"""The number of records that are decoded one by one after fewer than `_STRETCH_MIN` records could
be decoded together as a table. Then the decoder tries a table again."""
_COMMIT = KIND[COMMIT]
ALL_OFFSETS = (0, (1 << 63) - 1)


class _Places(NamedTuple):
    """The layout of a record: the positions of its fields relative to its first byte, its size, and
    the layout of its value."""

    delta_at: int
    key_at: int
    key_start: int
    partition_at: int
    value_at: int
    size: int
    layout: Layout


class _Shape(NamedTuple):
    """The common layout of several records: the dtype that reads one of them, and the bits that are
    equal in all of them."""

    record: np.dtype[Any]
    fixed: NDArray[np.uint8]
    """A mask for the bytes of a record. A bit of the mask is 1 if this bit has the same value in
    every record of this shape."""


def add_entry(
    rows: EventRows, buffer: Buffer, header: BatchHeader, offsets: tuple[int, int] = ALL_OFFSETS
) -> None:
    """Adds the records of one entry whose offsets are in the range ``offsets``. The range does not
    include its second number.

    Raises CorruptRecords if the checksum, the codec or the structure of the entry is wrong. Rows
    that were added before the error stay.
    """
    validate_stored(buffer, header)
    first, behind = offsets
    rows.producer_id, rows.producer_epoch = NONE, NONE
    if header.magic == 2 and header.is_transactional:
        rows.producer_id, rows.producer_epoch = header.producer_id, header.producer_epoch
    if header.magic == 2 and header.is_control:
        for record in stored_records(buffer, header):
            if first <= record.offset < behind:
                rows.add_marker(record.offset, record.timestamp, record.key, record.value)
        return
    if header.magic == 2 and header.base_offset >= first and header.last_offset < behind:
        _add_section(rows, section_of(buffer, header), header)
        return
    for record in stored_records(buffer, header):
        if first <= record.offset < behind:
            rows.add_record(record.offset, record.timestamp, record.key, record.value)


def _add_section(rows: EventRows, section: bytes, header: BatchHeader) -> None:
    """Adds the records of a batch. ``section`` contains its records uncompressed."""
    position = done = wait = 0
    count, size = header.record_count, len(section)
    append_time = header.max_timestamp if header.attributes & LOG_APPEND_BIT else None
    while done < count:
        start = position
        try:
            time_delta, delta_at, delta, *more = _head_at(section, start)
        except IndexError:
            raise CorruptRecords(f"Record {done} of {count} extends beyond its batch.") from None
        key_at, key_bytes, key_start, value_bytes, value_start, end = more
        key_end = key_start + max(key_bytes, 0)
        value_end = value_start + max(value_bytes, 0)
        if end > size or value_end >= end or not 0 <= delta <= header.last_offset_delta:
            raise CorruptRecords(
                f"Record {done} of {count} is invalid: its offset delta is {delta}, it ends at byte"
                f" {end} of {size}, and its value ends at byte {value_end}."
            )
        written_ms = header.base_timestamp if append_time is None else append_time
        if time_delta and append_time is None:
            written_ms = wrap_int64(written_ms + time_delta)
        rows.add_record(
            header.base_offset + delta,
            written_ms,
            section[key_start:key_end] if key_bytes >= 0 else None,
            section[value_start:value_end] if value_bytes >= 0 else None,
        )
        position = end
        done += 1
        if wait:
            wait -= 1
            continue
        step = end - start
        ahead = end + (_STRETCH_MIN - 1) * step  # the start of the record that many records ahead
        value_at = value_start - start
        if (
            count - done >= _STRETCH_MIN
            and value_end == end - 1
            and section[ahead : ahead + delta_at - start] == section[start:delta_at]
            and section[ahead + value_at - 1 : ahead + value_at + 2]
            == section[value_start - 1 : value_start + 2]
            and (layout := layout_of(section[value_start:value_end]))
        ):
            places = _Places(
                delta_at - start, key_at - start, key_start - start,
                key_end - PARTITION_BYTES - start, value_at, step, layout,
            )  # fmt: skip
            most = min(rows.look, count - done)
            taken = _add_stretch(rows, section, start, places, most, header.base_offset, written_ms)
            rows.look = 2 * rows.look if taken == rows.look else max(_LOOK_MIN, taken)
            wait = 0 if taken >= _STRETCH_MIN else _WAIT_RECORDS
            position += taken * step
            done += taken
    if position != size:
        raise CorruptRecords(
            f"{size - position} unexpected bytes follow the {count} records of a batch."
        )


def _head_at(section: bytes, start: int) -> tuple[int, int, int, int, int, int, int, int, int]:
    """Reads the fields of the record at ``start`` up to its value.

    Returns nine numbers: the time delta; the position and the value of the offset delta; the
    position and the value of the key's size; the position of the key; the size and the position of
    the value; the end of the record. Raises IndexError or CorruptRecords if the section ends before
    the value. One-byte numbers are decoded inline, which is faster.
    """
    length, at = read_varint(section, start)
    if section[at + 1]:
        time_delta, delta_at = read_varlong(section, at + 1)
    else:
        time_delta, delta_at = 0, at + 2
    byte = section[delta_at]
    if byte < _ONE_BYTE:
        delta, key_at = (byte >> 1) ^ -(byte & 1), delta_at + 1
    else:
        delta, key_at = read_varint(section, delta_at)
    byte = section[key_at]
    if byte < _ONE_BYTE:
        key_bytes, key_start = (byte >> 1) ^ -(byte & 1), key_at + 1
    else:
        key_bytes, key_start = read_varint(section, key_at)
    key_end = key_start + key_bytes if key_bytes > 0 else key_start
    byte = section[key_end]
    if byte < _ONE_BYTE:
        value_bytes, value_start = (byte >> 1) ^ -(byte & 1), key_end + 1
    else:
        value_bytes, value_start = read_varint(section, key_end)
    end = at + length
    return time_delta, delta_at, delta, key_at, key_bytes, key_start, value_bytes, value_start, end


def _add_stretch(
    rows: EventRows,
    section: bytes,
    start: int,
    places: _Places,
    at_most: int,
    base_offset: int,
    written_ms: int,
) -> int:
    """Adds the records that directly follow the record at ``start`` and have the layout ``places``,
    but at most ``at_most`` records. Stops at the first record with another layout. Returns the
    number of added records.

    Records of one layout may have different groups and topics, but the names have equal lengths.
    """
    size = places.size
    end = start + size
    key_start = start + places.key_start
    group_bytes = int.from_bytes(section[key_start + 2 : key_start + 4], "big")
    count = min(at_most, (len(section) - end) // size)
    if count < 1 or section[end - 1] or 6 + group_bytes > places.partition_at - places.key_start:
        return 0
    shape = _shape(places, group_bytes)
    table = np.frombuffer(section, np.uint8, (count + 1) * size, start).reshape(count + 1, size)
    differs = ((table[1:] ^ table[0]) & shape.fixed).any(axis=1)
    if differs.any():
        count = int(differs.argmax())
        if not count:
            return 0
    count, groups, topics = _names(rows, table[: count + 1], places)
    if not count:
        return 0
    records = np.frombuffer(section, shape.record, count, end)
    row = pack_row(
        0, written_ms, 0, 0, NONE, rows.producer_id, rows.log_partition, 0, 0, 0, 0, 0,
        places.layout.version, rows.producer_epoch, _COMMIT,
    )  # fmt: skip
    made = np.frombuffer(bytearray(row * count), ROW)
    made["log_offset"] = _deltas(records, places.key_at - places.delta_at) + base_offset
    made["group"], made["topic"] = groups, topics
    for name in ("committed_offset", "commit_ms", "partition", "leader_epoch"):
        made[name] = records[name]
    rows.packed += made.data
    return count


def _names(
    rows: EventRows, table: NDArray[np.uint8], places: _Places
) -> tuple[int, NDArray[np.int32], NDArray[np.int32]]:
    """Reads the group and the topic in the key of each record in ``table``, from the second record
    on, until a key is invalid.

    Returns the number of valid records, and for each of these records the numbers by which ``rows``
    refers to its group and its topic.
    """
    keys = table[:, places.key_start : places.partition_at]
    begins = [1, *(np.flatnonzero((keys[2:] != keys[1:-1]).any(axis=1)) + 2).tolist()]
    found: list[tuple[int, int]] = []
    count = len(table) - 1
    for begin in begins:
        names = rows.names(keys[begin].tobytes())
        if names is None:
            count = begin - 1
            break
        found.append(names)
    lengths = np.diff([*begins[: len(found)], count + 1])
    columns = np.array(found, np.int32).reshape(-1, 2)
    return count, np.repeat(columns[:, 0], lengths), np.repeat(columns[:, 1], lengths)


def _deltas(records: NDArray[Any], width: int) -> NDArray[np.int64]:
    """Decodes offset deltas, which are zigzag varints of ``width`` bytes. Negative deltas do not
    occur."""
    delta = (records["delta0"] & 0x7F).astype(np.int64)
    for byte in range(1, width):
        delta |= (records[f"delta{byte}"] & 0x7F).astype(np.int64) << (7 * byte)
    return delta >> 1


@lru_cache(maxsize=1024)
def _shape(places: _Places, group_bytes: int) -> _Shape:
    delta_at, key_at, key_start, partition_at, value_at, size, layout = places
    offset_at, time_at = value_at + OFFSET_AT, value_at + layout.timestamp_at
    fixed = np.full(size, 0xFF, np.uint8)
    fixed[delta_at:key_at] = 0x80  # the length of the delta
    fixed[delta_at] = 0x81  # and its sign: not negative
    fixed[key_start + 4 : key_start + 4 + group_bytes] = 0
    fixed[key_start + 6 + group_bytes : partition_at + PARTITION_BYTES] = 0  # topic, partition
    fixed[offset_at : offset_at + OFFSET_AND_EPOCH_BYTES] = 0
    fixed[time_at : time_at + TIMESTAMP_BYTES] = 0
    if layout.topic_id_at is not None:
        topic_id_at = value_at + layout.topic_id_at
        fixed[topic_id_at : topic_id_at + TOPIC_ID_BYTES] = 0
    fields = [
        ("partition", ">i4", partition_at),
        ("committed_offset", ">i8", offset_at),
        ("leader_epoch", ">i4", value_at + EPOCH_AT),
        ("commit_ms", ">i8", time_at),
        *((f"delta{i}", "u1", delta_at + i) for i in range(key_at - delta_at)),
    ]
    names, formats, offsets = zip(*fields, strict=True)
    record = np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": size})
    return _Shape(record, fixed)
