"""One segment: a ``.log`` file of batches, its two indexes, and the lookup of offsets. In this
module, "batch" includes messages of magic 0 and 1 (`log/batch_scan.py`).

The names of the files are the segment's base offset in 20 digits, with a suffix. `Segment` keeps
the file open and its size in memory. Only the active segment, which is the last of its log, gets
appends.
"""

from __future__ import annotations

import os
import struct
from typing import NamedTuple

from log.batch_scan import first_offset, headers
from log.config import LogConfig
from log.errors import CorruptLog
from log.files.cached_file import CachedFile
from log.files.filesystem import FileSystem
from log.indexes.index_file import OffsetIndex, TimeIndex
from log.indexes.transaction_index import TXN_INDEX, TransactionIndex
from protocol.buffer import Buffer
from protocol.records.batch import HEADER_BYTES
from protocol.records.stored import MAGIC_POSITION, iter_stored

LOG = ".log"
INDEX = ".index"
TIME_INDEX = ".timeindex"
SNAPSHOT = ".snapshot"
DELETED = ".deleted"
CUT = ".cut"

RELATIVE_OFFSET_MAX = 2**31 - 1

LOCATE_CHUNK_BYTES = 4096 + 512

_STEP = struct.Struct(">qi11xi8xq")  # base offset, length, last offset delta, max timestamp
_PLACE = struct.Struct(">qi4xb6xi")  # base offset, length, magic, last offset delta
_NO_TAIL = (1 << 63, 0)


def file_name(base_offset: int, suffix: str) -> str:
    """Returns Kafka's name of a segment's file, such as ``00000000000000000042.log``."""
    return f"{base_offset:020d}{suffix}"


class Place(NamedTuple):
    """The place of a batch in a segment: its bytes from ``position`` to ``end``, and its first and
    last offset."""

    position: int
    end: int
    base_offset: int
    last_offset: int


