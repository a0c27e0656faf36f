"""Which transactions of a log were aborted: for consumers that read what is committed.

Apache Kafka writes them into a ``.txnindex`` file beside each segment, as their markers come:
version, producer id, first offset, offset of the marker, last stable offset. Entries that its crash
or a loss of power took are written anew from the batches behind the newest producer snapshot. An
entry whose marker is no longer in the log was cleaned away with its records and is overlooked: a
consumer that was given it would wait for the marker and drop what the producer wrote later.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from log import reading
from log.batch_scan import Header, headers
from log.errors import CorruptLog
from log.filesystem import File, read_whole, write_whole
from log.leftovers import base_offsets
from log.segment import Segment
from protocol.records.batch import CONTROL_BIT, read_header, records_of
from protocol.records.corrupt import CorruptRecords

if TYPE_CHECKING:
    from log.partition_log import PartitionLog

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


def load(log: PartitionLog, met: Iterable[Aborted]) -> None:
    """Take over what the files know; those ``met`` in the log that they do not are written down.

    Raises CorruptLog.
    """
    indexed = set[Aborted]()
    for base_offset in base_offsets(log.fs, log.directory, TXN_INDEX):
        data = read_whole(log.fs, _path(log, base_offset))
        whole = len(data) // _ENTRY.size * _ENTRY.size
        indexed.update(Aborted(*entry[1:4]) for entry in _ENTRY.iter_unpack(data[:whole]))
    log.aborted = sorted(indexed.union(met), key=_last)
    overlook_cleaned(log)
    missing = set(log.aborted) - indexed
    for segment in {log.segments[log.segment_index(entry.last_offset)] for entry in missing}:
        _write(log, segment)


def overlook_cleaned(log: PartitionLog) -> None:
    """Forget the transactions whose marker is in the log no more."""
    log.aborted = [entry for entry in log.aborted if _has_marker(log, entry)]


def seen_from(log: PartitionLog, offset: int) -> Sequence[tuple[int, int]]:
    """What a reader at ``offset`` must know, who reads one segment at a time.

    Producer ids and first offsets of the aborted transactions that reach ``offset`` and begin
    before that segment's end. Raises CorruptLog.
    """
    found = reading.find(log, offset)
    if found is None:
        return ()
    end_offset = _end_offset(log, found[0])
    return [
        (entry.producer_id, entry.first_offset)
        for entry in log.aborted[bisect_left(log.aborted, offset, key=_last) :]
        if entry.first_offset < end_offset
    ]


def _end_offset(log: PartitionLog, segment: Segment) -> int:
    """Where the next segment begins."""
    index = bisect_right(log.segments, segment.base_offset, key=_base_offset)
    return log.segments[index].base_offset if index < len(log.segments) else log.log_end_offset


def _has_marker(log: PartitionLog, entry: Aborted) -> bool:
    if not log.segments[0].base_offset <= entry.last_offset < log.log_end_offset:
        return False
    segment = log.segments[log.segment_index(entry.last_offset)]
    with suppress(CorruptLog):
        place = segment.locate(entry.last_offset)
        if place is not None and place.base_offset == entry.last_offset:
            header: Header = next(headers(segment.file, place.position, place.end))
            return header.producer_id == entry.producer_id and bool(header.attributes & CONTROL_BIT)
    return False


def _write(log: PartitionLog, segment: Segment) -> None:
    """Write down what is known of a segment's markers; a lost file costs a scan, never data."""
    end = _end_offset(log, segment)
    entries = [e for e in log.aborted if segment.base_offset <= e.last_offset < end]
    data = b"".join(_ENTRY.pack(_VERSION, *entry, entry.last_offset + 1) for entry in entries)
    with suppress(OSError):
        write_whole(log.fs, _path(log, segment.base_offset), data, durable=False)


def _path(log: PartitionLog, base_offset: int) -> str:
    return f"{log.directory}/{base_offset:020d}{TXN_INDEX}"


def _last(entry: Aborted) -> int:
    return entry.last_offset


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
