"""Opens the segments of a log: checks them after a crash, truncates a torn tail, rebuilds indexes.

After a clean stop only the end of the last segment is checked. After any other stop, recovery reads
and checks every batch in the segments that have an offset at or above the *recovery point*. All
records below the recovery point were fsynced.

Damage at or above the recovery point is a torn tail, the remains of an interrupted write. The log
is truncated at the damage, and the report has an entry. Intact batches after the damage are kept in
a separate file. A crash does not cause damage below the recovery point: a log with such damage is
not opened.
"""

from __future__ import annotations

from dataclasses import field

from log.batch_scan import CHUNK_BYTES, checked_batches, holds_whole_batch
from log.config import LogConfig
from log.errors import CorruptLog
from log.files.filesystem import FileSystem
from log.indexes.transaction_index import TXN_INDEX
from log.leftovers import base_offsets, remove_orphans, settle_swaps
from log.missed import Expected, check_beginning, check_indexes, gap
from log.segment import CUT, INDEX, LOG, TIME_INDEX, Segment
from protocol.slotted import slotted

CHECK_BYTES = 256 * 1024
"""The size of one read in bytes. A read of this size fits in the cache of a CPU core, so that a
check takes a tenth less time than with 1 MiB."""


@slotted(frozen=True)
class Cut:
    """Bytes that recovery removed: ``bytes_cut`` bytes of ``file`` from ``position`` on, and the
    reason.

    Usually these bytes are an incomplete last batch; ``kept_as`` is then None. After a power
    failure, or on a bad disk, they may contain intact batches, which recovery keeps in the file
    ``kept_as``.
    """

    file: str
    position: int
    bytes_cut: int
    reason: str
    kept_as: str | None = None


@slotted
class RecoveryReport:
    """The problems that were found when a log was opened, and the changes that were then made to
    its files."""

    cuts: list[Cut] = field(default_factory=list)
    rebuilt: list[str] = field(default_factory=list)
    """One sentence for each segment whose index files were unusable and were rebuilt."""
    removed: list[str] = field(default_factory=list)
    """The removed files: they were left by interrupted deletions and cleanings."""
    checked_bytes: int = 0
    first_reread: int | None = None
    """The base offset of the first segment that was read completely (for a check or to rebuild
    indexes) and has batches with a producer id. From this segment on, the transaction indexes are
    rebuilt too."""
    epochs_without_producers: dict[int, int] = field(default_factory=dict)
    """By base offset of the segment: the highest leader epoch of each checked segment that has no
    producer ids. `log/fold.py` uses this epoch and does not read the batch headers again."""

    def reread(self, base_offset: int) -> None:
        known = self.first_reread
        self.first_reread = base_offset if known is None else min(known, base_offset)

    @property
    def bytes_cut(self) -> int:
        return sum(cut.bytes_cut for cut in self.cuts)


@slotted
class _Opening:
    """The arguments and the report of one opening of a log."""

    fs: FileSystem
    directory: str
    config: LogConfig
    recovery_point: int
    clean: bool
    truncate: bool
    report: RecoveryReport
    expected: Expected
    missing: bool


def open_segments(
    fs: FileSystem,
    directory: str,
    config: LogConfig,
    *,
    expected: Expected,
    clean: bool,
    truncate: bool = False,
    missing: bool = False,
) -> tuple[list[Segment], int, RecoveryReport]:
    """Opens the segments in ``directory``. Returns the segments, the log end offset and the report.
    There is at least one segment, and the last one is ready for appends. Raises CorruptLog and
    MissingFiles.

    If ``truncate`` is set, all segments are checked, and the log is truncated at the first damage.
    If ``missing`` is set, missing files are accepted. If no segment is left, a new segment begins
    at the highest offset that the checkpoints show for the log.
    """
    recovery_point, log_start_offset = expected.recovery_point, expected.log_start_offset
    if truncate:
        recovery_point, clean = 0, False
    report = RecoveryReport()
    settle_swaps(fs, directory, report.removed)
    if not missing:
        check_indexes(fs, directory, expected)
    remove_orphans(fs, directory, report.removed)
    bases = base_offsets(fs, directory)
    if not missing:
        check_beginning(fs, directory, bases, expected)
    elif not bases:
        log_start_offset = max(log_start_offset, expected.reached)
    opening = _Opening(
        fs, directory, config, recovery_point, clean, truncate, report, expected, missing
    )
    segments = [
        Segment(fs, directory, base, config.segment_index_bytes, create=False) for base in bases
    ]
    if not segments:
        segment = Segment(fs, directory, log_start_offset, config.segment_index_bytes, create=True)
        return [segment], log_start_offset, report
    if report.removed:
        fs.fsync_directory(directory)
    end_offset = _open_each(opening, segments)
    if report.cuts:  # removed batches must not return before new batches
        segments[-1].file.fsync()
        fs.fsync_directory(directory)
    if end_offset < recovery_point:
        last_segment = segments[-1]
        raise CorruptLog(
            last_segment.file.path,
            last_segment.size,
            f"the log ends at offset {end_offset}, before its recovery point {recovery_point}",
        )
    if end_offset < log_start_offset:
        _drop(opening, segments, "log-start-offset-checkpoint")
        segment = Segment(fs, directory, log_start_offset, config.segment_index_bytes, create=True)
        return [segment], log_start_offset, report
    return segments, end_offset, report


