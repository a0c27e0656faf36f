"""Detects lost files of a log: compares the log's files with each other and with the checkpoints.

The broker writes some files to the disk before others. So a file can prove that an earlier file
existed. A kill or a power failure can't change this order, so it never makes the broker report a
lost file (docs/operate/operating.md, "Missing files").
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from log.errors import MissingFiles
from log.files.filesystem import FileSystem
from log.leader_epochs import FILE as LEADER_EPOCHS
from log.leader_epochs import LeaderEpochs
from log.segment import CUT, DELETED, INDEX, LOG, TIME_INDEX, file_name
from protocol.slotted import slotted


@slotted(frozen=True)
class Expected:
    """The entries of the data directory's checkpoint files for one log. A missing entry is 0."""

    recovery_point: int = 0
    high_watermark: int = 0
    log_start_offset: int = 0
    cleaned_to: int = 0
    """The offset up to which the cleaner may have removed records."""
    known: bool = False
    """True if a checkpoint has an entry for the log. The entry proves that the log was created
    completely, with a segment."""

    @property
    def reached(self) -> int:
        """Returns the offset below which all records were written and the directory entries of
        their files were fsynced."""
        return max(self.recovery_point, self.high_watermark)


def check_indexes(fs: FileSystem, directory: str, expected: Expected) -> None:
    """Raises MissingFiles if a segment has an index file but no log file, unless the log file may
    be missing.

    A log file may be missing if it was renamed because its segment is deleted or replaced. It may
    also be missing above the known end of the log: a power failure can remove a file that was
    created shortly before.
    """
    names = set(fs.list(directory))
    for name in sorted(names):
        base, _, _ = name.partition(".")
        log = base + LOG
        if not base.isdecimal() or name not in (base + INDEX, base + TIME_INDEX):
            continue
        if log in names or log + DELETED in names or log + CUT in names:
            continue
        if expected.log_start_offset <= int(base) < expected.reached:
            raise MissingFiles(os.path.join(directory, log), f"only its index file {name} exists")


def check_beginning(
    fs: FileSystem, directory: str, bases: Sequence[int], expected: Expected
) -> None:
    """Raises MissingFiles if the first segment or all segments are missing. ``bases`` are the
    segments' base offsets, ascending.

    The start of the log is known from the leader epoch file: when the first segments are deleted,
    the new start is written to this file before the files of the segments are removed.
    """
    if not bases:
        if expected.reached > expected.log_start_offset:
            why = f"the checkpoints say that offsets up to {expected.reached} were written"
        elif expected.known:
            why = "the checkpoint files have entries of this log"
        else:
            return
        raise MissingFiles(os.path.join(directory, f"*{LOG}"), why)
    first = bases[0]
    epochs = LeaderEpochs(fs, directory)
    if epochs.load() and epochs.entries:
        begins, file = epochs.entries[0][1], LEADER_EPOCHS
    elif expected.log_start_offset:
        begins, file = expected.log_start_offset, "log-start-offset-checkpoint"
    else:
        return
    if begins >= first:
        return
    gone = [
        name
        for name in fs.list(directory)
        if name.endswith((LOG + DELETED, LOG + CUT)) and int(name.partition(".")[0]) < first
    ]
    if not gone:
        raise MissingFiles(
            os.path.join(directory, file_name(begins, LOG)),
            f"{file} says that the log begins at offset {begins}, but the first"
            f" segment begins at {first}",
        )


def gap(path: str, end_offset: int, following: int) -> MissingFiles:
    """Returns the error for missing records: a segment ends at ``end_offset``, and the next segment
    begins later, at ``following``."""
    return MissingFiles(
        os.path.join(os.path.dirname(path), file_name(end_offset, LOG)),
        f"{os.path.basename(path)} ends at offset {end_offset}, but the next"
        f" segment begins at {following}",
    )
