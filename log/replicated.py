"""Checks batches from the leader's log before a follower appends them, and splits them into writes.

The bytes of the leader are not changed. Offsets always ascend, but may have gaps, because the
leader's cleaner removed records. An incomplete batch at the end of a Fetch response is omitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from log.markers import marker_in
from log.values import Ended
from protocol.buffer import Buffer
from protocol.errors import CORRUPT_MESSAGE
from protocol.records.batch import BatchHeader
from protocol.records.corrupt import CorruptRecords
from protocol.records.stored import iter_stored, validate_stored


class Piece(NamedTuple):
    """Consecutive batches that are appended with one write to one segment."""

    buffer: memoryview
    epochs: Sequence[tuple[int, int]]
    """The leader epochs that begin in the batches of this piece, each with its start offset."""
    producers: Sequence[BatchHeader | Ended]
    """The header of each data batch with a producer id, and the marker of each control batch, in
    log order."""
    last_offset: int
    max_timestamp_ms: int


class BelowEnd(CorruptRecords):
    """Raised if the first batch begins below the log end offset, at ``first_offset``, and ends at
    or above the log end offset."""

    def __init__(self, first_offset: int, end_offset: int) -> None:
        super().__init__(
            f"The batch begins at offset {first_offset}, before the log end offset {end_offset}.",
            CORRUPT_MESSAGE,
        )
        self.first_offset = first_offset


AT_ONCE = 1500
"""The maximum number of batches that are checked and appended at once, which takes 7 ms."""


def pieces(batches: Buffer, end_offset: int, latest_epoch: int, segment_bytes: int) -> list[Piece]:
    """Returns the writes that append the first complete batches of ``batches``, at most AT_ONCE, to
    a log that ends at ``end_offset``. May run in any thread.

    Checks that checksums are correct, that offsets ascend, and that no epoch is below
    ``latest_epoch``. Raises CorruptRecords for invalid batches. Raises BelowEnd if the first batch
    begins below ``end_offset`` and everything else is correct: an empty log could begin with this
    batch.
    """
    whole = memoryview(batches)
    found: list[Piece] = []
    headers: list[BatchHeader] = []
    size, due, epoch = 0, end_offset, latest_epoch
    for header, _ in islice(iter_stored(whole, partial=True), AT_ONCE):
        validate_stored(whole, header)
        _check_order(header, due, epoch, end_offset)
        if headers and size + header.size_bytes > segment_bytes:
            found.append(_piece(whole, headers, latest_epoch))
            headers, size, latest_epoch = [], 0, epoch
        headers.append(header)
        size += header.size_bytes
        due = header.last_offset + 1
        epoch = max(epoch, header.partition_leader_epoch)
    if headers:
        found.append(_piece(whole, headers, latest_epoch))
    return found


def _piece(whole: memoryview, headers: Sequence[BatchHeader], latest_epoch: int) -> Piece:
    epochs = []
    for header in headers:
        if header.partition_leader_epoch > latest_epoch:
            latest_epoch = header.partition_leader_epoch
            epochs.append((latest_epoch, header.base_offset))
    return Piece(
        whole[headers[0].position : headers[-1].end],
        epochs,
        [_of_producer(whole, header) for header in headers if header.producer_id >= 0],
        headers[-1].last_offset,
        max([header.max_timestamp for header in headers]),
    )


def _of_producer(whole: memoryview, header: BatchHeader) -> BatchHeader | Ended:
    """Returns the marker in a batch, or the header of the batch if it has no marker. A control
    batch has no marker if a cleaner has removed all its records."""
    return (marker_in(whole, header) if header.is_control else None) or header


def _check_order(header: BatchHeader, due: int, epoch: int, end_offset: int) -> None:
    if header.magic == 2:
        if header.base_offset < due:
            if due == end_offset and header.last_offset >= due:
                raise BelowEnd(header.base_offset, end_offset)
            raise CorruptRecords(
                f"The batch begins at offset {header.base_offset}, expected {due}.",
                CORRUPT_MESSAGE,
            )
        if 0 <= header.partition_leader_epoch < epoch:
            raise CorruptRecords(
                f"The batch at offset {header.base_offset} has leader epoch"
                f" {header.partition_leader_epoch}, lower than epoch {epoch} of the batch before.",
                CORRUPT_MESSAGE,
            )
    elif header.last_offset < due:  # a wrapper's header has only its last offset
        raise CorruptRecords(
            f"The message has offset {header.last_offset}, expected {due}.", CORRUPT_MESSAGE
        )
