"""Reads segments for cleaning: yields whole batches and their headers, and finds aborted
transactions.

Headers are tuples, not objects, because a segment of small batches has a million headers.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from log.batch_scan import headers
from log.errors import CorruptLog
from log.files.filesystem import File
from log.indexes.transaction_index import Aborted
from log.markers import marker_at
from protocol.records.batch import (
    CONTROL_BIT,
    HEADER_BYTES,
    TRANSACTIONAL_BIT,
)
from protocol.records.compression import decompress
from protocol.records.corrupt import CorruptRecords
from protocol.records.crc import crc32c
from protocol.records.stored import MAGIC_POSITION, read_stored

CHUNK_BYTES = 1024 * 1024

CODEC_BITS = 0x07
LOG_APPEND_BIT = 0x08
DELETE_HORIZON_BIT = 0x40

_HEADER = struct.Struct(">qiibIhiqqqhii")
_CHECKED_POSITION = 21
_OVERHEAD = 12
_SECTION_BYTES_MAX = 100 * 1024 * 1024

Pace = Callable[[int], None]
"""A function that limits the rate of I/O. It is called with the number of bytes just read or
written, and waits if the rate is exceeded."""


class Frame(NamedTuple):
    """A whole batch: the bytes ``start`` to ``stop`` of ``chunk``. ``position`` is the byte
    position of the batch in its file. For a message of magic 0 or 1 the fields are as in
    `protocol.records.stored`."""

    chunk: bytes
    start: int
    stop: int
    position: int
    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def last_offset(self) -> int:
        """Returns the last offset of the batch. It stays the same if a cleaning removes the record
        with this offset."""
        return self.base_offset + self.last_offset_delta


_new_tuple = tuple.__new__


def frames(file: File, size: int, pace: Pace, chunk_bytes: int = CHUNK_BYTES) -> Iterator[Frame]:
    """Yields the batches in the first ``size`` bytes of a segment. Checksums are not verified.
    Raises CorruptLog for bytes that can't be a batch."""
    position = 0
    last_offset = -1
    while position < size:
        wanted = min(chunk_bytes, size - position)
        chunk = file.read(position, wanted)
        if len(chunk) < wanted:
            raise CorruptLog(
                file.path,
                position + len(chunk),
                f"the file ends at this byte, but should have {size} bytes",
            )
        at = 0
        while True:
            left = len(chunk) - at
            if left < HEADER_BYTES or chunk[at + MAGIC_POSITION] < 2:
                frame = _message_frame(file.path, chunk, at, position + at)
                if frame is None:
                    break
            else:
                fields = _HEADER.unpack_from(chunk, at)
                stop = at + fields[1] + _OVERHEAD
                if fields[3] != 2 or fields[1] < HEADER_BYTES - _OVERHEAD or fields[12] < 0:
                    raise CorruptLog(file.path, position + at, "the batch header is invalid")
                if stop > len(chunk):
                    break
                frame = _new_tuple(Frame, (chunk, at, stop, position + at, *fields))
            if frame.base_offset <= last_offset or frame.last_offset_delta < 0:
                raise CorruptLog(file.path, position + at, _order(frame, last_offset))
            last_offset = frame.base_offset + frame.last_offset_delta
            yield frame
            at = frame.stop
        if not at:
            chunk_bytes = _longer(file, chunk, position, size)
        position += at
        pace(at)


def _order(frame: Frame, last_offset: int) -> str:
    if frame.last_offset_delta < 0:
        return f"the last offset delta is {frame.last_offset_delta}, below 0"
    return f"base offset {frame.base_offset} follows offset {last_offset}: offsets must ascend"


def _message_frame(path: str, chunk: bytes, at: int, position: int) -> Frame | None:
    """Returns the frame of the message at ``at``, which has magic 0 or 1. Returns None if a batch
    of magic 2 is there, or if the chunk does not contain the whole message.

    If the message is a wrapper of compressed messages, the base offset of its frame is the offset
    of the last message in the wrapper, as in `BatchHeader`.
    """
    left = len(chunk) - at
    if left <= MAGIC_POSITION or chunk[at + MAGIC_POSITION] > 1:
        return None
    if int.from_bytes(chunk[at + 8 : at + 12], "big", signed=True) > left - _OVERHEAD:
        return None
    try:
        header = read_stored(chunk, at)
    except CorruptRecords as error:
        raise CorruptLog(path, position, error.message) from None
    return Frame(
        chunk,
        at,
        header.end,
        position,
        header.base_offset,
        header.batch_length,
        header.partition_leader_epoch,
        header.magic,
        header.crc,
        header.attributes,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.record_count,
    )


