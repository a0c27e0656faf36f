"""Finding batches in a log by offset, and going through all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from log.batch_scan import whole_batches
from log.errors import OffsetOutOfRange
from log.segment import Place, Segment
from log.values import ReadInfo, Slice
from protocol.records.batch import BatchHeader

if TYPE_CHECKING:
    from log.partition_log import PartitionLog


def read(
    log: PartitionLog,
    offset: int,
    max_bytes: int,
    min_one_batch: bool,
    max_offset: int | None,
    wait: bool = True,
) -> ReadInfo:
    """See PartitionLog.read."""
    limit = log.high_watermark if max_offset is None else max_offset
    if not log.log_start_offset <= offset <= log.log_end_offset:
        raise OffsetOutOfRange(offset, log.log_start_offset, log.log_end_offset)
    found = find(log, offset, wait) if offset < limit else None
    if found is None:
        return _info(log, ())
    segment, place = found
    end = segment.size
    if limit < log.log_end_offset:
        beyond = segment.locate(limit, wait=wait)
        end = end if beyond is None else beyond.position
    first = place.end - place.position
    length = min(max_bytes, end - place.position)
    if length < first and min_one_batch:
        length = min(first, end - place.position)
    if length <= 0:
        return _info(log, ())
    return _info(log, (Slice(segment.file.opened(), place.position, length),), length < first)


def find(log: PartitionLog, offset: int, wait: bool = True) -> tuple[Segment, Place] | None:
    """The first batch that ends at or above ``offset``; None when there is none."""
    for segment in log.segments[log.segment_index(offset) :]:
        place = segment.locate(offset, wait=wait)
        if place is not None:
            return segment, place
    return None


def scan(
    log: PartitionLog, from_offset: int | None, chunk_bytes: int
) -> Iterator[tuple[bytes, BatchHeader]]:
    """See PartitionLog.scan."""
    offset = log.log_start_offset if from_offset is None else from_offset
    for segment in log.segments[log.segment_index(offset) :]:
        end = segment.size
        place = segment.locate(offset, end)
        if place is None:
            continue
        for buffer, header, _ in whole_batches(segment.file, place.position, end, chunk_bytes):
            yield buffer, header


def _info(log: PartitionLog, slices: tuple[Slice, ...], incomplete: bool = False) -> ReadInfo:
    return ReadInfo(
        slices, log.log_start_offset, log.log_end_offset, log.high_watermark, incomplete
    )
