"""The entries of one segment file, in bounded memory, whatever has happened to the file.

What cannot be an entry is given as `Damage`, and reading goes on behind it: at the place that its
length names when something plausible is there, else at the next entry whose checksum holds, else
the rest of the file is one damage. The tail of a log's last segment may be the beginning of one
entry, which is told apart: its broker is writing there, or died there.
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
"""A batch above it is taken for damage; Kafka's `message.max.bytes` is 1 MiB unless changed."""
_HEAD_BYTES = MAGIC_POSITION + 1
_MAGICS = 3
_SMALLEST_SIZE = 14
_SEARCH_BYTES = 256 << 20
"""Bytes of would-be entries that a search checks before it gives the segment up."""


class Entry(NamedTuple):
    """A whole entry: ``buffer`` holds it at ``header.position``, the file at ``position``."""

    position: int
    buffer: bytes
    header: BatchHeader


class Damage(NamedTuple):
    """Bytes from ``position`` on that are no entry; ``offset`` is the log offset due there."""

    position: int
    offset: int
    reason: str
    rest: bool = False
    """Nothing behind it in the file can be read."""
    torn: bool = False
    """It is the beginning of the last entry of a log's last segment."""


class SegmentFile:
    """An open segment. ``behind`` is the next segment's base offset, None for the last one."""

    def __init__(self, descriptor: int, base_offset: int, behind: int | None) -> None:
        self.descriptor = descriptor
        self.base_offset = base_offset
        self.behind = behind
        self.size = os.fstat(descriptor).st_size
        """As it was at the opening; what is written later is not read."""
        self.next_offset = base_offset
        """The log offset due behind the entries given."""
        self.untouched = True
        """Nothing was missing between them, as in a segment that no cleaner has been at."""
        self._window = b""
        self._window_at = 0

    def entries(self) -> Iterator[Entry | Damage]:
        """Entries in order, none checked by its CRC, with the damage between them."""
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
        """What follows the last entry that could be read."""
        torn = self.behind is None and self._incomplete(position)
        if not torn:
            reason = f"{reason} Nothing after it can be read."
        elif self._is_blank(position):
            return  # set aside for more
        yield Damage(position, self.next_offset, reason, rest=True, torn=torn)

    def _entry(self, position: int, expected: int) -> Entry:
        """The entry at a position; CorruptRecords where none can be."""
        head = self._bytes(position, _HEAD_BYTES)
        if len(head) < _HEAD_BYTES:
            raise CorruptRecords(f"The segment ends {len(head)} bytes into a batch.")
        size = OVERHEAD + int.from_bytes(head[8:12], "big", signed=True)
        if not _SMALLEST_SIZE + OVERHEAD <= size <= ENTRY_BYTES_MAX:
            raise CorruptRecords(f"A batch claims {size} bytes.")
        if size > self.size - position:
            raise CorruptRecords(
                f"A batch claims {size} bytes; the segment has {self.size - position} left."
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
        """Where to go on behind the damage at ``position``; None when nothing is found."""
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
        """The first position from ``start`` on where an entry lies whose checksum holds."""
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
        """Whether what is left is the beginning of one entry, or zeros set aside for more."""
        head = self._bytes(position, _HEAD_BYTES)
        if len(head) < _HEAD_BYTES:
            return True
        size = OVERHEAD + int.from_bytes(head[8:12], "big", signed=True)
        if size > self.size - position and head[MAGIC_POSITION] < _MAGICS:
            return True
        return self._is_blank(position)

    def _is_blank(self, position: int) -> bool:
        """Whether there are only zeros from there on."""
        chunks = range(position, self.size, CHUNK_BYTES)
        return not any(any(os.pread(self.descriptor, CHUNK_BYTES, start)) for start in chunks)

    def _bytes(self, position: int, size: int) -> bytes:
        """At most ``size`` bytes of the file, which then lie whole in the window."""
        size = min(size, self.size - position)
        at = position - self._window_at
        if not 0 <= at <= len(self._window) - size:
            wanted = min(max(size, CHUNK_BYTES), self.size - position)
            self._window = os.pread(self.descriptor, wanted, position)
            self._window_at, at = position, 0
        return self._window[at : at + min(size, _HEAD_BYTES)]


def _candidates(window: bytes, left: int, expected: int) -> list[int]:
    """Places in a window where magic, size and the upper half of the offset are an entry's."""
    import numpy as np  # only what reads segments needs it

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
    """The 32-bit number that begins at each byte from ``at`` on."""
    import numpy as np

    number = np.zeros(count, np.int64)
    for byte in range(4):
        number = number << 8 | data[at + byte : at + byte + count]
    return number
