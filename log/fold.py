"""Rebuilds producers, transactions and leader epochs from the batch headers of a log."""

from __future__ import annotations

import os
from collections.abc import Mapping

from log.batch_scan import Header, headers
from log.files.filesystem import File, FileSystem, read_whole, write_whole
from log.indexes.transaction_index import Aborted
from log.leader_epochs import LeaderEpochs
from log.leftovers import snapshot_offsets
from log.markers import marker_at
from log.producers.producer_snapshot import ProducerImage
from log.producers.producer_state import ProducerStates
from log.segment import SNAPSHOT, file_name
from log.segments import Segments
from protocol.records.batch import CONTROL_BIT


def fold(
    segments: Segments,
    producers: ProducerStates,
    epochs: LeaderEpochs,
    known: Mapping[int, int],
    *,
    log_start_offset: int,
    log_end_offset: int,
    from_offset: int,
) -> None:
    """Loads producers and leader epochs from their files, then applies the headers of later batches
    in the log. Raises CorruptLog.

    Unusable producer snapshots are removed. Aborted transactions are written to the indexes of
    their segments. ``known`` is RecoveryReport.epochs_without_producers of the preceding recovery.
    All batches from ``from_offset`` on are read, even if a snapshot covers them.

    Batches below the log start offset that are still in the first segment count for producers, as
    they do in the running process. Without these batches a producer's next batch would seem to
    leave a gap.
    """
    snapshot_offset = _load_snapshot(segments, producers, from_offset, log_end_offset)
    epochs_known = epochs.load()
    epochs.truncate_from_end(log_end_offset + 1)
    epochs.truncate_from_start(segments[0].base_offset)
    start_offset = snapshot_offset
    if not epochs_known:
        start_offset = min(snapshot_offset, log_start_offset)
    changed = False
    for segment in segments.from_offset(start_offset) if start_offset < log_end_offset else ():
        epoch = known.get(segment.base_offset)
        if epoch is not None and epoch <= epochs.latest:
            continue  # its headers would not change the state
        aborted: list[Aborted] = []
        position = segment.index.lookup(start_offset)
        for batch in headers(segment.file, position, segment.size):
            if batch.leader_epoch > epochs.latest:
                began = max(batch.base_offset, log_start_offset)
                changed |= epochs.note(batch.leader_epoch, began)
            if batch.producer_id >= 0 and batch.base_offset >= snapshot_offset:
                if batch.attributes & CONTROL_BIT:
                    aborted += _end(producers, segment.file, batch)
                else:
                    producers.note(batch)
        segment.transactions.settle(snapshot_offset, aborted)
    if not epochs.entries:
        changed = epochs.note(0, log_end_offset)
    if changed:
        epochs.save(durable=False)


def _end(producers: ProducerStates, file: File, batch: Header) -> list[Aborted]:
    """Applies a control batch to the producers. If the batch aborts a transaction, returns a list
    with only this transaction, otherwise an empty list."""
    ended = marker_at(file, batch)
    if ended is None:
        producers.note_epoch(batch.producer_id, batch.producer_epoch)
        return []
    aborted = producers.aborted_by((ended,))
    producers.end(ended)
    return aborted


def _load_snapshot(
    segments: Segments, producers: ProducerStates, from_offset: int, log_end_offset: int
) -> int:
    """Loads the newest usable producer snapshot. Returns the offset from which batches must be
    read.

    A snapshot before the first segment is unusable, because the batches between the snapshot and
    the segment no longer exist. A snapshot after ``from_offset`` is skipped, because the batches
    between ``from_offset`` and the snapshot must be read.
    """
    fs, directory = segments.fs, segments.directory
    producers.clear()
    first = segments[0].base_offset
    for offset in reversed(snapshot_offsets(fs, directory)):
        path = _path(directory, offset)
        if first <= from_offset < offset <= log_end_offset:
            continue
        if first <= offset <= log_end_offset and producers.restore(read_whole(fs, path)):
            return offset
        fs.remove(path)
    return first


def write_image(fs: FileSystem, directory: str, image: ProducerImage) -> None:
    """Writes a packed producer snapshot. At offset 0 no snapshot is written, as in Kafka. Raises
    OSError."""
    if image.offset:
        write_whole(fs, _path(directory, image.offset), image.data(), durable=False)


def remove_snapshots(fs: FileSystem, directory: str, below_offset: int) -> None:
    """Removes the producer snapshots below ``below_offset``, because their segments are deleted.
    The newest snapshot is always kept."""
    for offset in snapshot_offsets(fs, directory)[:-1]:
        if offset < below_offset:
            fs.remove(_path(directory, offset))


def _path(directory: str, offset: int) -> str:
    return os.path.join(directory, file_name(offset, SNAPSHOT))