def _longer(file: File, chunk: bytes, position: int, size: int) -> int:
    """Returns the number of bytes to read for a batch that did not fit in the chunk. Raises
    CorruptLog if the file has too few bytes."""
    wanted: int = HEADER_BYTES
    if len(chunk) >= HEADER_BYTES:
        wanted = _HEADER.unpack_from(chunk)[1] + _OVERHEAD
    if wanted > size - position or wanted <= len(chunk):
        raise CorruptLog(
            file.path,
            position,
            f"the batch has a length of {wanted} bytes, but {size - position} are left",
        )
    return wanted


def section_of(frame: Frame, path: str) -> bytes:
    """Checks the checksum of a batch, and returns its records section, uncompressed. Raises
    CorruptLog."""
    view = memoryview(frame.chunk)
    actual = crc32c(view[frame.start + _CHECKED_POSITION : frame.stop])
    if actual != frame.crc:
        raise CorruptLog(
            path,
            frame.position,
            f"the batch has CRC 0x{frame.crc:08x}, but its bytes have 0x{actual:08x}",
        )
    codec = frame.attributes & CODEC_BITS
    if not codec:
        return frame.chunk[frame.start + HEADER_BYTES : frame.stop]
    try:
        return decompress(codec, view[frame.start + HEADER_BYTES : frame.stop], _SECTION_BYTES_MAX)
    except CorruptRecords as error:
        raise CorruptLog(path, frame.position, error.message) from None


class Transactions:
    """The aborted transactions in the scanned segments, and the start of the earliest open
    transaction."""

    def __init__(self) -> None:
        self.first_open: int | None = None
        """The base offset of the earliest batch of an open transaction; None if all transactions
        have ended."""
        self._aborted: dict[int, list[tuple[int, int]]] = {}
        """For each producer id, the aborted transactions in ascending order: the first offset, and
        the offset of the marker."""
        self._late: set[int] = set()
        """The base offsets of batches that were written after the end of their transaction."""

    @classmethod
    def scan(
        cls,
        files: Iterable[tuple[File, int]],
        stable_offset: int,
        ended: Iterable[Aborted],
        *,
        late_go: bool = False,
    ) -> Transactions:
        """Finds the transactions in the segments ``files`` by reading all batch headers. ``files``
        has the file and the size of each segment, in the order of the log. Raises CorruptLog.

        A transaction that has no marker in these segments counts as open if it begins at or above
        ``stable_offset``. If it begins below, it counts as aborted if it is in ``ended``, the
        transaction index of the next segment. With ``late_go``, a batch also counts as aborted if
        an earlier marker of its producer has a higher epoch than the batch.
        """
        found = cls()
        open_since: dict[int, int] = {}
        epochs: dict[int, int] = {}
        for file, size in files:
            for header in headers(file, 0, size):
                if not header.attributes & TRANSACTIONAL_BIT:
                    continue
                if not header.attributes & CONTROL_BIT:
                    if late_go and header.producer_epoch < epochs.get(header.producer_id, -1):
                        found._late.add(header.base_offset)
                        continue
                    open_since.setdefault(header.producer_id, header.base_offset)
                    continue
                end = marker_at(file, header)
                if end is None:
                    continue  # a cleaned control batch does not end a transaction
                known = epochs.get(header.producer_id, -1)
                epochs[header.producer_id] = max(known, header.producer_epoch)
                since = open_since.pop(header.producer_id, None)
                if since is not None and not end.marker.committed:
                    found._abort(header.producer_id, since, header.base_offset)
        for entry in ended:
            since = open_since.get(entry.producer_id, stable_offset)
            if entry.first_offset <= since < stable_offset:
                found._abort(entry.producer_id, since, entry.last_offset)
        still_open = [since for since in open_since.values() if since >= stable_offset]
        found.first_open = min(still_open, default=None)
        return found

    def _abort(self, producer_id: int, since: int, marker_offset: int) -> None:
        self._aborted.setdefault(producer_id, []).append((since, marker_offset))

    def is_aborted(self, producer_id: int, offset: int) -> bool:
        if offset in self._late:
            return True
        spans = self._aborted.get(producer_id)
        if spans is None:
            return False
        index = bisect_right(spans, offset, key=_first) - 1
        return index >= 0 and offset < spans[index][1]


def _first(span: tuple[int, int]) -> int:
    return span[0]
