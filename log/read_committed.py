"""Finds the aborted transactions that affect the bytes of a read_committed fetch."""

from __future__ import annotations

from collections.abc import Sequence

from log.batch_scan import headers
from log.errors import CorruptLog, NotInMemory
from log.files.cached_file import CachedFile
from log.segment import Segment
from log.values import ReadInfo


def overlapping(segments: Sequence[Segment], offset: int, end: int) -> list[tuple[int, int]]:
    """Implements PartitionLog.aborted_between for the transactions whose markers are in
    ``segments``.

    A marker may be in two of the segments, because a cleaned segment may have replaced another
    segment.
    """
    found = [
        (entry.first_offset, entry.producer_id)
        for segment in segments
        if segment.transactions
        for entry in segment.transactions.overlapping(offset, end)
    ]
    if len(segments) > 1:
        found = list(set(found))
    found.sort()
    return [(producer_id, first_offset) for first_offset, producer_id in found]


def end_of_bytes(info: ReadInfo, unknown: int) -> int:
    """Returns an upper bound of the offsets in the bytes read, as close as possible without a wait
    for the disk.

    The bound is the offset of the index's next entry, as in Kafka, or of the next batch if the
    index has no such entry. The result is ``unknown`` if the read would wait for the disk, and at
    the end of the segment.
    """
    segment = info.segment
    if segment is None or not info.slices:
        return unknown
    [piece] = info.slices
    end = piece.position + piece.length
    if end >= segment.size:
        return unknown
    try:
        known, behind = segment.index.around(end, wait=False)
        if behind is not None:
            return behind
        for batch in headers(CachedFile(segment.file), known, segment.size):
            if batch.position >= end:
                return batch.base_offset
    except (NotInMemory, CorruptLog):
        pass
    return unknown
