"""The end of a log according to other files in its folder, so that a truncated log is detected.

Each of these files was written after the records that it refers to. A producer snapshot is named by
the offset at which it was made. The leader epochs have the offset at which each began. The
checkpoints of a data folder have the offsets up to which records were written, replicated and
cleaned. An offset index has the positions of batches in its segment. A file that is missing, or in
an unknown format, is ignored.
"""

from __future__ import annotations

import os
import re
import struct
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

_SNAPSHOT: Final = re.compile(r"(\d{20})\.snapshot")
_LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
_REACHED: Final = ("replication-offset-checkpoint", "recovery-point-offset-checkpoint")
_CLEANED: Final = "cleaner-offset-checkpoint"
_STARTS: Final = "log-start-offset-checkpoint"
_INDEX: Final = ".index"
_INDEX_ENTRY: Final = struct.Struct(">ii")


class LogEnd(NamedTuple):
    """Records before ``offset`` were written, according to the file ``by``."""

    offset: int
    by: str


class Indexed(NamedTuple):
    """A batch that was in a segment: its last offset, and its position."""

    last_offset: int
    position: int


def log_end(topic: str, partition: int, folder: str) -> LogEnd | None:
    """The highest end in any file; None if no file has one."""
    return max((LogEnd(*each) for each in _said(topic, partition, folder)), default=None)


def log_start(topic: str, partition: int, folder: str, base_offset: int) -> int:
    """The start of a log whose first segment is known: some of its records may have been
    deleted.
    """
    deleted = _checkpoint(os.path.dirname(folder), _STARTS) or {}
    return max(base_offset, deleted.get((topic, partition), 0))


def partitions_written(topic: str, data_folder: str) -> dict[int, LogEnd]:
    """The partitions of a topic that a data folder has, or had, and how far they were written."""
    name = _REACHED[0]
    return {
        partition: LogEnd(offset, name)
        for (each, partition), offset in (_checkpoint(data_folder, name) or {}).items()
        if each == topic and offset > 0
    }


def cleaned_to(topic: str, partition: int, folder: str) -> int | None:
    """The cleaner has removed no record at or after this offset; None if unknown."""
    checkpoint = _checkpoint(os.path.dirname(folder), _CLEANED)
    return None if checkpoint is None else checkpoint.get((topic, partition), 0)


def last_indexed(log_file: str, base_offset: int) -> Indexed | None:
    """The last batch in a segment's offset index; None without an index.

    An index file has its full size from the start: its unused part is zeros.
    """
    size = _INDEX_ENTRY.size
    try:
        descriptor = os.open(log_file.rpartition(".log")[0] + _INDEX, os.O_RDONLY)
    except OSError:
        return None
    try:
        entries = range(os.fstat(descriptor).st_size // size)
        used = bisect_left(
            entries, True, key=lambda at: not any(os.pread(descriptor, size, at * size))
        )
        last = os.pread(descriptor, size, (used - 1) * size) if used else b""
    finally:
        os.close(descriptor)
    if len(last) < size:
        return None
    relative, position = _INDEX_ENTRY.unpack(last)
    return Indexed(base_offset + relative, position) if min(relative, position) >= 0 else None


def _said(topic: str, partition: int, folder: str) -> Iterator[tuple[int, str]]:
    for name in os.listdir(folder):
        if snapshot := _SNAPSHOT.fullmatch(name):
            yield int(snapshot[1]), name
    epochs = _lines(os.path.join(folder, _LEADER_EPOCHS), words=2)
    if epochs:
        yield max(int(began_at) for _, began_at in epochs), _LEADER_EPOCHS
    for name in _REACHED:
        offset = (_checkpoint(os.path.dirname(folder), name) or {}).get((topic, partition))
        if offset is not None:
            yield offset, name


def _checkpoint(data_folder: str, name: str) -> Mapping[tuple[str, int], int] | None:
    """Offsets by topic and partition; None without the file."""
    file = os.path.join(data_folder, name)
    try:
        return _read_checkpoint(file, os.stat(file).st_mtime_ns)
    except OSError:
        return None


@lru_cache(maxsize=16)
def _read_checkpoint(file: str, changed_ns: int) -> Mapping[tuple[str, int], int]:  # noqa: ARG001
    """Read once for the thousands of partitions that a data folder may have."""
    lines = _lines(file, words=3)
    return {(topic, int(partition)): int(offset) for topic, partition, offset in lines}


def _lines(file: str, words: int) -> list[list[str]]:
    """The lines after version and count of a checkpoint that have ``words`` words.

    All words but the first are numbers of at least 0.
    """
    try:
        with open(file, encoding="utf-8", errors="replace") as text:
            version, _, *lines = [line.split() for line in text] or [[], []]
    except (OSError, ValueError):
        return []
    return [
        line
        for line in lines
        if version == ["0"] and len(line) == words and all(map(str.isdecimal, line[1:]))
    ]
