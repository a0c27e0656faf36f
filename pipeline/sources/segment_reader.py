"""Reads the entries of one segment file in bounded memory, even if the file is damaged.

Bytes that can't be an entry are returned as `Damage`. Reading continues directly after the damaged
entry if its size leads to a plausible entry, and otherwise at the next entry with a valid checksum.
If no such entry exists, the whole remaining file is one `Damage`. The last segment of a log may end
with an incomplete entry, which is marked as torn: the broker is still writing it, or was killed
while it wrote.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from protocol.records.batch import BatchHeader
from protocol.records.corrupt import CorruptRecords
from protocol.records.stored import MAGIC_POSITION, OVERHEAD, read_stored, validate_stored

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CHUNK_BYTES = 1 << 20
ENTRY_BYTES_MAX = 128 << 20
"""The maximum size in bytes of a batch or message. A larger size counts as damage. Kafka's default
of `message.max.bytes` is 1 MiB."""
_HEAD_BYTES = MAGIC_POSITION + 1
_MAGICS = 3
_SMALLEST_SIZE = 14
_SEARCH_BYTES = 256 << 20
"""The maximum number of bytes whose checksums are verified in one search for an intact entry."""


class Entry(NamedTuple):
    """A complete batch or message set of a segment file. It begins at ``header.position`` in
    ``buffer``, and at ``position`` in the file."""

    position: int
    buffer: bytes
    header: BatchHeader


class Damage(NamedTuple):
    """Unreadable bytes from ``position`` on. ``offset`` is the log offset that was expected at this
    position."""

    position: int
    offset: int
    reason: str
    rest: bool = False
    """True if nothing from ``position`` to the end of the file can be read."""
    torn: bool = False
    """True if the bytes are the beginning of an incomplete last entry in the last segment of a log.
    """


class SegmentFile:
    """An open segment file. ``behind`` is the base offset of the next segment; None for the last
    segment of the log."""

    def __init__(self, descriptor: int, base_offset: int, behind: int | None) -> None:
        self.descriptor = descriptor
        self.base_offset = base_offset
        self.behind = behind
        self.size = os.fstat(descriptor).st_size
        """The size of the file when it was opened. Bytes that are written later are not read."""
        self.next_offset = base_offset
        """The log offset that is expected after the last returned entry."""
        self.untouched = True
        """True while no gap between the offsets of two entries was found. A gap shows that the
        segment was cleaned; most cleaned segments have gaps."""
        self._window = b""
        self._window_at = 0

    def entries(self) -> Iterator[Entry | Damage]:
        """Yields the entries in order, and the damage between them. Checksums are not verified."""
        position = 0
        while position < self.size:
            try:
                entry = self._entry(position, self.next_offset)
            except CorruptRecords as error:
                found = self._after(position, self.next_offset)
                if found is None:
                    yield from self._tail(position, str(error))
                    return
                yield Damage(position, self.next_offset, str(error))
                position = found
                continue
            yield entry
            header = entry.header
            if (
                header.base_offset != self.next_offset
                or header.record_count != header.last_offset_delta + 1
            ):
                self.untouched = False
            self.next_offset = max(self.next_offset, header.last_offset + 1)
            position += header.size_bytes

    def _tail(self, position: int, reason: str) -> Iterator[Damage]:
        """Yields one `Damage` for the bytes after the last entry that could be read. Yields nothing
        if these bytes are preallocated space."""
        torn = self.behind is None and self._incomplete(position)
        if not torn:
            reason = f"{reason} The rest of the segment can't be read."
        elif self._is_blank(position):
            return  # preallocated space
        yield Damage(position, self.next_offset, reason, rest=True, torn=torn)

    def _entry(self, position: int, expected: int) -> Entry:
        """Returns the entry at ``position``. Raises CorruptRecords if the bytes there can't be an
        entry."""
        head = self._bytes(position, _HEAD_BYTES)
        if len(head) < _HEAD_BYTES:
            raise CorruptRecords(f"The segment ends {len(head)} bytes into a batch.")
        size = OVERHEAD + int.from_bytes(head[8:12], "big", signed=True)
        if not _SMALLEST_SIZE + OVERHEAD <= size <= ENTRY_BYTES_MAX:
            raise CorruptRecords(f"A batch claims an invalid size of {size} bytes.")
        if size > self.size - position:
            raise CorruptRecords(
                f"A batch claims a size of {size} bytes, but the segment has only"
                f" {self.size - position} bytes left."
            )
        self._bytes(position, size)
        header = read_stored(self._window, position - self._window_at)
        if header.base_offset < expected:
            raise CorruptRecords(
                f"The batch at offset {header.base_offset} is out of order: offset {expected} or"
                " more was expected."
            )
        if self.behind is not None and header.last_offset >= self.behind:
            raise CorruptRecords(
                f"The batch at offset {header.base_offset} ends at offset {header.last_offset},"
                f" but the next segment begins at {self.behind}."
            )
        return Entry(position, self._window, header)

    def _after(self, position: int, expected: int) -> int | None:
        """Returns the position where reading continues after damage; None if no further entry is
        found."""
        head = self._bytes(position, _HEAD_BYTES)
        if len(head) == _HEAD_BYTES:
            size = OVERHEAD + int.from_bytes(head[8:12], "big", signed=True)
            if size >= _SMALLEST_SIZE + OVERHEAD and position + size <= self.size:
                try:
                    if position + size < self.size:
                        self._entry(position + size, expected)
                    return position + size
                except CorruptRecords:
                    pass
        return self._search(position + 1, expected)

    def _search(self, start: int, expected: int) -> int | None:
        """Returns the position of the first entry at or after ``start`` with a valid checksum, or
        None."""
        budget = _SEARCH_BYTES
        while start + _HEAD_BYTES <= self.size:
            window = os.pread(self.descriptor, CHUNK_BYTES + _HEAD_BYTES, start)
            for candidate in _candidates(window, self.size - start, expected):
                try:
                    _, buffer, header = self._entry(start + candidate, expected)
                    budget -= header.size_bytes
                    validate_stored(buffer, header)
                    return start + candidate
                except CorruptRecords:
                    budget -= 1
                if budget < 0:
                    return None
            start += CHUNK_BYTES
        return None

    def _incomplete(self, position: int) -> bool:
        """Returns True if the bytes from ``position`` to the end of the file are the beginning of
        one entry, or preallocated zeros."""
        head = self._bytes(position, _HEAD_BYTES)
        if len(head) < _HEAD_BYTES:
            return True
        size = OVERHEAD + int.from_bytes(head[8:12], "big", signed=True)
        if size > self.size - position and head[MAGIC_POSITION] < _MAGICS:
            return True
        return self._is_blank(position)

    def _is_blank(self, position: int) -> bool:
        """Returns True if the file has only zeros from ``position`` on."""
        chunks = range(position, self.size, CHUNK_BYTES)
        return not any(any(os.pread(self.descriptor, CHUNK_BYTES, start)) for start in chunks)

    def _bytes(self, position: int, size: int) -> bytes:
        """Returns ``size`` bytes from ``position`` on, but at most `_HEAD_BYTES`, and fewer at the
        end of the file. First loads all ``size`` bytes into the buffer `_window`, unless the buffer
        has them already."""
        size = min(size, self.size - position)
        at = position - self._window_at
        if not 0 <= at <= len(self._window) - size:
            wanted = min(max(size, CHUNK_BYTES), self.size - position)
            self._window = os.pread(self.descriptor, wanted, position)
            self._window_at, at = position, 0
        return self._window[at : at + min(size, _HEAD_BYTES)]


def _candidates(window: bytes, left: int, expected: int) -> list[int]:
    """Returns the positions in ``window`` at which an entry of a segment may begin. At such a
    position, the bytes are possible values of the magic, the size and the upper half of the offset
    of an entry."""
    import numpy as np  # only the reader of segments needs it

    count = len(window) - _HEAD_BYTES + 1
    data = np.frombuffer(window, np.uint8)
    upper, size = _big_endian(data, 0, count), _big_endian(data, 8, count)
    first = expected >> 32
    likely = (
        (data[MAGIC_POSITION : MAGIC_POSITION + count] < _MAGICS)
        & (upper >= first)
        & (upper <= first + 1)
        & (size >= _SMALLEST_SIZE)
        & (size <= left - np.arange(count) - OVERHEAD)
    )
    return [int(place) for place in np.flatnonzero(likely)]


def _big_endian(data: NDArray[np.uint8], at: int, count: int) -> NDArray[np.int64]:
    """Decodes ``count`` overlapping big-endian 32-bit numbers: the first one at position ``at``,
    and each next one a byte further."""
    import numpy as np

    number = np.zeros(count, np.int64)
    for byte in range(4):
        number = number << 8 | data[at + byte : at + byte + count]
    return number
