"""Finds offsets by timestamp, for ListOffsets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from log.batch_scan import Header, headers
from log.errors import CorruptLog
from log.segment import Segment
from log.segments import Segments
from log.values import TimestampOffset
from protocol.records.corrupt import CorruptRecords
from protocol.records.section import Record
from protocol.records.stored import read_stored, stored_records

LATEST = -1
EARLIEST = -2


def offset_for_timestamp(
    segments: Segments, timestamp_ms: int, start_offset: int, limit: int
) -> TimestampOffset | None:
    """Returns the first record with a timestamp of at least ``timestamp_ms``, at an offset from
    ``start_offset`` to ``limit - 1``; None without such a record."""
    for segment in segments:
        if segment.max_timestamp_ms < timestamp_ms:
            continue
        known = max(segment.time_index.lookup(timestamp_ms), start_offset)
        for batch in headers(segment.file, segment.index.lookup(known), segment.size):
            if batch.max_timestamp < timestamp_ms or batch.last_offset < start_offset:
                continue
            for record in _records(segment, batch):
                if record.timestamp >= timestamp_ms and record.offset >= start_offset:
                    if record.offset >= limit:
                        return None
                    return TimestampOffset(record.timestamp, record.offset, batch.leader_epoch)
    return None


def offset_of_max_timestamp(segments: Segments, limit: int) -> TimestampOffset | None:
    """Returns the first record with the largest timestamp among the records below ``limit``."""
    looked_at = segments.up_to(limit)
    newest = [_largest_timestamp(segment, limit) for segment in looked_at]
    largest, offset = max(newest, key=_timestamp)
    if largest < 0:
        return None
    segment = looked_at[newest.index((largest, offset))]
    for batch in headers(segment.file, segment.index.lookup(offset), segment.size):
        if batch.max_timestamp != largest:
            continue
        for record in _records(segment, batch):
            if record.timestamp == largest:
                return TimestampOffset(largest, record.offset, batch.leader_epoch)
    return _newest_record(looked_at, limit)


def _largest_timestamp(segment: Segment, limit: int) -> tuple[int, int]:
    """Returns the largest timestamp of the batches below ``limit``, and the last offset of the
    first batch with this timestamp. Returns (-1, base offset) if no batch is below ``limit``.

    Reads no batches if the largest timestamp of the whole segment is below ``limit``. Otherwise,
    reads the headers of the few batches from the last entry of the time index below ``limit`` up to
    ``limit``.
    """
    largest, offset = segment.max_timestamp_ms, segment.max_timestamp_offset
    if offset < limit:
        return largest, offset
    largest, offset = segment.time_index.last_below(limit)
    for batch in headers(segment.file, segment.index.lookup(offset), segment.size):
        if batch.last_offset >= limit:
            break
        if batch.max_timestamp > largest:
            largest, offset = batch.max_timestamp, batch.last_offset
    return largest, offset


def _newest_record(segments: Sequence[Segment], limit: int) -> TimestampOffset | None:
    """Reads the headers of all batches to find the record with the largest timestamp.
    `offset_of_max_timestamp` needs this if a cleaning has removed all records of the batch with the
    largest timestamp."""
    newest: TimestampOffset | None = None
    for segment in segments:
        for batch in headers(segment.file, 0, segment.size):
            if batch.last_offset >= limit:
                return newest
            if newest is None or batch.max_timestamp > newest.timestamp_ms:
                for record in _records(segment, batch):
                    if newest is None or record.timestamp > newest.timestamp_ms:
                        epoch = batch.leader_epoch
                        newest = TimestampOffset(record.timestamp, record.offset, epoch)
    return newest


def _timestamp(entry: tuple[int, int]) -> int:
    return entry[0]


def segment_offsets_before(
    segments: Segments,
    timestamp_ms: int,
    max_offsets: int,
    *,
    start_offset: int,
    end_offset: int,
    limit: int,
    now_ms: int,
) -> list[int]:
    """Implements PartitionLog.segment_offsets_before. Replaces all offsets above ``limit`` by one
    offset, which is ``limit``."""
    starts = [
        (max(segment.base_offset, start_offset), segments.fs.modified_ms(segment.file.path))
        for segment in segments
    ]
    if segments.active.size:
        starts.append((end_offset, now_ms))
    if timestamp_ms == LATEST:
        count = len(starts)
    elif timestamp_ms == EARLIEST:
        count = 1
    else:
        count = max(
            (index for index, (_, time) in enumerate(starts, 1) if time <= timestamp_ms), default=0
        )
    newest_first = [offset for offset, _ in reversed(starts[:count])][: max(0, max_offsets)]
    visible = [offset for offset in newest_first if offset <= limit]
    if len(visible) < len(newest_first):
        visible.insert(0, limit)
    return visible


def _records(segment: Segment, batch: Header) -> Iterator[Record]:
    data = segment.file.read(batch.position, batch.end - batch.position)
    try:
        yield from stored_records(data, read_stored(data))
    except CorruptRecords as error:
        raise CorruptLog(segment.file.path, batch.position, error.message) from None
