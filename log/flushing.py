"""Bringing a log to the disk: its segments, and the names of what was made in its directories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from log.errors import LogPoisoned
from log.fold import save_producers

if TYPE_CHECKING:
    from log.partition_log import PartitionLog


def flush(log: PartitionLog, closing: bool = False) -> int:
    """See PartitionLog.flush; with ``closing`` the active segment's indexes too.

    One at a time; appends may go on beside it. An OSError is final, since nobody knows what is on
    the disk then. Anything else that ends it, such as a lack of memory, leaves noted what is still
    to be done, and another flush may do it.
    """
    end_offset = log.log_end_offset
    segments = log.segments
    try:
        following = [segment.base_offset for segment in segments[1:]]
        for segment, end in zip(segments, [*following, end_offset], strict=True):
            if end >= log.recovery_point:
                segment.fsync(indexes=closing or segment is not segments[-1])
        sync_directories(log)
    except OSError as error:
        log.fail_for_good(f"flushing {log.directory} failed: {error}")
        raise LogPoisoned(log.poisoned or "", final=True) from error
    log.recovery_point = max(log.recovery_point, min(end_offset, log.log_end_offset))
    return end_offset


def flush_opened(log: PartitionLog) -> None:
    """Let readers have what a log is opened with: flushed first, where a flush is due.

    The process that wrote it may have been killed before its own. Raises OSError.
    """
    if log.flush_due:
        try:
            log.flush()
        except LogPoisoned as error:
            raise OSError(error.reason) from error
    log.advance_high_watermark()


def sync_directories(log: PartitionLog) -> None:
    """Fsync the directories that have new names; each leaves the set alone, before its fsync.

    Another thread may add one at any time: what it adds is for this round or for the next. Raises
    OSError; the directory that failed is in the set again.
    """
    unsynced = log.unsynced_directories
    while unsynced:
        directory = unsynced.pop()
        try:
            log.fs.fsync_directory(directory)
        except BaseException:
            unsynced.add(directory)
            raise


def finish(log: PartitionLog) -> None:
    """Write what a log has in memory alone, and flush all of it: the last that is done to it."""
    if not log.fs.exists(log.active.index.path):
        log.unsynced_directories.add(log.directory)
    log.active.seal()
    save_producers(log)
    if log.size_bytes:  # an empty log is made again as it was
        flush(log, closing=True)
    log.recovery_point = log.high_watermark = log.log_end_offset
