"""The ``.index`` file of a segment: from offset to position in the ``.log`` file.

An entry is 8 bytes: int32 offset relative to the segment's base offset, int32 position. It says
that the batch at that position ends with that offset. Offsets ascend strictly.
"""

from __future__ import annotations

import struct

from log.indexes.index_file import IndexFile

_ENTRY = struct.Struct(">ii")


class OffsetIndex(IndexFile):
    """Sparse map from offset to position."""

    entry_bytes = _ENTRY.size

    def append(self, offset: int, position: int) -> None:
        """Note that the batch at ``position`` ends with ``offset``."""
        self.add(_ENTRY.pack(offset - self.base_offset, position))

    def entry(self, index: int, wait: bool = True) -> tuple[int, int]:
        """Offset and position of entry ``index``. Raises NotInMemory, see `entry_at`."""
        relative, position = _ENTRY.unpack(self.entry_at(index, wait))
        return relative + self.base_offset, position

    def lookup(self, offset: int, wait: bool = True) -> int:
        """The position of the last entry at or below ``offset``, 0 when there is none.

        Raises NotInMemory, see `entry_at`.
        """
        relative = offset - self.base_offset
        low, high = 0, self.count
        memory = self._memory
        while low < high:
            middle = (low + high) // 2
            if memory is None:
                known = _ENTRY.unpack(self.entry_at(middle, wait))[0]
            else:
                known = _ENTRY.unpack_from(memory, middle * 8)[0]
            if known <= relative:
                low = middle + 1
            else:
                high = middle
        return self.entry(low - 1, wait)[1] if low else 0

    def around(self, position: int, wait: bool = True) -> tuple[int, int | None]:
        """The position of the last entry below ``position``, 0 when there is none, and the offset
        of the first one at or above it, None when there is none.

        Raises NotInMemory, see `entry_at`.
        """
        low, high = 0, self.count
        memory = self._memory
        while low < high:
            middle = (low + high) // 2
            if memory is None:
                known = _ENTRY.unpack(self.entry_at(middle, wait))[1]
            else:
                known = _ENTRY.unpack_from(memory, middle * 8)[1]
            if known < position:
                low = middle + 1
            else:
                high = middle
        below = self.entry(low - 1, wait)[1] if low else 0
        return below, self.entry(low, wait)[0] if low < self.count else None

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or above ``offset``."""
        count = self.count
        while count and self.entry(count - 1)[0] >= offset:
            count -= 1
        if count < self.count:
            self.cut(count)
