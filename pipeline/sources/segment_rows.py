"""Converts the entries of a segment to rows: EVENTS, STRETCHES, or the records of any topic."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from pipeline.errors import PipelineError
from pipeline.model.events import SEGMENT_RECORDS, STRETCHES, TORN
from pipeline.sources.decode import ALL_OFFSETS, add_entry
from pipeline.sources.event_rows import ROWS_AT_ONCE, EventRows
from pipeline.sources.group_records import TopicNames
from pipeline.sources.log_times import time_or_none, times
from pipeline.sources.segment_ends import last_indexed
from pipeline.sources.segment_files import Segment, missing_behind, open_segment
from pipeline.sources.segment_reader import Damage, Entry, SegmentFile
from protocol.records.batch import LOG_APPEND_TIME
from protocol.records.corrupt import CorruptRecords
from protocol.records.section import NO_TIMESTAMP
from protocol.records.stored import UNKNOWN_COUNT, stored_records, validate_stored

_BYTES_AT_ONCE = 8 << 20
_NO_TIMESTAMP_TYPE = -1

Offsets = tuple[int, int]
"""A range of log offsets: the first requested offset, and the offset after the last requested
offset."""


class SegmentRows(Protocol):
    """The interface of an object that collects the rows of one segment."""

    def add(self, entry: Entry, offsets: Offsets) -> None:
        """Adds the rows of a complete entry whose offsets are in the range ``offsets``."""

    def damaged(self, offset: int, position: int | None, reason: str) -> None:
        """Handles data of the segment that is missing or can't be read. ``position`` is None if the
        whole segment can't be opened."""

    def torn(self, offset: int, position: int, reason: str) -> None:
        """Handles an incomplete batch at the end of a log. A killed broker leaves such a batch."""

    @property
    def waiting(self) -> int: ...

    @property
    def full(self) -> bool:
        """True if enough rows for one Arrow batch were collected."""

    def take(self) -> pa.RecordBatch:
        """Returns the collected rows, and removes them from this object."""


class OffsetRows:
    """Collects rows of `EVENTS`."""

    def __init__(self, segment: Segment, names: TopicNames | None = None) -> None:
        self._file = segment.file
        self._rows = EventRows(segment.partition, names)

    def add(self, entry: Entry, offsets: Offsets) -> None:
        """Decodes the records of an entry. If a record can't be decoded, this record and all later
        records of the entry become one row of kind DAMAGED."""
        rows, first = self._rows, len(self._rows)
        try:
            add_entry(rows, entry.buffer, entry.header, offsets)
        except CorruptRecords as error:
            self.damaged(_unread_offset(rows, first, entry), entry.position, str(error))
        rows.place_damage(first, self._file, entry.position)

    def damaged(self, offset: int, position: int | None, reason: str) -> None:
        self._rows.add_damage(offset, self._file, position, reason)

    def torn(self, offset: int, position: int, reason: str) -> None:
        self._rows.add_damage(offset, self._file, position, reason, TORN)

    @property
    def waiting(self) -> int:
        return len(self._rows)

    @property
    def full(self) -> bool:
        """True if enough rows were collected. Their size in bytes does not matter, because each row
        is small."""
        return len(self._rows) >= ROWS_AT_ONCE

    def take(self) -> pa.RecordBatch:
        return self._rows.take()


def _unread_offset(rows: EventRows, first: int, entry: Entry) -> int:
    """Returns the offset at which the decoding of ``entry`` stopped: the offset after the last row
    that the entry added, or the base offset of the entry if it added no row."""
    return rows.last_offset + 1 if len(rows) > first else entry.header.base_offset


