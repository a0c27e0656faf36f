"""Entries of a `__consumer_offsets` log to rows, whatever Kafka wrote them.

A batch of magic 2 is read as bytes: neighbours that differ in their numbers alone, as the offsets
of one commit do, are read as a table (numpy), the rest record by record. Messages of magic 0 and 1
go through their own reader. Control batches are markers of transactions and give no rows; offsets
of a transaction are rows whether it was committed or aborted, as the wire gives them too.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.contract import COMMIT
from pipeline.sources.event_rows import KIND, NONE, ROW, EventRows, pack_row
from protocol.records.batch import LOG_APPEND_BIT, BatchHeader, section_of
from protocol.records.corrupt import CorruptRecords
from protocol.records.crc import Buffer
from protocol.records.section import wrap_int64
from protocol.records.stored import stored_records, validate_stored
from protocol.records.varint import read_varint, read_varlong

# A plain record, counted from its end: partition 30, value length and version 26, offset 23,
# leader epoch 15, metadata length 11, timestamp 9, header count 1.
_PLAIN_BYTES = 30
_VALUE_HEAD = b"\x30\x00\x03"
_STRETCH_MIN = 6
"""Below it a table costs more than its records one by one."""
_LOOK_MIN = 16
_COMMIT = KIND[COMMIT]
ALL_OFFSETS = (0, (1 << 63) - 1)


class _Shape(NamedTuple):
    """Records of one size whose numbers lie at the same places."""

    record: np.dtype[Any]
    fixed: NDArray[np.uint8]
    """The bits that are the same in every record."""


def add_entry(
    rows: EventRows, buffer: Buffer, header: BatchHeader, offsets: tuple[int, int] = ALL_OFFSETS
) -> None:
    """Add the records of one whole entry whose offsets lie in ``offsets``, first and behind last.

    Raises CorruptRecords when its checksum, codec or structure is wrong; rows that were added
    before the place of the error stay.
    """
    validate_stored(buffer, header)
    if header.is_control and header.magic == 2:
        return
    first, behind = offsets
    if header.magic == 2 and header.base_offset >= first and header.last_offset < behind:
        _add_section(rows, section_of(buffer, header), header)
        return
    append_time = header.magic == 2 and header.attributes & LOG_APPEND_BIT
    for record in stored_records(buffer, header):
        if first <= record.offset < behind:
            time = header.max_timestamp if append_time else record.timestamp
            rows.add_record(record.offset, time, record.key, record.value)


def _add_section(rows: EventRows, section: bytes, header: BatchHeader) -> None:
    """The records of a batch's plain section."""
    position = done = 0
    count, size = header.record_count, len(section)
    append_time = header.max_timestamp if header.attributes & LOG_APPEND_BIT else None
    look = _LOOK_MIN
    while done < count:
        start = position
        try:
            length, at = read_varint(section, position)
            end = at + length
            if length < 0 or end > size:
                raise CorruptRecords(f"Record {done} of {count} claims {length} bytes.")
            time_delta, delta_at = read_varlong(section, at + 1)
            delta, key_at = read_varint(section, delta_at)
            if not 0 <= delta <= header.last_offset_delta:
                raise CorruptRecords(f"Record {done} of {count} has offset delta {delta}.")
            key_bytes, key_start = read_varint(section, key_at)
            key_end = key_start + max(key_bytes, 0)
            value_bytes, value_start = read_varint(section, key_end)
            value_end = value_start + max(value_bytes, 0)
            if value_end >= end:
                raise CorruptRecords(f"Record {done} of {count} has a value beyond its end.")
        except IndexError:
            raise CorruptRecords(f"Record {done} of {count} ends beyond its batch.") from None
        if append_time is None:
            written_ms = wrap_int64(header.base_timestamp + time_delta)
        else:
            written_ms = append_time
        rows.add_record(
            header.base_offset + delta,
            written_ms,
            section[key_start:key_end] if key_bytes >= 0 else None,
            section[value_start:value_end] if value_bytes >= 0 else None,
        )
        position = end
        done += 1
        step = end - start
        ahead = start + _STRETCH_MIN * step
        if (
            count - done >= _STRETCH_MIN
            and value_bytes == _PLAIN_BYTES - 6
            and section[end - 26 : end - 23] == _VALUE_HEAD
            and section[ahead + key_at - start : ahead + key_end - start - 4]
            == section[key_at : key_end - 4]
            and section[start] == section[ahead]
        ):
            taken = _add_stretch(
                rows, section, start, end, delta_at - start, key_at - start,
                key_start - start, min(look, count - done), header.base_offset, written_ms,
            )  # fmt: skip
            look = 2 * look if taken == look else max(_LOOK_MIN, taken)
            position += taken * step
            done += taken
    if position != size:
        raise CorruptRecords(f"{size - position} bytes follow the {count} records of a batch.")


