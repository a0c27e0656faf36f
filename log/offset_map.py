"""From key to the offset of its last record, over the dirty part of a log.

The map is a dictionary from the key's bytes, so that two keys are never taken for one, and holds no
more than it may: a batch that might not fit ends it. A tombstone's offset is stored as its bitwise
complement, so that one number says both.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left

from protocol.errors import INVALID_RECORD
from protocol.records.corrupt import CorruptRecords
from protocol.records.varint import read_bits

ENTRY_BYTES = 176
"""Memory of one entry besides its key: slot, key object and offset; measured with CPython 3.11."""


class OffsetMap:
    """Last offset by key, built batch by batch in log order, then frozen into columns."""

    def __init__(self, bytes_max: int) -> None:
        self.latest: dict[bytes, int] = {}
        """Offset of the key's last record, or its complement when that is a tombstone."""
        self.end_offset = 0
        """Behind the last batch that was entered."""
        self.records = 0
        """Records entered."""
        self._bytes_left = bytes_max
        self._live = array("q")
        self._tombstones = array("q")

    def has_room(self, section_bytes: int, records: int) -> bool:
        """Whether a batch fits whatever its keys are; the first one always does."""
        return not self.latest or section_bytes + records * ENTRY_BYTES <= self._bytes_left

    def add(self, section: bytes, count: int, base_offset: int) -> None:
        """Enter the ``count`` records of a plain section. Raises CorruptRecords."""
        latest = self.latest
        before = len(latest)
        key_bytes = note_keys(section, count, base_offset, latest)
        new = len(latest) - before
        if new:
            self._bytes_left -= new * ENTRY_BYTES + key_bytes * new // count
        self.records += count

    def freeze(self) -> None:
        """Sort the offsets, for `live_in`; nothing is entered any more."""
        values = self.latest.values()
        self._live = array("q", sorted(value if value >= 0 else ~value for value in values))
        self._tombstones = array("q", sorted(~value for value in values if value < 0))

    def live_in(self, first: int, last: int) -> array[int]:
        """Offsets of the records from ``first`` to ``last`` that are the last of their key."""
        live = self._live
        low = bisect_left(live, first)
        return live[low : bisect_left(live, last + 1, low)]

    def tombstones_in(self, first: int, last: int) -> array[int]:
        """Those of `live_in` that are tombstones."""
        tombstones = self._tombstones
        low = bisect_left(tombstones, first)
        return tombstones[low : bisect_left(tombstones, last + 1, low)]


def note_keys(section: bytes, count: int, base_offset: int, latest: dict[bytes, int]) -> int:
    """Enter each record's key and offset; records without a key leave no trace.

    Returns the bytes of all keys. The hot loop of cleaning: it reads of a record its length, offset
    delta, key and whether its value is null, and jumps to the next. Raises CorruptRecords.
    """
    position = key_bytes = index = 0
    size = len(section)
    try:
        for index in range(count):
            bits = section[position]
            position += 1
            if bits > 0x7F:
                byte = section[position]
                if byte > 0x7F:
                    bits, position = read_bits(section, position - 1, 32)
                else:
                    bits = bits & 0x7F | byte << 7
                    position += 1
            end = position + (bits >> 1)
            position += 1  # the attributes
            while section[position] > 0x7F:  # the timestamp delta
                position += 1
            delta = section[position + 1]
            position += 2
            if delta > 0x7F:
                byte = section[position]
                if byte > 0x7F:
                    delta, position = read_bits(section, position - 1, 32)
                else:
                    delta = delta & 0x7F | byte << 7
                    position += 1
            bits = section[position]
            position += 1
            if bits > 0x7F:
                byte = section[position]
                if byte > 0x7F:
                    bits, position = read_bits(section, position - 1, 32)
                else:
                    bits = bits & 0x7F | byte << 7
                    position += 1
            if not bits & 1:
                stop = position + (bits >> 1)
                if stop >= end:
                    raise _misfit(index, count, size)
                key_bytes += bits >> 1
                latest[section[position:stop]] = (
                    base_offset + (delta >> 1)
                    if section[stop] != 1
                    else ~(base_offset + (delta >> 1))
                )
            position = end
    except IndexError:
        raise _misfit(index, count, size) from None
    if position != size:
        raise _misfit(count, count, size)
    return key_bytes


def _misfit(index: int, count: int, size: int) -> CorruptRecords:
    return CorruptRecords(
        f"Record {index} of {count}, in {size} bytes, has a length that does not fit its batch.",
        INVALID_RECORD,
    )
