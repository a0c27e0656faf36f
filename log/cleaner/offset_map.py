"""A map from each key to the offset of its last record in the dirty part of a log.

The map is a dictionary of whole keys, not of hashes, so that two keys are never confused. Its
memory is bounded: the map ends before a batch that might not fit. A tombstone's offset is stored as
its bitwise complement.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence

from log.cleaner.key_reader import note_keys
from protocol.records.section import Record

ENTRY_BYTES = 176
"""The memory of one entry in bytes, without the bytes of the key: dictionary slot, key object and
offset. Measured with CPython 3.11."""


class OffsetMap:
    """The offset of the last record of each key. Batches are entered in log order; then the map is
    frozen into columns."""

    def __init__(self, bytes_max: int) -> None:
        self.latest: dict[bytes, int] = {}
        """The offset of each key's last record, or its bitwise complement if the record is a
        tombstone."""
        self.end_offset = 0
        """The offset after the last batch that was entered."""
        self.records = 0
        self._bytes_left = bytes_max
        self._live = array("q")
        self._tombstones = array("q")

    def has_room(self, section_bytes: int, records: int) -> bool:
        """Returns whether a batch fits in the remaining memory even if all its keys are new. The
        first batch always fits."""
        return not self.latest or section_bytes + records * ENTRY_BYTES <= self._bytes_left

    def add(self, section: bytes, count: int, base_offset: int) -> None:
        """Enters the keys of the ``count`` records of an uncompressed section. Raises
        CorruptRecords."""
        latest = self.latest
        before = len(latest)
        key_bytes = note_keys(section, count, base_offset, latest)
        new = len(latest) - before
        if new:
            self._bytes_left -= new * ENTRY_BYTES + key_bytes * new // count
        self.records += count

    def add_records(self, records: Sequence[Record]) -> None:
        latest = self.latest
        for record in records:
            if record.key is not None:
                if record.key not in latest:
                    self._bytes_left -= ENTRY_BYTES + len(record.key)
                latest[record.key] = record.offset if record.value is not None else ~record.offset
        self.records += len(records)

    def is_last(self, key: bytes, offset: int) -> bool:
        """Returns True if the dirty part of the log has no record with this key after the record at
        ``offset``."""
        last = self.latest.get(key)
        return last is None or (last if last >= 0 else ~last) <= offset

    def freeze(self) -> None:
        """Sorts the offsets, for `live_in`. Afterwards no record can be entered."""
        values = sorted(self.latest.values())
        first_live = bisect_left(values, 0)
        tombstones = [~value for value in values[first_live - 1 :: -1]] if first_live else []
        self._live = array("q", values)
        if tombstones:
            self._live = array("q", sorted(values[first_live:] + tombstones))
        self._tombstones = array("q", tombstones)

    def live_in(self, first: int, last: int) -> array[int]:
        """Returns the offsets from ``first`` to ``last`` whose records are the last records of
        their keys."""
        live = self._live
        low = bisect_left(live, first)
        return live[low : bisect_left(live, last + 1, low)]

    def tombstones_in(self, first: int, last: int) -> array[int]:
        """Returns those offsets of ``live_in(first, last)`` whose records are tombstones."""
        tombstones = self._tombstones
        low = bisect_left(tombstones, first)
        return tombstones[low : bisect_left(tombstones, last + 1, low)]
