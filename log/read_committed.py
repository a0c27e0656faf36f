"""Finds the aborted transactions in the bytes that a fetch with isolation level read_committed
returns."""

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

    Returns each transaction once. A transaction can be in two segments of the list if a cleaned
    segment has just replaced one of them.
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
    """Returns an offset above all offsets in the bytes of ``info``. As in Kafka, this is the offset
    of the first index entry after the bytes. If the index has no such entry, it is the base offset
    of the next batch.

    Returns ``unknown`` if the bytes end at the end of their segment, or if the function would have
    to wait for the disk.
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
