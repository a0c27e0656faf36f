"""Which transactions of a log were aborted: for consumers that read what is committed.

Apache Kafka writes them into a ``.txnindex`` file beside each segment, as their markers come:
version, producer id, first offset, offset of the marker, last stable offset. Entries that a crash
or a power cut lost are written again from the batches after the newest producer snapshot. An entry
whose marker is no longer in the log was cleaned away with its records and is ignored: a consumer
that got it would wait for the marker and drop what the producer wrote later.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from log.batch_scan import Header, headers
from log.errors import CorruptLog
from log.filesystem import File, read_whole, write_whole
from log.leftovers import base_offsets
from log.segment import Segment
from log.segments import Segments
from protocol.records.batch import CONTROL_BIT, read_header, records_of
from protocol.records.corrupt import CorruptRecords

TXN_INDEX = ".txnindex"
_VERSION = 0
_ENTRY = struct.Struct(">hqqqq")
_ABORT = b"\0\0"


class Aborted(NamedTuple):
    """An aborted transaction: its first offset, and that of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int


def is_abort(file: File, position: int, end: int) -> bool:
    """Whether the control batch at ``position`` ends a transaction by aborting it.

    Raises CorruptLog.
    """
    data = file.read(position, end - position)
    try:
        markers = records_of(data, read_header(data))
    except CorruptRecords as error:
        raise CorruptLog(file.path, position, error.message) from None
    return bool(markers) and (markers[0].key or b"")[2:4] == _ABORT


def load(segments: Segments, met: Iterable[Aborted], end_offset: int) -> list[Aborted]:
    """What the files know, and those ``met`` in the log that they do not: these are written down.

    By the offsets of their markers. Raises CorruptLog.
    """
    indexed = set[Aborted]()
    for base_offset in base_offsets(segments.fs, segments.directory, TXN_INDEX):
        data = read_whole(segments.fs, _path(segments, base_offset))
        whole = len(data) // _ENTRY.size * _ENTRY.size
        indexed.update(Aborted(*entry[1:4]) for entry in _ENTRY.iter_unpack(data[:whole]))
    aborted = still_there(segments, sorted(indexed.union(met), key=_last), end_offset)
    missing = set(aborted) - indexed
    for segment in {segments.at(entry.last_offset) for entry in missing}:
        _write(segments, segment, aborted, end_offset)
    return aborted


def still_there(segments: Segments, aborted: Iterable[Aborted], end_offset: int) -> list[Aborted]:
    """Those of ``aborted`` whose marker a cleaner has left in the log."""
    return [entry for entry in aborted if _has_marker(segments, entry, end_offset)]


def seen_from(
    segments: Segments, aborted: Sequence[Aborted], offset: int, end_offset: int
) -> Sequence[tuple[int, int]]:
    """See PartitionLog.aborted_from."""
    found = segments.find(offset)
    if found is None:
        return ()
    end = segments.end_of(found[0], end_offset)
    return [
        (entry.producer_id, entry.first_offset)
        for entry in aborted[bisect_left(aborted, offset, key=_last) :]
        if entry.first_offset < end
    ]


def _has_marker(segments: Segments, entry: Aborted, end_offset: int) -> bool:
    if not segments[0].base_offset <= entry.last_offset < end_offset:
        return False
    segment = segments.at(entry.last_offset)
    with suppress(CorruptLog):
        place = segment.locate(entry.last_offset)
        if place is not None and place.base_offset == entry.last_offset:
            header: Header = next(headers(segment.file, place.position, place.end))
            return header.producer_id == entry.producer_id and bool(header.attributes & CONTROL_BIT)
    return False


def _write(
    segments: Segments, segment: Segment, aborted: Sequence[Aborted], end_offset: int
) -> None:
    """Write down what is known of a segment's markers; a lost file costs a scan, never data."""
    end = segments.end_of(segment, end_offset)
    entries = [e for e in aborted if segment.base_offset <= e.last_offset < end]
    data = b"".join(_ENTRY.pack(_VERSION, *entry, entry.last_offset + 1) for entry in entries)
    with suppress(OSError):
        write_whole(segments.fs, _path(segments, segment.base_offset), data, durable=False)


def _path(segments: Segments, base_offset: int) -> str:
    return f"{segments.directory}/{base_offset:020d}{TXN_INDEX}"


def _last(entry: Aborted) -> int:
    return entry.last_offset