class Segment:
    """The batches from ``base_offset`` up to the next segment's base offset."""

    __slots__ = (
        "__weakref__",
        "_tail",
        "base_offset",
        "bytes_since_entry",
        "created_ms",
        "directory",
        "file",
        "first_timestamp_ms",
        "fs",
        "index",
        "jitter_ms",
        "max_timestamp_ms",
        "max_timestamp_offset",
        "reserved",
        "size",
        "time_index",
        "transactions",
        "unsynced",
    )

    def __init__(
        self, fs: FileSystem, directory: str, base_offset: int, index_bytes: int, create: bool
    ) -> None:
        self.fs = fs
        self.directory = directory
        self.base_offset = base_offset
        self.file = fs.open(self.path(LOG), create=create)
        self.size = self.file.size()
        """The number of bytes in complete batches. It equals the file's size, except after a failed
        write."""
        self.index = OffsetIndex(fs, self.path(INDEX), base_offset, index_bytes)
        self.time_index = TimeIndex(fs, self.path(TIME_INDEX), base_offset, index_bytes)
        self.transactions = TransactionIndex(fs, self.path(TXN_INDEX))
        self.unsynced = True
        self.max_timestamp_ms = -1
        self.max_timestamp_offset = base_offset
        """The offset of the last record in the batch with the segment's largest timestamp. If
        several batches have this timestamp, the first of these batches counts."""
        self.first_timestamp_ms = -1
        """The largest timestamp of the first batch; -1 if unknown. The age for `segment.ms` is
        measured from this timestamp."""
        self.bytes_since_entry = 0
        self.created_ms = -1
        self.jitter_ms = 0
        self.reserved = False
        """True if more disk space is allocated than written. `seal` frees the unused space."""
        self._tail = _NO_TAIL
        """The first offset of the last append, and its position in the file. A consumer without lag
        reads from this position, without a search in the index."""

    def path(self, suffix: str) -> str:
        return os.path.join(self.directory, file_name(self.base_offset, suffix))

    def roll_due(
        self, config: LogConfig, size: int, last_offset: int, max_timestamp_ms: int, now_ms: int
    ) -> bool:
        """Returns whether the next ``size`` bytes, which end with ``last_offset``, must go to a new
        segment. The rules are Kafka's: size, age by the records' timestamps, full indexes, and the
        range of relative offsets."""
        if self.size + size > config.segment_bytes:
            return True
        if self.first_timestamp_ms >= 0 and max_timestamp_ms >= 0:
            age_ms = max_timestamp_ms - self.first_timestamp_ms
        else:
            age_ms = now_ms - self.created_ms if self.created_ms >= 0 else 0
        return (
            age_ms > config.segment_ms - self.jitter_ms
            or self.index.count >= self.index.full_at
            or self.time_index.count >= self.time_index.full_at
            or last_offset - self.base_offset > RELATIVE_OFFSET_MAX
        )

    def append(self, buffer: Buffer, first_offset: int, interval_bytes: int) -> None:
        """Appends whole batches, whose offsets are set, with one write, and adds their index
        entries.

        The index entries are the same as Kafka's; ``interval_bytes`` is `index.interval.bytes`.
        Raises OSError; after an error the indexes are unchanged, and `cut_back` removes the bytes.
        """
        position = start = self.size
        self.file.write(start, buffer)
        self.unsynced = True  # set after the write: a flush thread clears it, then fsyncs
        at, size = 0, len(buffer)
        while at < size:
            if buffer[at + MAGIC_POSITION] != 2:
                self._note_messages(buffer, at, start, interval_bytes)
                break
            base_offset, length, last_offset_delta, timestamp = _STEP.unpack_from(buffer, at)
            last_offset = base_offset + last_offset_delta
            self.note_batch(position, length + 12, last_offset, timestamp, interval_bytes)
            at += length + 12
            position = start + at
        self.size = start + size
        self._tail = (first_offset, start)

    def _note_messages(self, buffer: Buffer, at: int, position: int, interval_bytes: int) -> None:
        """Adds index entries for the messages of magic 0 and 1 in ``buffer``, from ``at`` on."""
        for entry, start in iter_stored(memoryview(buffer)[at:]):
            self.note_batch(
                position + at + start,
                entry.size_bytes,
                entry.last_offset,
                entry.max_timestamp,
                interval_bytes,
            )

    def note_batch(
        self, position: int, size: int, last_offset: int, timestamp_ms: int, interval_bytes: int
    ) -> None:
        """Records the timestamp of a batch. Adds an index entry if ``interval_bytes`` have passed
        since the last index entry."""
        if timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = timestamp_ms
            self.max_timestamp_offset = last_offset
        if not position:
            self.first_timestamp_ms = timestamp_ms
        if self.bytes_since_entry > interval_bytes:
            self.index.append(last_offset, position)
            self.time_index.append(self.max_timestamp_ms, self.max_timestamp_offset)
            self.bytes_since_entry = 0
        self.bytes_since_entry += size

    def cut_back(self) -> None:
        """Removes the bytes that a failed write left after the last whole batch."""
        self.file.truncate(self.size)
        self.unsynced = True

    def reserve(self, size: int) -> None:
        """Allocates disk space for a log file of ``size`` bytes, until `seal` frees it. Raises
        OSError."""
        self.file.reserve(size)
        self.reserved = True

    def seal(self) -> None:
        """Completes and writes the indexes. Later reads use the index files."""
        if self.reserved:
            self.file.truncate(self.size)
            self.reserved = False
        self.time_index.append(self.max_timestamp_ms, self.max_timestamp_offset)
        self.index.store()
        self.time_index.store()

    def fsync(self, indexes: bool) -> None:
        """Fsyncs the log file, and with ``indexes`` also the sealed index files."""
        if self.unsynced:
            self.unsynced = False
            try:
                self.file.fsync()
            except BaseException:
                self.unsynced = True
                raise
        self.transactions.fsync()
        if indexes:
            self.index.fsync()
            self.time_index.fsync()

    def keep_open(self) -> None:
        """Keeps the segment readable after its files are removed or replaced (File.keep)."""
        self.file.keep()
        self.index.keep()
        self.time_index.keep()

    def rename(self, suffix: str) -> None:
        """Appends ``suffix`` to the names of all files of the segment. Raises the first OSError."""
        failed: OSError | None = None
        try:
            path = self.file.path
            if self.fs.exists(path):
                self.fs.rename(path, path + suffix, self.file)
        except OSError as error:
            failed = error
        for index in (self.index, self.time_index, self.transactions):
            try:
                if self.fs.exists(index.path):
                    index.rename(suffix)
            except OSError as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def paths(self) -> list[str]:
        files = (self.file, self.index, self.time_index, self.transactions)
        return [file.path for file in files if self.fs.exists(file.path)]

    def release_indexes(self) -> None:
        """Frees the memory of the indexes of a segment that gets no more appends."""
        self.index.release()
        self.time_index.release()

    def resume(self) -> None:
        """Makes a sealed segment the active segment again."""
        self.index.resume()
        self.time_index.resume()

    def locate(self, offset: int, end: int | None = None, wait: bool = True) -> Place | None:
        """Returns the first batch that ends at or above ``offset``, or None. Only bytes below
        ``end`` are read. Raises CorruptLog. If ``wait`` is False, raises NotInMemory instead of
        waiting for the disk."""
        limit = self.size if end is None else end
        tail_offset, position = self._tail
        if offset < tail_offset:
            position = self.index.lookup(offset, wait)
        file = self.file if wait else CachedFile(self.file)
        chunk: bytes | bytearray = b""
        at = 0
        while position < limit:
            if at + HEADER_BYTES > len(chunk):
                chunk = file.read(position, min(LOCATE_CHUNK_BYTES, limit - position))
                at = 0
                if len(chunk) < HEADER_BYTES:
                    break
            base_offset, length, magic, last_offset_delta = _PLACE.unpack_from(chunk, at)
            size = length + 12
            if magic != 2 or size < HEADER_BYTES or size > limit - position:
                break
            last_offset = base_offset + last_offset_delta
            if last_offset >= offset:
                return Place(position, position + size, base_offset, last_offset)
            position += size
            at += size
        # messages of magic 0 and 1, or damage, which `headers` describes
        for batch in headers(file, position, limit):
            if batch.last_offset >= offset:
                return Place(batch.position, batch.end, batch.base_offset, batch.last_offset)
        return None

    def load_indexes(self) -> str | None:
        """Loads the index files. Returns the reason if they are unusable, otherwise None. Only the
        batch header to which the last index entry points is read from the segment."""
        for index in (self.index, self.time_index):
            if not self.fs.exists(index.path):
                return f"{index.path} was missing"
            index.load()
        if self.index.count:
            offset, position = self.index.entry(self.index.count - 1)
            if not self._has(position, offset):
                return f"{self.index.path} did not match its segment"
        timestamp_ms, offset = self.time_index.last()
        if self.time_index.count and (timestamp_ms < 0 or offset < self.base_offset):
            return f"{self.time_index.path} had entries that do not match its segment"
        self.max_timestamp_ms, self.max_timestamp_offset = timestamp_ms, offset
        return None

    def _has(self, position: int, offset: int) -> bool:
        """Returns whether an index entry is correct: a batch begins at ``position`` and contains
        ``offset``. Muster, and Kafka since 1.1, write a batch's last offset into the entry; Kafka
        before 1.1 wrote its first offset."""
        if offset <= self.base_offset or not 0 <= position < self.size:
            return False
        try:
            batch = next(headers(self.file, position, self.size))
            return offset == batch.last_offset or (
                first_offset(self.file, batch) <= offset < batch.last_offset
            )
        except CorruptLog:
            return False

    def rebuild_indexes(self, interval_bytes: int) -> int:
        """Rebuilds both indexes from the batches' headers. Returns the segment's end offset. Raises
        CorruptLog."""
        self.clear()
        end_offset = self.base_offset
        for batch in headers(self.file, 0, self.size):
            self.check_order(batch.base_offset, end_offset, batch.position)
            end_offset = batch.last_offset + 1
            self.note_batch(
                batch.position,
                batch.end - batch.position,
                batch.last_offset,
                batch.max_timestamp,
                interval_bytes,
            )
        return end_offset

    def clear(self) -> None:
        """Resets the stored facts about the batches, before the batches are read again."""
        self.index.clear()
        self.time_index.clear()
        self.max_timestamp_ms = self.first_timestamp_ms = -1
        self.max_timestamp_offset = self.base_offset
        self.bytes_since_entry = 0

    def check_order(self, base_offset: int, end_offset: int, position: int) -> None:
        """Raises CorruptLog unless a batch with ``base_offset`` may follow ``end_offset``."""
        if not end_offset <= base_offset <= self.base_offset + RELATIVE_OFFSET_MAX:
            raise CorruptLog(
                self.file.path, position, f"the base offset is {base_offset}, expected {end_offset}"
            )

    def load_tail(self) -> int:
        """Reads the batches after the last index entries. Returns the segment's end offset. Raises
        CorruptLog if the last batch is incomplete."""
        self.max_timestamp_ms, self.max_timestamp_offset = self.time_index.last()
        count = self.index.count
        entry_position = self.index.entry(count - 1)[1] if count else 0
        position = min(entry_position, self.index.lookup(self.max_timestamp_offset))
        end_offset = self.base_offset
        for batch in headers(self.file, position, self.size):
            self.check_order(batch.base_offset, end_offset, batch.position)
            end_offset = batch.last_offset + 1
            if batch.max_timestamp > self.max_timestamp_ms:
                self.max_timestamp_ms = batch.max_timestamp
                self.max_timestamp_offset = batch.last_offset
        self.bytes_since_entry = self.size - entry_position
        self.first_timestamp_ms = -1
        if self.size:
            self.first_timestamp_ms = next(headers(self.file, 0, self.size)).max_timestamp
        return end_offset

    def end_offset(self) -> int:
        """Returns the offset after the last batch, or the base offset without batches. Raises
        CorruptLog."""
        count = self.index.count
        end_offset = self.base_offset
        for batch in headers(self.file, self.index.entry(count - 1)[1] if count else 0, self.size):
            end_offset = batch.last_offset + 1
        return end_offset

    def truncate_to(self, offset: int) -> int:
        """Drops the batch with ``offset`` and all later batches. Returns the new end offset."""
        place = self.locate(offset)
        if place is None:
            return offset
        begin = first_offset(self.file, next(headers(self.file, place.position, place.end)))
        self.resume()
        for index in (self.index, self.time_index, self.transactions):
            index.truncate_to(offset)
        self._tail = _NO_TAIL
        self.file.truncate(place.position)
        self.unsynced = True
        self.size = place.position
        self.load_tail()
        return min(offset, begin)
