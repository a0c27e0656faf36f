"""The ``.timeindex`` file of a segment: from timestamp to offset.

An entry is 12 bytes: int64 timestamp (wall milliseconds), int32 offset relative to the segment's
base offset. It says that no batch up to that offset has a later timestamp, and that the batch which
ends with it has this one. Timestamps ascend strictly.
"""

from __future__ import annotations

import struct

from log.files.filesystem import FileSystem
from log.indexes.index_file import IndexFile

_ENTRY = struct.Struct(">qi")


class TimeIndex(IndexFile):
    """Sparse map from the largest timestamp so far to the offset that has it."""

    entry_bytes = _ENTRY.size

    def __init__(self, fs: FileSystem, path: str, base_offset: int, max_bytes: int) -> None:
        super().__init__(fs, path, base_offset, max_bytes)
        self.full_at -= 1  # one entry is kept free for the largest timestamp, noted at the roll

    def append(self, timestamp_ms: int, offset: int) -> None:
        """Note ``timestamp_ms`` as the largest so far, unless it was noted already."""
        if timestamp_ms < 0:
            return
        self.resume()
        memory = self._memory
        if not memory or timestamp_ms > _ENTRY.unpack_from(memory, len(memory) - _ENTRY.size)[0]:
            self.add(_ENTRY.pack(timestamp_ms, offset - self.base_offset))

    def entry(self, index: int) -> tuple[int, int]:
        """Timestamp and offset of entry ``index``."""
        timestamp_ms, relative = _ENTRY.unpack(self.entry_at(index))
        return timestamp_ms, relative + self.base_offset

    def last(self) -> tuple[int, int]:
        """The last entry; (-1, base offset) without one."""
        return self.entry(self.count - 1) if self.count else (-1, self.base_offset)

    def lookup(self, timestamp_ms: int) -> int:
        """The offset of the last entry at or below ``timestamp_ms``, else the base offset."""
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if self.entry(middle)[0] <= timestamp_ms:
                low = middle + 1
            else:
                high = middle
        return self.entry(low - 1)[1] if low else self.base_offset

    def last_below(self, offset: int) -> tuple[int, int]:
        """The last entry whose offset is below ``offset``; (-1, base offset) without one."""
        count = self._count_below(offset)
        return self.entry(count - 1) if count else (-1, self.base_offset)

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or above ``offset``."""
        count = self._count_below(offset)
        if count < self.count:
            self.cut(count)

    def _count_below(self, offset: int) -> int:
        count = self.count
        while count and self.entry(count - 1)[1] >= offset:
            count -= 1
        return count
