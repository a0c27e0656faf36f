"""Finishes or undoes interrupted deletions and cleanings when a log is opened.

Kafka deletes a segment by first renaming its files to ``.deleted``. A cleaning writes ``.cleaned``
files, renames them to ``.swap`` when they are complete, and then replaces the source segments by
these files.
"""

from __future__ import annotations

import os
from contextlib import suppress
from weakref import ref

from log.batch_scan import headers
from log.files.filesystem import FileSystem
from log.indexes.transaction_index import TXN_INDEX
from log.segment import DELETED, INDEX, LOG, SNAPSHOT, TIME_INDEX, Segment, file_name
from protocol.slotted import slotted

CLEANED = ".cleaned"
SWAP = ".swap"
_TEMPORARY = ".tmp"
_SEGMENT_FILES = (LOG, INDEX, TIME_INDEX, TXN_INDEX)


@slotted
class Leaving:
    """The files of a segment that was removed from its log. The files still exist and will be
    removed later."""

    paths: list[str]
    """The paths of the files that still exist. The names end with ``.deleted``, unless the rename
    failed."""
    segment: ref[Segment] | None = None
    due_ms: int = 0
    """Wall time in milliseconds from which on the files may be removed."""

    def remove(self, fs: FileSystem) -> OSError | None:
        """Tries to remove each file in `paths`. Afterwards `paths` contains only the files that
        could not be removed. Returns the first error, or None. Current readers of the segment can
        continue to read."""
        segment = None if self.segment is None else self.segment()
        if segment is not None:
            with suppress(OSError):  # a reader gets the error later
                segment.keep_open()
        left: list[str] = []
        failed: OSError | None = None
        for path in self.paths:
            try:
                fs.remove(path)
            except OSError as error:
                left.append(path)
                failed = failed or error
        self.paths = left
        return failed


def base_offsets(fs: FileSystem, directory: str, suffix: str = LOG) -> list[int]:
    """Returns the offsets in the names of the files with ``suffix``, ascending."""
    return sorted(
        int(name.removesuffix(suffix))
        for name in fs.list(directory)
        if name.endswith(suffix) and name.removesuffix(suffix).isdecimal()
    )


def settle_swaps(fs: FileSystem, directory: str, gone: list[str]) -> None:
    """Finishes or undoes interrupted cleanings. Adds the paths of removed or replaced files to
    ``gone``. Files with the suffix ``.deleted`` stay; `deleted` returns them. Raises OSError."""
    names = fs.list(directory)
    going = [name for name in names if name.endswith((CLEANED, _TEMPORARY))]
    cleaned = [_number(name) for name in names if name.endswith(LOG + CLEANED)]
    swapped = [name for name in names if name.endswith(LOG + SWAP)]
    if cleaned:  # a crash between the renames to .swap: the source segments are intact
        going += [name for name in swapped if _number(name) >= min(cleaned)]
        swapped = [name for name in swapped if _number(name) < min(cleaned)]
    going += [name for name in names if name.endswith(SWAP) and not name.endswith(LOG + SWAP)]
    _remove(fs, directory, going)
    for name in swapped:
        going += _complete_swap(fs, directory, name)
    gone += [os.path.join(directory, name) for name in going]


def remove_orphans(fs: FileSystem, directory: str, gone: list[str]) -> None:
    """Removes index files without a segment. Adds their paths to ``gone``. Raises OSError."""
    segments = set(base_offsets(fs, directory))
    orphans = [
        name
        for name in fs.list(directory)
        if name.endswith(_SEGMENT_FILES[1:])
        and name.partition(".")[0].isdecimal()
        and _number(name) not in segments
    ]
    _remove(fs, directory, orphans)
    gone += [os.path.join(directory, name) for name in orphans]


def deleted(fs: FileSystem, directory: str) -> list[Leaving]:
    """Returns the files of deleted segments that the last process had not removed yet."""
    paths: dict[str, list[str]] = {}
    for name in fs.list(directory):
        if name.endswith(DELETED):
            paths.setdefault(name.partition(".")[0], []).append(os.path.join(directory, name))
    return [Leaving(of_segment) for of_segment in paths.values()]


def _complete_swap(fs: FileSystem, directory: str, name: str) -> list[str]:
    """Replaces the source segments of a complete cleaned segment by the cleaned segment. Returns
    the names of the replaced files."""
    base = _number(name)
    file = fs.open(os.path.join(directory, name))
    end = base + 1
    for batch in headers(file, 0, file.size()):
        end = max(end, batch.last_offset + 1)
    replaced = [
        file_name(offset, suffix)
        for offset in sorted({_number(name) for name in fs.list(directory) if _is_segments(name)})
        if base <= offset < end
        for suffix in _SEGMENT_FILES
    ]
    _remove(fs, directory, replaced)
    fs.rename(os.path.join(directory, name), os.path.join(directory, file_name(base, LOG)))
    return replaced


def snapshot_offsets(fs: FileSystem, directory: str) -> list[int]:
    return base_offsets(fs, directory, SNAPSHOT)


def _number(name: str) -> int:
    return int(name.partition(".")[0])


def _is_segments(name: str) -> bool:
    number, dot, suffix = name.partition(".")
    return number.isdecimal() and dot + suffix in _SEGMENT_FILES


def _remove(fs: FileSystem, directory: str, names: list[str]) -> None:
    for name in names:
        fs.remove(os.path.join(directory, name))