class RecordRows:
    """Collects rows of `SEGMENT_RECORDS`, the records of any topic."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._rows: list[tuple[Any, ...]] = []
        self._bytes = 0

    def add(self, entry: Entry, offsets: Offsets) -> None:
        """Adds the records of an entry. Transaction markers are skipped."""
        header = entry.header
        try:
            validate_stored(entry.buffer, header)
            if header.magic == 2 and header.is_control:
                return
            records = stored_records(entry.buffer, header)
        except CorruptRecords as error:
            self.damaged(header.base_offset, entry.position, str(error))
            return
        kind = header.timestamp_type if header.magic else _NO_TIMESTAMP_TYPE
        first, behind = offsets
        for record in records:
            if first <= record.offset < behind:
                self._row(record.offset, record.key, record.value, record.timestamp, kind,
                          [_header(*h) for h in record.headers] or None)  # fmt: skip
                self._bytes += 64 + len(record.key or b"") + len(record.value or b"")

    def damaged(self, offset: int, position: int | None, reason: str) -> None:
        """Adds a row that describes the damage. Its key and value are null."""
        damage = {"file": self._segment.file, "position": position, "reason": reason}
        self._row(offset, None, None, NO_TIMESTAMP, None, None, damage)

    def torn(self, offset: int, position: int, reason: str) -> None:
        """Called for an incomplete batch at the end of a log. Adds no row, since the broker never
        acknowledged the records of this batch."""

    def _row(
        self,
        offset: int,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        timestamp_type: int | None,
        headers: list[dict[str, Any]] | None,
        damage: dict[str, Any] | None = None,
    ) -> None:
        time = time_or_none(timestamp_ms)
        self._rows.append((key, value, offset, time, timestamp_type, headers, damage))

    @property
    def waiting(self) -> int:
        return len(self._rows)

    @property
    def full(self) -> bool:
        return len(self._rows) >= ROWS_AT_ONCE or self._bytes >= _BYTES_AT_ONCE

    def take(self) -> pa.RecordBatch:
        count = len(self._rows)
        key, value, offset, time, kind, headers, damage = zip(*self._rows, strict=True)
        columns = {
            "key": key,
            "value": value,
            "topic": [self._segment.topic] * count,
            "partition": [self._segment.partition] * count,
            "offset": offset,
            "timestamp": time,
            "timestampType": kind,
            "headers": headers,
            "damage": damage,
        }
        self._rows, self._bytes = [], 0
        return _batch(columns, SEGMENT_RECORDS)


def _header(key: str, value: bytes | None) -> dict[str, Any]:
    """Converts a record header to a row. Bytes of its key that are not UTF-8 are replaced, because
    the column contains strings."""
    return {"key": key.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),
            "value": value}  # fmt: skip


class StretchRows:
    """Collects rows of `STRETCHES` from the headers of batches, one row for each batch. It neither
    verifies checksums nor decodes records.

    The broker itself sets the timestamps of transaction markers, and all timestamps of a topic with
    LogAppendTime. Such a timestamp shows which log end offset the log had at this time. For the
    first such timestamp in a segment, one more row has the time and this log end offset.
    """

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._rows: list[tuple[int, int, int, int, int]] = []
        self._next = segment.base_offset
        self._is_seen = False
        """True if this object has already added the row that shows at which time the log had which
        end offset. Each segment gets at most one such row."""

    def add(self, entry: Entry, offsets: Offsets) -> None:  # noqa: ARG002
        """Adds one row for an entry. A compressed wrapper message of magic 0 or 1 does not have the
        offset of its first record, so its row begins at the offset after the preceding entry."""
        header = entry.header
        wrapper = header.record_count == UNKNOWN_COUNT
        base = self._next if wrapper else header.base_offset
        first = header.base_timestamp
        appended = header.magic > 0 and header.timestamp_type == LOG_APPEND_TIME
        if appended:
            first = header.max_timestamp
        elif wrapper:
            first = NO_TIMESTAMP  # known only when it is decompressed
        elif header.magic == 2 and header.delete_horizon_ms is not None:
            first = NO_TIMESTAMP  # the cleaner stores its delete horizon there
        self._next = header.last_offset + 1
        self._rows.append(
            (base, header.last_offset, first, header.max_timestamp, header.size_bytes)
        )
        if not self._is_seen and (appended or (header.magic == 2 and header.is_control)):
            self._is_seen = True
            self._rows.append(
                (self._next, header.last_offset, NO_TIMESTAMP, header.max_timestamp, 0)
            )

    def damaged(self, offset: int, position: int | None, reason: str) -> None:
        """Adds no row for the damage, because the rows of STRETCHES can't describe damage. A read
        of the same source with `as=records` reports it. Raises PipelineError if the segment is
        missing."""
        if position is None:
            raise PipelineError(f"{self._segment.file}, from offset {offset}: {reason}")

    def torn(self, offset: int, position: int, reason: str) -> None:
        """Adds no row for an incomplete batch."""

    @property
    def waiting(self) -> int:
        return len(self._rows)

    @property
    def full(self) -> bool:
        return len(self._rows) >= ROWS_AT_ONCE

    def take(self) -> pa.RecordBatch:
        base, last, first, greatest, size = np.array(self._rows, np.int64).T
        count = len(self._rows)
        columns = {
            "topic": [self._segment.topic] * count,
            "partition": np.full(count, self._segment.partition, np.int32),
            "base_offset": base,
            "last_offset": last,
            "first_at": times(first),
            "last_at": times(greatest),
            "size_bytes": size,
        }
        self._rows = []
        return _batch(columns, STRETCHES)


def read_segment(
    segment: Segment, rows: SegmentRows, offsets: Offsets = ALL_OFFSETS
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of one segment. Unreadable data raises no error, and is passed to
    ``rows.damaged`` or ``rows.torn``."""
    # The index is read before the log, because a broker appends to the log first.
    indexed = last_indexed(segment.file, segment.base_offset)
    try:
        descriptor = open_segment(segment)
    except OSError as error:
        said = f"can't open the segment: {error.strerror}"
        if segment.behind is None and segment.due is not None:
            said += (
                f"; according to {segment.due.by}, offsets up to {segment.due.offset - 1} were"
                " written"
            )
        rows.damaged(segment.base_offset, None, said)
        yield rows.take()
        return
    try:
        file = SegmentFile(descriptor, segment.base_offset, segment.behind)
        tail = None
        for entry in file.entries():
            if isinstance(entry, Entry):
                if _is_behind(entry, offsets):
                    break
                if entry.header.last_offset >= offsets[0]:
                    rows.add(entry, offsets)
            elif entry.rest:
                tail = entry
            else:
                rows.damaged(entry.offset, entry.position, entry.reason)
            if rows.full:
                yield rows.take()
        else:
            _add_end(rows, file, tail, missing_behind(segment, file, indexed))
    finally:
        os.close(descriptor)
    if rows.waiting:
        yield rows.take()


def _is_behind(entry: Entry, offsets: Offsets) -> bool:
    """Returns True if the entry begins at or after the end of the requested offsets. Returns False
    for a compressed wrapper message of magic 0 and 1, since its first offset is known only after
    decompression."""
    header = entry.header
    return header.base_offset >= offsets[1] and header.record_count != UNKNOWN_COUNT


def _add_end(
    rows: SegmentRows, file: SegmentFile, tail: Damage | None, missing: str | None
) -> None:
    """Reports the end of a segment if the end is unreadable or if records after it are missing."""
    position = file.size if tail is None else tail.position
    said = " ".join(each for each in (tail and tail.reason, missing) if each)
    if tail is not None and tail.torn and missing is None:
        rows.torn(file.next_offset, position, f"The log ends in the middle of a batch. {said}")
    elif said:
        rows.damaged(file.next_offset, position, said)


def _batch(columns: dict[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column, field.type)
        for field in schema
        for column in [columns[field.name]]
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