def _add_stretch(
    rows: EventRows,
    section: bytes,
    start: int,
    end: int,
    delta_at: int,
    key_at: int,
    key_start: int,
    at_most: int,
    base_offset: int,
    written_ms: int,
) -> int:
    """Add the plain records behind the one from ``start`` to ``end`` that are like it; how many."""
    size = end - start
    count = min(at_most, (len(section) - end) // size)
    places = rows.names(section[start + key_start : end - _PLAIN_BYTES])
    if count < 1 or places is None or section[end - 11 : end - 9] != b"\0\0" or section[end - 1]:
        return 0
    shape = _shape(size, delta_at, key_at)
    table = np.frombuffer(section, np.uint8, (count + 1) * size, start).reshape(count + 1, size)
    differs = ((table[1:] ^ table[0]) & shape.fixed).any(axis=1)
    if differs.any():
        count = int(differs.argmax())
        if not count:
            return 0
    records = np.frombuffer(section, shape.record, count, end)
    row = pack_row(
        0, written_ms, 0, 0, NONE, rows.log_partition, places[0], places[1], 0, 0, 0, 3, _COMMIT
    )
    made = np.frombuffer(bytearray(row * count), ROW)
    made["log_offset"] = _deltas(records, key_at - delta_at) + base_offset
    for name in ("committed_offset", "commit_ms", "partition", "leader_epoch"):
        made[name] = records[name]
    rows.packed += made.tobytes()
    return count


def _deltas(records: NDArray[Any], width: int) -> NDArray[np.int64]:
    """Offset deltas, zigzag varints of so many bytes; even, so not negative."""
    delta = (records["delta0"] & 0x7F).astype(np.int64)
    for byte in range(1, width):
        delta |= (records[f"delta{byte}"] & 0x7F).astype(np.int64) << (7 * byte)
    return delta >> 1


@lru_cache(maxsize=256)
def _shape(size: int, delta_at: int, key_at: int) -> _Shape:
    fixed = np.full(size, 0xFF, np.uint8)
    fixed[delta_at:key_at] = 0x80  # how many bytes the delta has
    fixed[delta_at] = 0x81  # and that it is not negative
    fixed[size - 30 : size - 26] = 0  # partition
    fixed[size - 23 : size - 11] = 0  # offset, epoch
    fixed[size - 9 : size - 1] = 0  # commit timestamp
    deltas = [(f"delta{i}", "u1", delta_at + i) for i in range(key_at - delta_at)]
    fields = [
        ("partition", ">i4", size - 30),
        ("committed_offset", ">i8", size - 23),
        ("leader_epoch", ">i4", size - 15),
        ("commit_ms", ">i8", size - 9),
        *deltas,
    ]
    record = np.dtype(
        {
            "names": [name for name, _, _ in fields],
            "formats": [kind for _, kind, _ in fields],
            "offsets": [offset for _, _, offset in fields],
            "itemsize": size,
        }
    )
    return _Shape(record, fixed)
