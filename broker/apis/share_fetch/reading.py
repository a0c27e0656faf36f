"""Reads batches from a log, for a ShareFetch that acquires their records."""

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
"""The maximum number of bytes of one partition that ShareFetch copies from a file into memory. A
response with copied records needs no open file while it waits to be sent."""


class Batches(NamedTuple):
    """The positions and headers of batches in a log; the records are not read."""

    info: ReadInfo
    headers: Sequence[Header]
    """The headers of all complete batches that were read. There is at least one."""

    @property
    def size_bytes(self) -> int:
        return self.headers[-1].end - self.headers[0].position

    def fetched(self, offset: int) -> list[FetchedBatch]:
        """Returns the first and last offset of each batch. ``offset`` is the offset at which the
        read began.

        The header of a compressed message set of an old format has no first offset. The set then
        begins after the preceding batch.
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
        """Returns the part of the file with the batches that contain ``first_offset`` to
        ``last_offset`` (inclusive)."""
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
    """Returns the batches from ``offset`` up to the offset ``end`` (exclusive), at most
    ``max_bytes``. Returns None if no complete batch fits.

    If ``is_first`` is True, the first batch is returned whatever its size. Later batches that begin
    after the offset ``last_wanted`` are omitted. If ``wait`` is True, the function may wait for the
    disk, so it must run outside the event loop's thread. If ``wait`` is False, it raises
    NotInMemory instead. Raises CorruptLog, OSError and OffsetOutOfRange.
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
    """Returns the first and last offset of each batch that belongs to an aborted transaction.

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
    """Returns the bytes of ``piece`` if they are at most READ_AT_ONCE and in the page cache.
    Otherwise returns ``piece`` itself."""
    if piece.length <= READ_AT_ONCE:
        data = piece.file.read_cached(piece.position, piece.length)
        if data is not None and len(data) == piece.length:
            return data
    return piece


class Reading(NamedTuple):
    """The batches read from one share partition, which stays locked until its records are
    acquired."""

    live: LivePartition
    offset: int
    batches: Batches
    aborted: Sequence[tuple[int, int]]
