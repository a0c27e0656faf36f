"""The timestamp of the first record at or above an offset: how old what a consumer has not read is.

One record is wanted, so little is read: the header of its batch often says it already. Where it
does not, the records are opened, unless the batch is so large that this would cost milliseconds;
then its first timestamp serves, and the answer says that it is approximate.
"""

from __future__ import annotations

import struct
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from log.batch_scan import Header, headers
from log.errors import CorruptLog
from log.filesystem import Buffer
from log.segment import Segment
from protocol.records.batch import HEADER_BYTES, section_of
from protocol.records.corrupt import CorruptRecords
from protocol.records.stored import read_stored, stored_records

if TYPE_CHECKING:
    from log.partition_log import PartitionLog

COMPRESSED_BYTES_MAX = 16 * 1024
PLAIN_BYTES_MAX = 1024 * 1024
OPENED_BYTES_MAX = 1024 * 1024
RECORDS_MAX = 5000
"""Batches beyond any of these are not opened: about 5 ms at most."""
BATCHES_MAX = 1000
"""Batches without a record (cleaned out, or markers) that are passed over before giving up."""

_TIMES = struct.Struct(">27xqq14xi")
"""Base timestamp, largest timestamp, record count of a batch of magic 2."""
_CODEC, _LOG_APPEND, _CONTROL, _DELETE_HORIZON = 0x07, 0x08, 0x20, 0x40


class RecordTime(NamedTuple):
    """Wall milliseconds, as the log has them, and whether they are another record's nearby."""

    timestamp_ms: int
    approximate: bool


def first_record_time(log: PartitionLog, offset: int) -> RecordTime | None:
    """Of the first record at or above ``offset`` that a consumer would see; in any thread.

    None when there is none, or when its format has no timestamps (magic 0). Raises CorruptLog and
    OSError.
    """
    for segment in log.segments[log.segment_index(offset) :]:
        place = segment.locate(offset)
        if place is None:
            continue
        for batch in islice(headers(segment.file, place.position, segment.size), BATCHES_MAX):
            if batch.attributes & _CONTROL and batch.magic == 2:
                continue
            found = _of_batch(segment, batch, offset)
            if found is not None:
                return None if found.timestamp_ms < 0 else found
    return None


def _of_batch(segment: Segment, batch: Header, offset: int) -> RecordTime | None:
    """None when the batch has no record at or above ``offset``."""
    size = batch.end - batch.position
    attributes = batch.attributes
    too_long = size > (COMPRESSED_BYTES_MAX if attributes & _CODEC else PLAIN_BYTES_MAX)
    first_ms = batch.max_timestamp
    if batch.magic == 2:
        head = segment.file.read(batch.position, HEADER_BYTES)
        base_ms, max_ms, count = _TIMES.unpack_from(head)
        if not count:
            return None
        whole = count == batch.last_offset - batch.base_offset + 1
        if attributes & _LOG_APPEND and whole:
            return RecordTime(max_ms, False)
        if not attributes & _DELETE_HORIZON:
            first_ms = base_ms
            if whole and batch.base_offset >= offset:
                return RecordTime(base_ms, False)
        too_long = too_long or count > RECORDS_MAX
    else:
        whole = False
        base_ms = -1
    if too_long:
        return RecordTime(first_ms, True)
    data = segment.file.read(batch.position, size)
    try:
        if batch.magic == 2 and whole and not attributes & _DELETE_HORIZON:
            section = section_of(data, read_stored(data), OPENED_BYTES_MAX)
            return RecordTime(
                base_ms + _timestamp_delta(section, offset - batch.base_offset), False
            )
        records = stored_records(data, read_stored(data), OPENED_BYTES_MAX)
    except (CorruptRecords, IndexError) as error:
        if attributes & _CODEC:  # or it opens to more than is wanted here
            return RecordTime(first_ms, True)
        raise CorruptLog(
            segment.file.path, batch.position, f"its records end early: {error}"
        ) from None
    for record in records:
        if record.offset >= offset:
            return RecordTime(record.timestamp, False)
    return None


def _timestamp_delta(section: Buffer, index: int) -> int:
    """That of record ``index`` of a section; those before it are stepped over by their lengths."""
    position = 0
    for _ in range(index):
        length, position = _varint(section, position)
        position += length
    _, position = _varint(section, position)
    return _varint(section, position + 1)[0]


def _varint(section: Buffer, position: int) -> tuple[int, int]:
    """A zigzag number and the position behind it; IndexError where the bytes end."""
    byte = section[position]
    position += 1
    value = byte & 0x7F
    shift = 7
    while byte & 0x80:
        byte = section[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    return (value >> 1) ^ -(value & 1), position
