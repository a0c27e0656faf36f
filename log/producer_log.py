"""The producers' state beside a log: loading it from snapshots and batch headers, and saving it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from log.batch_scan import headers
from log.filesystem import read_whole, write_whole
from log.leftovers import snapshot_offsets
from log.segment import SNAPSHOT, file_name

if TYPE_CHECKING:
    from log.partition_log import PartitionLog


def load_producers(log: PartitionLog) -> None:
    """Fold the headers behind the newest usable snapshot; those above the log's end are removed.

    Raises CorruptLog.
    """
    start_offset = log.log_start_offset
    log.producers.clear()
    for offset in reversed(snapshot_offsets(log.fs, log.directory)):
        path = _path(log, offset)
        if offset > log.log_end_offset:
            log.fs.remove(path)
        elif log.producers.restore(read_whole(log.fs, path)):
            start_offset = max(start_offset, offset)
            break
        else:
            log.fs.remove(path)
    if start_offset >= log.log_end_offset:
        return
    for segment in log.segments[log.segment_index(start_offset) :]:
        position = segment.index.lookup(start_offset)
        for batch in headers(segment.file, position, segment.size):
            if batch.producer_id >= 0 and batch.base_offset >= start_offset:
                log.producers.note(batch)


def save_producers(log: PartitionLog) -> None:
    """Write the snapshot for the log's end. Raises OSError."""
    path = _path(log, log.log_end_offset)
    write_whole(log.fs, path, log.producers.snapshot(), durable=False)


def remove_snapshots(log: PartitionLog, below_offset: int) -> None:
    """Drop the snapshots of segments that have gone; the newest always stays."""
    for offset in snapshot_offsets(log.fs, log.directory)[:-1]:
        if offset < below_offset:
            log.fs.remove(_path(log, offset))


def _path(log: PartitionLog, offset: int) -> str:
    return os.path.join(log.directory, file_name(offset, SNAPSHOT))
