"""What a log's headers add up to: producers, transactions and leader epochs, at load and close."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from log.batch_scan import headers
from log.filesystem import read_whole, write_whole
from log.leftovers import snapshot_offsets
from log.segment import SNAPSHOT, file_name
from log.transactions import Aborted, is_abort
from log.transactions import load as load_aborted
from protocol.records.batch import CONTROL_BIT

if TYPE_CHECKING:
    from log.partition_log import PartitionLog

EPOCH_MAX = 2**31


def fold(log: PartitionLog) -> None:
    """Load producers and epochs from their files, and what batches add to them from the headers.

    Producer snapshots that are of no use are removed. Batches below the log's start that are still
    in its first segment count for producers, as they do while the process lives: without them a
    producer's next batch would seem to leave a gap. Raises CorruptLog.
    """
    snapshot_offset = _load_snapshot(log)
    epochs_known = log.epochs.load()
    log.epochs.truncate_from_end(log.log_end_offset + 1)
    log.epochs.truncate_from_start(log.segments[0].base_offset)
    start_offset = snapshot_offset
    if not epochs_known:
        start_offset = min(snapshot_offset, log.log_start_offset)
    changed = False
    aborted: list[Aborted] = []
    known = log.recovery.epochs_without_producers
    if start_offset < log.log_end_offset:
        for segment in log.segments[log.segment_index(start_offset) :]:
            if known.get(segment.base_offset, EPOCH_MAX) <= log.epochs.latest:
                continue  # recovery has read it just now, and it would add nothing
            position = segment.index.lookup(start_offset)
            for batch in headers(segment.file, position, segment.size):
                if batch.leader_epoch > log.epochs.latest:
                    began = max(batch.base_offset, log.log_start_offset)
                    changed |= log.epochs.note(batch.leader_epoch, began)
                if batch.producer_id >= 0 and batch.base_offset >= snapshot_offset:
                    if batch.attributes & CONTROL_BIT:
                        since = log.producers.open_transactions.get(batch.producer_id)
                        if since is not None and is_abort(segment.file, batch.position, batch.end):
                            aborted.append(Aborted(batch.producer_id, since, batch.base_offset))
                    log.producers.note(batch)
    known.clear()  # of the segments as they were; what is appended from now on is not in it
    if not log.epochs.entries:
        changed = log.epochs.note(0, log.log_end_offset)
    if changed:
        log.epochs.save(durable=False)
    load_aborted(log, aborted)


def _load_snapshot(log: PartitionLog) -> int:
    """Load the newest producer snapshot that is of use; return the offset to go on from.

    One from before the first segment is of none: of what came between nothing is known.
    """
    log.producers.clear()
    first = log.segments[0].base_offset
    for offset in reversed(snapshot_offsets(log.fs, log.directory)):
        path = _path(log, offset)
        if first <= offset <= log.log_end_offset and log.producers.restore(
            read_whole(log.fs, path)
        ):
            return offset
        log.fs.remove(path)
    return first


def save_producers(log: PartitionLog) -> None:
    """Write the snapshot for the log's end; none, as Kafka, where nothing was. Raises OSError."""
    if not log.log_end_offset:
        return
    path = _path(log, log.log_end_offset)
    write_whole(log.fs, path, log.producers.snapshot(), durable=False)


def remove_snapshots(log: PartitionLog, below_offset: int) -> None:
    """Drop the snapshots of segments that have gone; the newest always stays."""
    for offset in snapshot_offsets(log.fs, log.directory)[:-1]:
        if offset < below_offset:
            log.fs.remove(_path(log, offset))


def _path(log: PartitionLog, offset: int) -> str:
    return os.path.join(log.directory, file_name(offset, SNAPSHOT))
