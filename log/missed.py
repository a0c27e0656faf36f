"""What a log has lost: its files compared with its other files and the checkpoints.

Each of these was on the disk before the file that says that it was there, so that neither a kill
nor a power cut makes anything seem lost (docs/operate/operating.md, "What is missed by name").
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
    """What the checkpoints of the data directory say of a log; 0 where they say nothing."""

    recovery_point: int = 0
    high_watermark: int = 0
    log_start_offset: int = 0
    cleaned_to: int = 0
    """No cleaner has taken a record at or above."""
    known: bool = False
    """They speak of it: it was made whole, with a segment."""

    @property
    def reached(self) -> int:
        """All offsets below were written, and the files that they are in had names on the disk."""
        return max(self.recovery_point, self.high_watermark)


def check_indexes(fs: FileSystem, directory: str, expected: Expected) -> None:
    """Raise MissingFiles where an index has no segment, and nothing says why.

    A segment is deleted, or put aside, by renaming its ``.log`` first; and what has not been made
    for long may have lost that name with the power.
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
            raise MissingFiles(os.path.join(directory, log), f"its {name} exists")


def check_beginning(
    fs: FileSystem, directory: str, bases: Sequence[int], expected: Expected
) -> None:
    """Raise MissingFiles where there is no segment, or not the one that the log begins in.

    ``bases`` are the segments' base offsets, ascending. The leader epochs say where the log
    begins before the files of segments below are removed.
    """
    if not bases:
        if expected.reached > expected.log_start_offset:
            why = f"the checkpoints say that offsets up to {expected.reached} were written"
        elif expected.known:
            why = "the checkpoints name its log"
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
    """The error of a segment that ends before the next one begins."""
    return MissingFiles(
        os.path.join(os.path.dirname(path), file_name(end_offset, LOG)),
        f"{os.path.basename(path)} ends at offset {end_offset}, but the next"
        f" segment begins at {following}",
    )
