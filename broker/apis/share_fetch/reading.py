"""Reads the batches of a log from which a ShareFetch acquires records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from broker.net.request import Chunk
from broker.share.live_partition import LivePartition
from log.batch_scan import Header, headers
from log.files.cached_file import CachedFile
from log.partition_log import PartitionLog
from log.values import ReadInfo, Slice
from protocol.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT
from share.partition.values import FetchedBatch

READ_AT_ONCE = 64 * 1024
"""The most bytes of one partition that are copied from its file into memory, so that few records
need no file descriptor until the response is sent."""


class Batches(NamedTuple):
    """Batches that were found in a log; their records are still in the file."""

    info: ReadInfo
    headers: Sequence[Header]
    """The headers of whole batches, at least one."""

    @property
    def size_bytes(self) -> int:
        """The size of the batches in bytes."""
        return self.headers[-1].end - self.headers[0].position

    def fetched(self, offset: int) -> list[FetchedBatch]:
        """Returns the offsets of the batches, which were read from ``offset`` on.

        The header of a compressed message set of an old format does not have the first offset.
        """
        found: list[FetchedBatch] = []
        after = offset
        for header in self.headers:
            base_offset = header.base_offset
            if header.magic < 2 and header.attributes:
                base_offset = min(after, base_offset)
            found.append(FetchedBatch(base_offset, header.last_offset))
            after = header.last_offset + 1
        return found

    def piece(self, first_offset: int, last_offset: int) -> Slice:
        """Returns the bytes of the batches that contain these offsets, both ends included."""
        inside = [
            header
            for header in self.headers
            if header.last_offset >= first_offset and header.base_offset <= last_offset
        ]
        file = self.info.slices[0].file
        return Slice(file, inside[0].position, inside[-1].end - inside[0].position)


def read_batches(
    log: PartitionLog,
    offset: int,
    max_bytes: int,
    is_first: bool,
    end: int,
    last_wanted: int,
    wait: bool,
) -> Batches | None:
    """Returns at most ``max_bytes`` of batches from the batch with ``offset`` on and before the
    offset ``end``; None without a whole batch.

    If ``is_first`` is true, the first batch is returned whatever its size. Other batches that begin
    after the offset ``last_wanted`` are omitted. With ``wait`` the function waits for
    the disk and runs in any thread; otherwise it raises NotInMemory. Raises CorruptLog, OSError and
    OffsetOutOfRange.
    """
    info = log.read(offset, max_bytes, is_first, end, wait)
    if not info.slices or info.first_entry_incomplete or info.segment is None:
        return None
    [piece] = info.slices
    file = piece.file if wait else CachedFile(piece.file)
    found: list[Header] = []
    for header in headers(file, piece.position, info.segment.size):
        if (
            header.end > piece.position + piece.length
            or header.base_offset >= end
            or (found and header.base_offset > last_wanted)
        ):
            break
        found.append(header)
    return Batches(info, found) if found else None


def aborted_ranges(
    found: Sequence[Header], aborted: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Returns the first and last offsets of the batches that belong to aborted transactions.

    ``aborted`` has the producer id and the first offset of each aborted transaction, ordered by
    first offset. A transaction ends at the next control batch of its producer.
    """
    ranges: list[tuple[int, int]] = []
    begun: set[int] = set()
    index = 0
    for header in found:
        while index < len(aborted) and aborted[index][1] <= header.last_offset:
            begun.add(aborted[index][0])
            index += 1
        if header.producer_id not in begun or not header.attributes & TRANSACTIONAL_BIT:
            continue
        if header.attributes & CONTROL_BIT:
            begun.discard(header.producer_id)
        else:
            ranges.append((header.base_offset, header.last_offset))
    return ranges


def chunk(piece: Slice) -> Chunk:
    """Returns the bytes of a piece if they are few and in memory; otherwise the piece itself."""
    if piece.length <= READ_AT_ONCE:
        data = piece.file.read_cached(piece.position, piece.length)
        if data is not None and len(data) == piece.length:
            return data
    return piece


class Reading(NamedTuple):
    """A share partition whose log was read; the share partition is locked for other requests."""

    live: LivePartition
    offset: int
    batches: Batches
    aborted: Sequence[tuple[int, int]]
