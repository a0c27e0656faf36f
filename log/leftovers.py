"""Files that an interrupted deletion or cleaning left behind, settled when a log is opened.

Kafka deletes a segment by renaming it to ``.deleted`` first; cleans into ``.cleaned`` files, which
become ``.swap`` when whole, and then take the place of the segments they were made from.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NamedTuple
from weakref import ref

from log.batch_scan import headers
from log.filesystem import FileSystem
from log.segment import DELETED, INDEX, LOG, SNAPSHOT, TIME_INDEX, Segment, file_name

CLEANED = ".cleaned"
SWAP = ".swap"
_TEMPORARY = ".tmp"
_SEGMENT_FILES = (LOG, INDEX, TIME_INDEX, ".txnindex")


class Leaving(NamedTuple):
    """The files of a segment that has left its log: renamed, and not removed yet."""

    paths: list[str]
    segment: ref[Segment]
    due_ms: int = 0
    """Wall milliseconds at which they are to be removed."""

    def remove(self, fs: FileSystem) -> None:
        """Remove them; whoever reads the segment reads on. Raises OSError."""
        segment = self.segment()
        if segment is not None:
            with suppress(OSError):  # then its reader is told so
                segment.keep_open()
        for path in self.paths:
            fs.remove(path)


def base_offsets(fs: FileSystem, directory: str, suffix: str = LOG) -> list[int]:
    """Offsets that name the files with ``suffix``, ascending."""
    return sorted(
        int(name.removesuffix(suffix))
        for name in fs.list(directory)
        if name.endswith(suffix) and name.removesuffix(suffix).isdecimal()
    )


def settle(fs: FileSystem, directory: str) -> list[str]:
    """Finish or undo what was under way; return the paths of the files removed or replaced."""
    names = fs.list(directory)
    gone = [name for name in names if name.endswith((DELETED, CLEANED, _TEMPORARY))]
    cleaned = [_number(name) for name in names if name.endswith(LOG + CLEANED)]
    swapped = [name for name in names if name.endswith(LOG + SWAP)]
    if cleaned:  # a crash between the first and the last rename to .swap: the sources are whole
        gone += [name for name in swapped if _number(name) >= min(cleaned)]
        swapped = [name for name in swapped if _number(name) < min(cleaned)]
    gone += [name for name in names if name.endswith(SWAP) and not name.endswith(LOG + SWAP)]
    _remove(fs, directory, gone)
    for name in swapped:
        gone += _complete_swap(fs, directory, name)
    segments = set(base_offsets(fs, directory))
    orphans = [
        name
        for name in fs.list(directory)
        if name.endswith(_SEGMENT_FILES[1:])
        and name.partition(".")[0].isdecimal()
        and _number(name) not in segments
    ]
    _remove(fs, directory, orphans)
    return [os.path.join(directory, name) for name in gone + orphans]


def _complete_swap(fs: FileSystem, directory: str, name: str) -> list[str]:
    """Put a whole cleaned segment in the place of those that it was made from."""
    base = _number(name)
    file = fs.open(os.path.join(directory, name))
    end = base + 1
    for batch in headers(file, 0, file.size()):
        end = max(end, batch.last_offset + 1)
    replaced = [
        file_name(offset, suffix)
        for offset in base_offsets(fs, directory)
        if base <= offset < end
        for suffix in _SEGMENT_FILES
    ]
    _remove(fs, directory, replaced)
    fs.rename(os.path.join(directory, name), os.path.join(directory, file_name(base, LOG)))
    return replaced


def snapshot_offsets(fs: FileSystem, directory: str) -> list[int]:
    """Offsets of the producer snapshots, ascending."""
    return base_offsets(fs, directory, SNAPSHOT)


def _number(name: str) -> int:
    return int(name.partition(".")[0])


def _remove(fs: FileSystem, directory: str, names: list[str]) -> None:
    for name in names:
        fs.remove(os.path.join(directory, name))
