"""Replaces segments by the cleaned segment that was made from them. A crash after any step is safe.

The decisive step is the rename of the ``.log.cleaned`` file to ``.swap``. If the broker crashes
before this step, the old segments are the log, and opening the log removes the cleaned files. After
this step, opening the log replaces the old segments by the new segment (leftovers.py).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from weakref import ref

from log.cleaner.clean_job import CleanedGroup
from log.files.filesystem import FileSystem
from log.indexes.transaction_index import TXN_INDEX, TransactionIndex
from log.leftovers import CLEANED, SWAP, Leaving
from log.partition_log import PartitionLog
from log.segment import DELETED, INDEX, LOG, TIME_INDEX, Segment, file_name

_INDEXES = (INDEX, TIME_INDEX)


def sources_of(log: PartitionLog, group: CleanedGroup) -> list[Segment] | None:
    """Returns the segments from which ``group`` was made; None if the log no longer has all of
    them."""
    found = log.segments.from_offset(group.base_offset)[: len(group.sources)]
    if [segment.base_offset for segment in found] != group.sources or log.active in found:
        return None
    return found


def commit(log: PartitionLog, group: CleanedGroup) -> TransactionIndex:
    """Renames the cleaned files so that they replace the old files even after a crash. Returns the
    index of the remaining aborted transactions, for `exchange`. Raises OSError.

    The function waits for the disk, so the event loop must not call it; any other thread may.
    Segments of the log must not be deleted between `commit` and the end of `exchange`.
    """
    fs = log.fs
    path = os.path.join(log.directory, file_name(group.base_offset, TXN_INDEX))
    left = TransactionIndex(fs, path + SWAP)
    if fs.exists(path + CLEANED):
        fs.rename(path + CLEANED, path + SWAP)
        left.load()
    for suffix in (*_INDEXES, LOG):
        path = os.path.join(log.directory, file_name(group.base_offset, suffix))
        fs.rename(path + CLEANED, path + SWAP)
    fs.fsync_directory(log.directory)
    return left


def exchange(
    log: PartitionLog, group: CleanedGroup, sources: Sequence[Segment], left: TransactionIndex
) -> list[Leaving]:
    """Replaces the old segments ``sources`` by the new segment in the log's list of segments.
    Returns the old files, which `discard` removes.

    ``left`` becomes the new segment's index of aborted transactions. The function must run in the
    thread of the log's owner. It renames files without fsync. Readers that have opened an old
    segment can finish. Raises OSError; after an error the log must be reopened.
    """
    fs = log.fs
    sources[0].keep_open()  # the new segment takes its file names
    old = []
    for replaced in sources[1:]:
        replaced.rename(DELETED)
        old.append(Leaving(replaced.paths(), ref(replaced)))
    if left:
        left.move(os.path.join(log.directory, file_name(group.base_offset, TXN_INDEX)))
    else:
        fs.remove(sources[0].path(TXN_INDEX))
    for suffix in (*_INDEXES, LOG):
        path = os.path.join(log.directory, file_name(group.base_offset, suffix))
        fs.rename(path + SWAP, path)
    segment = Segment(
        fs, log.directory, group.base_offset, log.config.segment_index_bytes, create=False
    )
    if left:
        segment.transactions = left
    if segment.load_indexes() is not None:
        segment.rebuild_indexes(log.config.index_interval_bytes)
        segment.seal()
    segment.release_indexes()
    segment.unsynced = False
    log.segments.exchange(sources, segment)
    return old


def discard(fs: FileSystem, old: Sequence[Leaving], sources: list[Segment]) -> list[Leaving]:
    """Removes the old files that `exchange` returned. Returns the files that can't be removed.

    The function empties ``sources``, so that only readers still have references to the segments. It
    may run in any thread, because the removal of a large file may take long.
    """
    sources.clear()
    return [leaving for leaving in old if leaving.remove(fs) is not None]


def abandon(log: PartitionLog, group: CleanedGroup) -> None:
    """Removes the cleaned files of a group whose source segments were deleted during the cleaning.
    Raises OSError."""
    for suffix in (*_INDEXES, TXN_INDEX, LOG):
        path = os.path.join(log.directory, file_name(group.base_offset, suffix))
        log.fs.remove(path + CLEANED)
