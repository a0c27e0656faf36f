"""What a consumer of committed records must know: which transactions were aborted in its bytes."""

from __future__ import annotations

from collections.abc import Sequence

from log.batch_scan import headers
from log.errors import CorruptLog, NotInMemory
from log.files.cached_file import CachedFile
from log.segment import Segment
from log.values import ReadInfo


def overlapping(segments: Sequence[Segment], offset: int, end: int) -> list[tuple[int, int]]:
    """See PartitionLog.aborted_between: those whose markers lie in ``segments``.

    A marker may lie in two of them, one of which has been replaced by the other.
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
    """An offset that the bytes which were read end below, as near as is known without waiting.

    It is that of the index's next entry, as Kafka takes it, or that of the next batch where the
    index has none. It is ``unknown`` where the disk would be waited for, and at the segment's end.
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
