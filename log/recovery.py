"""Opening the segments of a log: checks after a crash, cuts a torn tail, rebuilds indexes.

After a clean stop nothing is checked but the end of the last segment. After any other, the batches
of every segment that reaches the *recovery point* (all below it was fsynced) are read and checked
one by one. Damage at or above the recovery point is a tail that was being written: it is cut off,
and the report says so; whole batches after it are kept in a separate file. A crash does not cause
damage below the recovery point: such a log is refused.
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
"""The size of one read. It fits a CPU core's own cache: checking takes a tenth less time than with
1 MiB."""


@slotted(frozen=True)
class Cut:
    """Bytes that recovery removed: ``bytes_cut`` of ``file`` from ``position`` on, and why.

    If whole batches were among them, which only a loss of power or a bad disk causes, they are kept
    in the file ``kept_as``; it is None for a torn tail.
    """

    file: str
    position: int
    bytes_cut: int
    reason: str
    kept_as: str | None = None


@slotted
class RecoveryReport:
    """The findings and changes of opening a log."""

    cuts: list[Cut] = field(default_factory=list)
    rebuilt: list[str] = field(default_factory=list)
    """One sentence for each segment whose index files were unusable."""
    removed: list[str] = field(default_factory=list)
    """Files of interrupted deletions and cleanings."""
    checked_bytes: int = 0
    """Bytes whose checksums were verified."""
    first_reread: int | None = None
    """The base offset of the first segment that was read, to check it or to rebuild its indexes,
    and that has batches with a producer id: its index of aborted transactions is rebuilt too."""
    epochs_without_producers: dict[int, int] = field(default_factory=dict)
    """For each checked segment without a producer id, by base offset: the highest leader epoch of
    its batches. `log/fold.py` does not read those headers again."""

    def reread(self, base_offset: int) -> None:
        """Lower `first_reread` to ``base_offset``."""
        known = self.first_reread
        self.first_reread = base_offset if known is None else min(known, base_offset)

    @property
    def bytes_cut(self) -> int:
        """The sum of all bytes removed."""
        return sum(cut.bytes_cut for cut in self.cuts)


@slotted
class _Opening:
    """The arguments and the report of one opening."""

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
    """Open the segments in ``directory``, at least one, the last of them ready for appends.

    With ``truncate`` all segments are checked, and the log ends at the first damage, wherever that
    is. With ``missing`` missing files are accepted, and a log without a segment begins at the
    offset that it had reached. Returns the segments, the log end offset and the report. Raises
    CorruptLog, MissingFiles.
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
    if report.cuts:  # removed batches must not return, followed by new ones
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
    """Open or check each segment; segments after damage are removed from the list.

    Returns the log end offset.
    """
    end_offset = -1
    joined = False
    for index, segment in enumerate(segments):
        following = segments[index + 1].base_offset if segment is not segments[-1] else None
        overlaps = end_offset > segment.base_offset
        if overlaps and not opening.truncate:
            raise CorruptLog(
                segment.file.path, 0, f"the segment before it ends at offset {end_offset}"
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
    """Whether the cleaner may have removed the records missing before a segment that begins at
    ``following``.

    In a compacted log this is always so: an interrupted cleaning has replaced segments above the
    checkpoint of the last completed one.
    """
    return opening.config.compacts or following <= opening.expected.cleaned_to


def _check_gap(
    opening: _Opening, segment: Segment, end_offset: int, following: int, joined: bool
) -> None:
    """Raise MissingFiles unless a cleaner may have left the gap between two segments.

    Or a loss of power: ``joined`` says that the first segment was checked and has not been cleaned;
    then records that it lacks at or above the recovery point were never fsynced.
    """
    if opening.missing or opening.truncate or _cleaned(opening, following):
        return
    if opening.clean or (end_offset if joined else following) < opening.recovery_point:
        raise gap(segment.file.path, end_offset, following)


def _take_over(opening: _Opening, segment: Segment, last: bool) -> int:
    """Open a segment that needs no check; return its end offset."""
    useless = segment.load_indexes()
    if useless is not None:
        opening.report.rebuilt.append(useless)
        opening.report.reread(segment.base_offset)
        return segment.rebuild_indexes(opening.config.index_interval_bytes)
    return segment.load_tail() if last else segment.end_offset()


def _check(opening: _Opening, segment: Segment) -> tuple[int, bool, bool]:
    """Read every batch of a segment, rebuild its indexes, and remove what is not a batch.

    Returns the end offset, whether the segment was intact, and whether the next one must begin
    there: a segment that was never cleaned ends where the next begins, unless a loss of power
    removed its last batches, whole, and left the next segment's file.
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
            f"{damage.reason}; offsets before {opening.recovery_point} were flushed to"
            " the disk, so this is not a torn tail",
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
    """Remove the segments after a cut: without the batches before them they are useless."""
    for segment in segments:
        path = segment.file.path
        if segment.size:
            opening.report.cuts.append(
                Cut(path, 0, segment.size, f"after the new log end offset in {because}", path + CUT)
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
