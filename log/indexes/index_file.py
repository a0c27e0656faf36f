"""The two index files of a segment, ``.index`` and ``.timeindex``. Each consists of ascending
entries of equal size.

An entry of ``.index`` has 8 bytes: int32 offset relative to the segment's base offset, int32
position in the ``.log`` file. The batch at the position ends with the offset. Offsets ascend
strictly.

An entry of ``.timeindex`` has 12 bytes: int64 timestamp (wall milliseconds), int32 relative offset.
The timestamp is the largest timestamp of all batches up to the offset, and belongs to the batch
that ends with the offset. Timestamps ascend strictly.

The index of the active segment is kept in memory. It is written when the segment is rolled or the
log is closed. After a crash it is rebuilt from the segment, which recovery reads anyway. The index
of an older segment is read from its file. Kafka fills the active segment's index files with zeros
up to `segment.index.bytes`; this padding is dropped on opening.
"""

from __future__ import annotations

import struct

from log.errors import NotInMemory
from log.files.cached_file import CachedFile
from log.files.filesystem import File, FileSystem


class IndexFile:
    """An index file with entries of ``entry_bytes`` bytes each, at most ``max_bytes`` in total."""

    entry_bytes: int

    def __init__(self, fs: FileSystem, path: str, base_offset: int, max_bytes: int) -> None:
        self._fs = fs
        self.path = path
        self.base_offset = base_offset
        self.full_at = max_bytes // self.entry_bytes
        """The number of entries at which the segment is rolled."""
        self.count = 0
        self._memory: bytearray | None = bytearray()
        """All entries as bytes; None if the entries are read from the file."""
        self._file: File | None = None
        self._file_bytes = -1
        """The size of the file in bytes when it was last read or written; -1 before the first read
        or write."""
        self._changed = False
        """True if the entries in memory differ from the file."""
        self._unsynced = False

    def load(self) -> None:
        """Loads the entries of the file, which must exist, without the padding."""
        file = self._fs.open(self.path)
        data = file.read(0, file.size())
        size = self.entry_bytes
        count = len(data) // size
        if count and data[(count - 1) * size : count * size] == bytes(size):
            count = -(-len(data.rstrip(b"\0")) // size)
        self._file = file
        self._file_bytes = len(data)
        self._memory = bytearray(data[: count * size])
        self.count = count

    def clear(self) -> None:
        self._memory = bytearray()
        self.count = 0
        self._changed = True

    def entry_at(self, index: int, wait: bool = True) -> bytes | bytearray:
        """Returns the bytes of entry ``index``. Another thread may store the index during the call.
        If ``wait`` is False, raises NotInMemory instead of waiting for the disk."""
        size = self.entry_bytes
        memory = self._memory
        if memory is not None:
            return bytes(memory[index * size : (index + 1) * size])
        if wait:
            return self._opened().read(index * size, size)
        file = self._file
        if file is None:
            raise NotInMemory
        return CachedFile(file).read(index * size, size)

    def add(self, entry: bytes) -> None:
        self.resume()
        assert self._memory is not None
        self._memory += entry
        self.count += 1
        self._changed = True

    def cut(self, count: int) -> None:
        self.resume()
        assert self._memory is not None
        del self._memory[count * self.entry_bytes :]
        self.count = count
        self._changed = True

    def resume(self) -> None:
        """Loads the entries into memory, so that entries can be added."""
        if self._memory is None:
            self.load()

    def store(self) -> None:
        """Writes the file, without padding. Later reads of entries use the file. `fsync` makes the
        file durable."""
        memory = self._memory
        if memory is None:
            return
        if self._changed or self._file_bytes != len(memory):
            if self._file is None:
                self._file = self._fs.open(self.path, create=True)
            self._file.write(0, bytes(memory))
            self._file.truncate(len(memory))
            self._file_bytes = len(memory)
            self._unsynced = True
            self._changed = False
        self._memory = None

    def release(self) -> None:
        """Frees the memory of an index to which no more entries will be added."""
        self.store()
        if not self._unsynced:
            self._file = None

    def keep(self) -> None:
        """Calls File.keep, so that the entries stay readable after the file's name is removed."""
        if self._memory is None:
            self._opened().keep()

    def rename(self, suffix: str) -> None:
        path = self.path
        self._fs.rename(path, path + suffix, self._file)
        self.path = path + suffix

    def fsync(self) -> None:
        file = self._file
        if file is not None and self._unsynced:
            self._unsynced = False
            try:
                file.fsync()
            except BaseException:
                self._unsynced = True
                raise

    def _opened(self) -> File:
        file = self._file
        if file is None:
            file = self._file = self._fs.open(self.path)
        return file

    @property
    def size_bytes(self) -> int:
        return self.count * self.entry_bytes


_POSITION_ENTRY = struct.Struct(">ii")


class OffsetIndex(IndexFile):
    """A sparse map from offsets to the positions of batches in the ``.log`` file."""

    entry_bytes = _POSITION_ENTRY.size

    def append(self, offset: int, position: int) -> None:
        """Adds an entry for the batch at ``position``, whose last offset is ``offset``."""
        self.add(_POSITION_ENTRY.pack(offset - self.base_offset, position))

    def entry(self, index: int, wait: bool = True) -> tuple[int, int]:
        """Returns the offset and the file position in entry number ``index`` of the index. Raises
        NotInMemory as `entry_at` does."""
        relative, position = _POSITION_ENTRY.unpack(self.entry_at(index, wait))
        return relative + self.base_offset, position

    def lookup(self, offset: int, wait: bool = True) -> int:
        """Returns the position of the last entry at or below ``offset``; 0 without such an entry.
        Raises NotInMemory in the same cases as `entry_at`."""
        relative = offset - self.base_offset
        low, high = 0, self.count
        memory = self._memory
        while low < high:
            middle = (low + high) // 2
            if memory is None:
                known = _POSITION_ENTRY.unpack(self.entry_at(middle, wait))[0]
            else:
                known = _POSITION_ENTRY.unpack_from(memory, middle * 8)[0]
            if known <= relative:
                low = middle + 1
            else:
                high = middle
        return self.entry(low - 1, wait)[1] if low else 0

    def around(self, position: int, wait: bool = True) -> tuple[int, int | None]:
        """Returns two values for a position in the ``.log`` file: the position of the last entry
        below ``position`` (0 without such an entry), and the offset of the first entry at or above
        ``position`` (None without such an entry). Raises NotInMemory in the same cases as
        `entry_at`."""
        low, high = 0, self.count
        memory = self._memory
        while low < high:
            middle = (low + high) // 2
            if memory is None:
                known = _POSITION_ENTRY.unpack(self.entry_at(middle, wait))[1]
            else:
                known = _POSITION_ENTRY.unpack_from(memory, middle * 8)[1]
            if known < position:
                low = middle + 1
            else:
                high = middle
        below = self.entry(low - 1, wait)[1] if low else 0
        return below, self.entry(low, wait)[0] if low < self.count else None

    def truncate_to(self, offset: int) -> None:
        """Drops the entries at or above ``offset``."""
        count = self.count
        while count and self.entry(count - 1)[0] >= offset:
            count -= 1
        if count < self.count:
            self.cut(count)


_TIME_ENTRY = struct.Struct(">qi")


class TimeIndex(IndexFile):
    """A sparse index of the largest timestamps. Each entry has the largest timestamp so far, and
    the last offset of the batch with this timestamp."""

    entry_bytes = _TIME_ENTRY.size

    def __init__(self, fs: FileSystem, path: str, base_offset: int, max_bytes: int) -> None:
        super().__init__(fs, path, base_offset, max_bytes)
        self.full_at -= 1  # one entry is reserved for the largest timestamp, added at the roll

    def append(self, timestamp_ms: int, offset: int) -> None:
        """Adds an entry with ``timestamp_ms`` as the largest timestamp so far. Has no effect if the
        last entry has an equal or larger timestamp."""
        if timestamp_ms < 0:
            return
        self.resume()
        memory = self._memory
        if (
            not memory
            or timestamp_ms > _TIME_ENTRY.unpack_from(memory, len(memory) - _TIME_ENTRY.size)[0]
        ):
            self.add(_TIME_ENTRY.pack(timestamp_ms, offset - self.base_offset))

    def entry(self, index: int) -> tuple[int, int]:
        timestamp_ms, relative = _TIME_ENTRY.unpack(self.entry_at(index))
        return timestamp_ms, relative + self.base_offset

    def last(self) -> tuple[int, int]:
        """Returns the timestamp and the offset of the last entry; (-1, base offset) without
        entries."""
        return self.entry(self.count - 1) if self.count else (-1, self.base_offset)

    def lookup(self, timestamp_ms: int) -> int:
        """Returns the offset of the last entry at or below ``timestamp_ms``; the base offset
        without such an entry."""
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if self.entry(middle)[0] <= timestamp_ms:
                low = middle + 1
            else:
                high = middle
        return self.entry(low - 1)[1] if low else self.base_offset

    def last_below(self, offset: int) -> tuple[int, int]:
        """Returns the last entry whose offset is below ``offset``; (-1, base offset) without such
        an entry."""
        count = self._count_below(offset)
        return self.entry(count - 1) if count else (-1, self.base_offset)

    def truncate_to(self, offset: int) -> None:
        """Drops the entries at or above ``offset``."""
        count = self._count_below(offset)
        if count < self.count:
            self.cut(count)

    def _count_below(self, offset: int) -> int:
        count = self.count
        while count and self.entry(count - 1)[1] >= offset:
            count -= 1
        return count