def _open_each(opening: _Opening, segments: list[Segment]) -> int:
    """Opens or checks each segment. If a segment is damaged, removes all later segments from
    ``segments``. Returns the log end offset."""
    end_offset = -1
    joined = False
    for index, segment in enumerate(segments):
        following = segments[index + 1].base_offset if segment is not segments[-1] else None
        overlaps = end_offset > segment.base_offset
        if overlaps and not opening.truncate:
            raise CorruptLog(
                segment.file.path, 0, f"the previous segment already ends at offset {end_offset}"
            )
        if index and end_offset < segment.base_offset:
            _check_gap(opening, segments[index - 1], end_offset, segment.base_offset, joined)
        torn = joined and opening.recovery_point <= end_offset < segment.base_offset
        if overlaps or (torn and not _cleaned(opening, segment.base_offset)):
            _drop(opening, segments[index:], segments[index - 1].path(LOG))
            del segments[index:]
            segments[-1].resume()
            break
        if opening.clean or (following is not None and following < opening.recovery_point):
            end_offset = _take_over(opening, segment, following is None)
            segment.unsynced = joined = False
        else:
            end_offset, whole, joined = _check(opening, segment)
            if not whole:
                _drop(opening, segments[index + 1 :], segment.path(LOG))
                del segments[index + 1 :]
                break
        if following is not None:
            segment.seal()
            segment.release_indexes()
    return end_offset


def _cleaned(opening: _Opening, following: int) -> bool:
    """Returns True if the cleaner may have removed the records that are missing before a segment.
    ``following`` is the base offset of this segment. In a compacted log the result is always True:
    an interrupted cleaning may have replaced segments above the checkpoint of the last completed
    cleaning."""
    return opening.config.compacts or following <= opening.expected.cleaned_to


def _check_gap(
    opening: _Opening, segment: Segment, end_offset: int, following: int, joined: bool
) -> None:
    """Raises MissingFiles if offsets are missing between ``segment`` and the next segment, and
    neither a cleaner nor a power failure can be the reason.

    ``joined`` is True if ``segment`` was checked and has never been cleaned. If such a segment ends
    at or above the recovery point, a power failure can be the reason: the missing records were
    never fsynced.
    """
    if opening.missing or opening.truncate or _cleaned(opening, following):
        return
    if opening.clean or (end_offset if joined else following) < opening.recovery_point:
        raise gap(segment.file.path, end_offset, following)


def _take_over(opening: _Opening, segment: Segment, last: bool) -> int:
    """Opens a segment without a check of its batches. Rebuilds its indexes if they are invalid.
    Returns its end offset."""
    useless = segment.load_indexes()
    if useless is not None:
        opening.report.rebuilt.append(useless)
        opening.report.reread(segment.base_offset)
        return segment.rebuild_indexes(opening.config.index_interval_bytes)
    return segment.load_tail() if last else segment.end_offset()


def _check(opening: _Opening, segment: Segment) -> tuple[int, bool, bool]:
    """Reads every batch of a segment, rebuilds its indexes, and removes bytes that are not a batch.

    Returns three values: the end offset; whether the segment was intact; whether the next segment
    must begin at the end offset. The third value is False if offsets are missing inside the
    segment, as after a cleaning. If it is True but the next segment begins later, a power failure
    has removed batches from the end of this segment.
    """
    end_offset = segment.base_offset
    position = 0
    whole = joined = True
    producers = False
    epoch = -1
    interval_bytes = opening.config.index_interval_bytes
    segment.clear()
    try:
        for (
            at, size, base_offset, last_offset, record_count, leader_epoch, timestamp_ms, producer,
        ) in checked_batches(segment.file, 0, segment.size, CHECK_BYTES):  # fmt: skip
            if base_offset != end_offset:
                segment.check_order(base_offset, end_offset, at)
                joined = False
            segment.note_batch(at, size, last_offset, timestamp_ms, interval_bytes)
            if record_count != last_offset - base_offset + 1:
                joined = False
            if producer >= 0:
                producers = True
            epoch = max(epoch, leader_epoch)
            end_offset = last_offset + 1
            position = at + size
    except CorruptLog as damage:
        _refuse_or_cut(opening, segment, end_offset, damage)
        whole = False
    opening.report.checked_bytes += position
    if producers:
        opening.report.reread(segment.base_offset)
    else:
        opening.report.epochs_without_producers[segment.base_offset] = epoch
    return end_offset, whole, joined


def _refuse_or_cut(
    opening: _Opening, segment: Segment, end_offset: int, damage: CorruptLog
) -> None:
    position = damage.position
    if end_offset < opening.recovery_point:
        raise CorruptLog(
            damage.file,
            position,
            f"{damage.reason}; an interrupted write can't be the cause, since all"
            f" offsets before {opening.recovery_point} were flushed to the disk",
        )
    kept_as = None
    if opening.truncate or holds_whole_batch(segment.file, position, segment.size):
        kept_as = f"{damage.file}{CUT}"
        _copy(opening.fs, segment, position, kept_as)
    opening.report.cuts.append(
        Cut(damage.file, position, segment.size - position, damage.reason, kept_as)
    )
    segment.file.truncate(position)
    segment.size = position


def _drop(opening: _Opening, segments: list[Segment], because: str) -> None:
    """Removes the segments after a truncated segment, because the batches that precede them are
    missing."""
    for segment in segments:
        path = segment.file.path
        if segment.size:
            opening.report.cuts.append(
                Cut(
                    path,
                    0,
                    segment.size,
                    f"the segment follows {because}, which was truncated",
                    path + CUT,
                )
            )
            opening.fs.rename(path, path + CUT)
        for suffix in (LOG, INDEX, TIME_INDEX, TXN_INDEX):
            opening.fs.remove(segment.path(suffix))


def _copy(fs: FileSystem, segment: Segment, position: int, path: str) -> None:
    fs.remove(path)
    copy = fs.open(path, create=True)
    for start in range(position, segment.size, CHUNK_BYTES):
        copy.write(
            start - position,
            segment.file.read(start, min(CHUNK_BYTES, segment.size - start)),
        )
    copy.fsync()
