"""Reads markers from control batches: the transaction that a marker ends, and whether it commits or
aborts the transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from log.batch_scan import Header
from log.errors import CorruptLog
from log.files.filesystem import File
from log.values import Ended, Marker
from protocol.buffer import Buffer
from protocol.records.batch import BatchHeader, iter_batches, read_header
from protocol.records.corrupt import CorruptRecords
from protocol.records.markers import transaction_end


def marker_in(data: Buffer, header: BatchHeader) -> Ended | None:
    """Returns the marker of a control batch; None if the batch does not end a transaction. Raises
    CorruptRecords."""
    end = transaction_end(data, header)
    if end is None:
        return None
    committed, coordinator_epoch = end
    marker = Marker(header.producer_id, header.producer_epoch, coordinator_epoch, committed)
    return Ended(marker, header.base_offset, header.max_timestamp)


def marker_at(file: File, batch: Header) -> Ended | None:
    """Returns the marker of a control batch in a segment's file; None if the batch does not end a
    transaction. Raises CorruptLog."""
    data = file.read(batch.position, batch.end - batch.position)
    try:
        return marker_in(data, read_header(data))
    except CorruptRecords as error:
        raise CorruptLog(file.path, batch.position, error.message) from None


def with_markers(buffer: Buffer, headers: Iterable[BatchHeader]) -> Sequence[BatchHeader | Ended]:
    """Returns ``headers`` in the same order, with the header of each control batch replaced by the
    batch's marker. A control batch without a marker is omitted.

    Batches are matched by their base offset, because the positions in ``headers`` may differ from
    the positions in ``buffer``.
    """
    found: list[BatchHeader | Ended] = []
    placed: dict[int, BatchHeader] | None = None
    for header in headers:
        if not header.is_control:
            found.append(header)
            continue
        if placed is None:
            placed = {each.base_offset: each for each, _ in iter_batches(buffer)}
        ended = marker_in(buffer, placed[header.base_offset])
        if ended is not None:
            found.append(ended)
    return found
