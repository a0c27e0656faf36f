"""What leaves a log: old segments by time, size and start offset, and ends cut off by a leader.

A segment is deleted as Kafka does it: its files are renamed to ``.deleted`` at once, and removed
after `file.delete.delay.ms`, or when the log is opened next. Whoever still reads it reads on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from weakref import ref

from log.errors import LogPoisoned, OffsetOutOfRange
from log.fold import fold, remove_snapshots
from log.leftovers import Leaving
from log.segment import DELETED, Segment

if TYPE_CHECKING:
    from log.partition_log import PartitionLog

HIGH_WATERMARK = -1
"""Given for an offset in DeleteRecords it means all that consumers see."""


def apply_retention(log: PartitionLog, now_ms: int) -> list[int]:
    """See PartitionLog.apply_retention."""
    config = log.config
    log.undeleted = None
    purge(log, now_ms)
    log.producers.expire(now_ms - config.producer_id_expiration_ms)
    deleted: list[int] = []
    if config.deletes and config.retention_ms >= 0:
        deleted += _delete_prefix(
            log, lambda segment, _: now_ms - _time_of(log, segment) > config.retention_ms, now_ms
        )
    if config.deletes and config.retention_bytes >= 0:
        surplus = log.size_bytes - config.retention_bytes

        def is_surplus(segment: Segment, _: int) -> bool:
            nonlocal surplus
            surplus -= segment.size
            return surplus >= 0

        deleted += _delete_prefix(log, is_surplus, now_ms)
    deleted += _delete_prefix(log, lambda _, end: end <= log.log_start_offset, now_ms)
    return deleted


def _delete_prefix(
    log: PartitionLog, goes: Callable[[Segment, int], bool], now_ms: int
) -> list[int]:
    """Delete the first segments for which ``goes(segment, its end offset)``; their base offsets.

    An empty active segment stays, one with records is rolled first. Nothing at or above the high
    watermark goes.
    """
    if log.swapping:
        return []
    segments = log.segments
    ends = [*(segment.base_offset for segment in segments[1:]), log.log_end_offset]
    count = 0
    for segment, end in zip(segments, ends, strict=True):
        if end > log.high_watermark or (not segment.size and segment is log.active):
            break
        if not goes(segment, end):
            break
        count += 1
    if count == len(segments):
        try:
            log.roll()
        except OSError as error:  # of a full disk, say: the others' room is wanted all the more
            log.undeleted = log.undeleted or error
            count -= 1
    _delete(log, segments[:count], now_ms)
    return [segment.base_offset for segment in segments[:count]]


def _delete(log: PartitionLog, segments: list[Segment], now_ms: int) -> None:
    if not segments:
        return
    log.segments = log.segments[len(segments) :]
    log.log_start_offset = max(log.log_start_offset, log.segments[0].base_offset)
    for segment in segments:
        hide(log, segment, now_ms)
    try:
        log.epochs.truncate_from_start(log.log_start_offset)
        remove_snapshots(log, log.segments[0].base_offset)
    except OSError as error:
        log.undeleted = log.undeleted or error


def hide(log: PartitionLog, segment: Segment, now_ms: int) -> None:
    """Rename a segment's files, to be removed when their time has come.

    One that can't be renamed is removed by the name that it has. A crash before that brings it
    back into the log, below the log's start, where the next process's retention finds it.
    """
    due_ms = now_ms + log.config.file_delete_delay_ms
    try:
        segment.rename(DELETED)
    except OSError as error:
        log.undeleted = log.undeleted or error
    log.pending_deletes.append(Leaving(segment.paths(), ref(segment), due_ms))


def purge(log: PartitionLog, now_ms: int) -> None:
    """Remove the files whose delay is over; what can't be removed is tried again next time."""
    waiting = []
    for leaving in log.pending_deletes:
        if leaving.due_ms <= now_ms:
            failed = leaving.remove(log.fs)
            if failed is None:
                continue
            log.undeleted = log.undeleted or failed
        waiting.append(leaving)
    log.pending_deletes = waiting


def delete_records(log: PartitionLog, offset: int) -> int:
    """See PartitionLog.delete_records."""
    target = log.high_watermark if offset == HIGH_WATERMARK else offset
    if not 0 <= target <= log.high_watermark:
        raise OffsetOutOfRange(offset, log.log_start_offset, log.high_watermark)
    if target > log.log_start_offset:
        log.epochs.truncate_from_start(target)
        log.log_start_offset = target
    return log.log_start_offset


def truncate_to(log: PartitionLog, offset: int, now_ms: int) -> int:
    """See PartitionLog.truncate_to."""
    if offset >= log.log_end_offset:
        return log.log_end_offset
    kept = [segment for segment in log.segments if segment.base_offset <= offset]
    gone = log.segments[len(kept) :]
    try:
        if not kept:
            kept = [log.new_segment(offset)]
            end_offset = offset
        else:
            end_offset = kept[-1].truncate_to(offset)
            kept[-1].resume()
    except OSError as error:
        reason = f"truncating {log.directory} to offset {offset} failed: {error}"
        log.fail_for_good(reason)
        raise LogPoisoned(reason, final=True) from error
    log.segments = kept
    log.active = kept[-1]
    log.log_end_offset = end_offset
    log.log_start_offset = min(log.log_start_offset, end_offset)
    log.high_watermark = min(log.high_watermark, end_offset)
    log.recovery_point = min(log.recovery_point, end_offset)
    for segment in gone:
        hide(log, segment, now_ms)
    log.epochs.truncate_from_end(end_offset)
    fold(log)
    _sync_truncation(log)
    return end_offset


def _sync_truncation(log: PartitionLog) -> None:
    """What was cut must not come back behind new batches when power is lost."""
    try:
        log.active.file.fsync()
        log.fs.fsync_directory(log.directory)
    except OSError as error:
        log.fail_for_good(f"truncating {log.directory} failed: {error}")
        raise LogPoisoned(str(log.poisoned), final=True) from error


def _time_of(log: PartitionLog, segment: Segment) -> int:
    """The segment's largest timestamp; without one, when its file was written."""
    if segment.max_timestamp_ms >= 0:
        return segment.max_timestamp_ms
    return log.fs.modified_ms(segment.file.path)
