"""The timestamp of the first record at or above an offset. This timestamp shows the age of a
consumer's unread records.

The header of a record's batch is often sufficient. Otherwise the records are decoded. If a batch is
so large that decoding would take milliseconds, the batch's first timestamp is used, and the result
is marked as approximate. For many records of a log use one `TimeReader` with ascending offsets,
because it continues from its last position.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from log.batch_scan import Header, headers
from log.errors import CorruptLog
from log.segment import Segment
from log.segments import Segments
from protocol.buffer import Buffer
from protocol.records.batch import HEADER_BYTES, section_of
from protocol.records.corrupt import CorruptRecords
from protocol.records.stored import read_stored, stored_records
from protocol.records.varint import read_varint, read_varlong

COMPRESSED_BYTES_MAX = 16 * 1024
PLAIN_BYTES_MAX = 1024 * 1024
OPENED_BYTES_MAX = 1024 * 1024
RECORDS_MAX = 5000
"""A batch with more records than this number is not decoded. With this limit a read takes at most
about 5 ms. The size of a decoded batch is limited too."""
BATCHES_MAX = 1000
"""A search for a record's time ends after this number of batches without data records (cleaned
batches or markers)."""

NEAR = 1000
"""If the searched offset is at most this number of offsets away, the search reads batch by batch.
If it is farther away, the search uses the index."""

_TIMES = struct.Struct(">27xqq14xi")
"""Reads the base timestamp, the largest timestamp and the record count of a batch of magic 2."""
_CODEC, _LOG_APPEND, _CONTROL, _DELETE_HORIZON = 0x07, 0x08, 0x20, 0x40


class RecordTime(NamedTuple):
    """A timestamp in wall milliseconds, and whether it is exact or belongs to a nearby record."""

    timestamp_ms: int
    approximate: bool
    none_below: int = 0
    """0 if the search found a record. If it found only transaction markers: the offset at which it
    ended."""


class TimeReader:
    """Reads the times of records of one log in one pass.

    The reader does not detect truncated or replaced segments. It is fastest for ascending offsets:
    each batch is opened once, and each record is skipped once.
    """

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        self._opened: _Section | None = None
        """The batch whose records were decoded last."""
        self._segment: Segment | None = None
        self._batches: Iterator[Header] = iter(())
        """An iterator over the batches of ``_segment`` that follow the last batch that was read."""
        self._passed = -1
        self.saw_end = False
        """True if the last search found no record before the log end offset."""

    def first_at(self, offset: int) -> RecordTime | None:
        """Returns the time of the first record at or above ``offset`` that a consumer would
        receive. Returns None without such a record, or if the record has no timestamp (magic 0).

        May run in any thread. Raises CorruptLog and OSError; may be called again after any error.
        """
        self.saw_end = False
        opened = self._opened
        if opened is not None and opened.base_offset <= offset <= opened.last_offset:
            with suppress(CorruptRecords, IndexError):  # raised again below, with the position
                return RecordTime(opened.timestamp_ms(offset), False)
            self._opened = None
        segment = self._segment
        if segment is not None and self._passed < offset <= self._passed + NEAR:
            found, time = self._first_in(segment, self._batches, offset)
            if found:
                return time
        self._segment = None
        self.saw_end = True
        for segment in self._segments.from_offset(offset):
            place = segment.locate(offset)
            if place is None:
                continue
            batches = headers(segment.file, place.position, segment.size)
            found, time = self._first_in(segment, batches, offset)
            if found:
                return time
        return None

    def _first_in(
        self, segment: Segment, batches: Iterator[Header], offset: int
    ) -> tuple[bool, RecordTime | None]:
        """Searches the next batches for the first record at or above ``offset``. Returns whether
        they have such a record, and the time of this record."""
        self._segment = None  # in case this search fails
        left = BATCHES_MAX
        for batch in islice(batches, BATCHES_MAX):
            left -= 1
            if batch.last_offset < offset or (batch.attributes & _CONTROL and batch.magic == 2):
                continue
            found = self._of_batch(segment, batch, offset)
            if found is not None:
                self._segment, self._batches, self._passed = segment, batches, batch.last_offset
                self.saw_end = False
                return True, None if found.timestamp_ms < 0 else found
        if not left:
            self.saw_end = False
        return False, None

    def _of_batch(self, segment: Segment, batch: Header, offset: int) -> RecordTime | None:
        """Returns the time of the batch's first record at or above ``offset``; None if the batch
        has no such record."""
        size = batch.end - batch.position
        attributes = batch.attributes
        too_long = size > (COMPRESSED_BYTES_MAX if attributes & _CODEC else PLAIN_BYTES_MAX)
        first_ms = batch.max_timestamp
        whole = False
        base_ms = -1
        if batch.magic == 2:
            head = segment.file.read(batch.position, HEADER_BYTES)
            base_ms, max_ms, count = _TIMES.unpack_from(head)
            if not count:
                return None
            whole = count == batch.last_offset - batch.base_offset + 1
            if attributes & _LOG_APPEND and whole:
                return RecordTime(max_ms, False)
            if not attributes & _DELETE_HORIZON:
                first_ms = base_ms
                if whole and batch.base_offset >= offset:
                    return RecordTime(base_ms, False)
            too_long = too_long or count > RECORDS_MAX
        if too_long:
            return RecordTime(first_ms, True)
        data = segment.file.read(batch.position, size)
        try:
            if whole and not attributes & _DELETE_HORIZON:
                section = section_of(data, read_stored(data), OPENED_BYTES_MAX)
                opened = _Section(section, batch.base_offset, batch.last_offset, base_ms)
                time = RecordTime(opened.timestamp_ms(offset), False)
                self._opened = opened
                return time
            records = stored_records(data, read_stored(data), OPENED_BYTES_MAX)
        except (CorruptRecords, IndexError) as error:
            if attributes & _CODEC:  # or the records are too large when decompressed
                return RecordTime(first_ms, True)
            raise CorruptLog(
                segment.file.path, batch.position, f"the batch's records are truncated: {error}"
            ) from None
        for record in records:
            if record.offset >= offset:
                return RecordTime(record.timestamp, False)
        return None


class _Section:
    """The records of a batch that has no gaps between its offsets. The object stores the position
    of the last read record, so that the next search can begin there."""

    def __init__(self, data: Buffer, base_offset: int, last_offset: int, base_ms: int) -> None:
        self.base_offset = base_offset
        self.last_offset = last_offset
        self._data = data
        self._base_ms = base_ms
        self._at = base_offset
        """The offset of the record that begins at ``_position``."""
        self._position = 0

    def timestamp_ms(self, offset: int) -> int:
        """Returns the timestamp of the record at ``offset``. Raises CorruptRecords or IndexError if
        the bytes are truncated."""
        if offset < self._at:
            self._at, self._position = self.base_offset, 0
        data, position = self._data, self._position
        for _ in range(offset - self._at):  # skip a record by its length
            length = data[position]
            if length < 0x80:
                position += 1 + (length >> 1 ^ -(length & 1))
            else:
                length, position = read_varint(data, position)
                position += length
        _, start = read_varint(data, position)
        delta_ms, _ = read_varlong(data, start + 1)
        self._at, self._position = offset, position
        return self._base_ms + delta_ms
