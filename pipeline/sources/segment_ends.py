"""Reads the end of a log from other files in its folder, to detect a truncated log.

Each of these files is written after the records to which it refers. The name of a producer snapshot
is the offset at which it was made. The leader epochs have the offset at which each began. The
checkpoints of a data folder have the offsets up to which records were written, replicated and
cleaned. An offset index has the positions of batches in its segment. A missing file, or a file of
unknown format, is ignored.
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
    """A lower bound of a log's end: the file ``by`` shows that records before ``offset`` were
    written.
    """

    offset: int
    by: str


class Indexed(NamedTuple):
    """The last offset and the position of a batch in a segment, according to the offset index."""

    last_offset: int
    position: int


def log_end(topic: str, partition: int, folder: str) -> LogEnd | None:
    """Return the highest log end that any file shows; None if no file shows a log end."""
    return max((LogEnd(*each) for each in _said(topic, partition, folder)), default=None)


def log_start(topic: str, partition: int, folder: str, base_offset: int) -> int:
    """Return the start offset of a log whose first segment begins at ``base_offset``.

    Some records of that segment may have been deleted.
    """
    deleted = _checkpoint(os.path.dirname(folder), _STARTS) or {}
    return max(base_offset, deleted.get((topic, partition), 0))


def partitions_written(topic: str, data_folder: str) -> dict[int, LogEnd]:
    """Return the partitions of a topic that a data folder has or had, with the end of each log."""
    name = _REACHED[0]
    return {
        partition: LogEnd(offset, name)
        for (each, partition), offset in (_checkpoint(data_folder, name) or {}).items()
        if each == topic and offset > 0
    }


def cleaned_to(topic: str, partition: int, folder: str) -> int | None:
    """Return the first offset that the cleaner has not cleaned yet; None if unknown."""
    checkpoint = _checkpoint(os.path.dirname(folder), _CLEANED)
    return None if checkpoint is None else checkpoint.get((topic, partition), 0)


def last_indexed(log_file: str, base_offset: int) -> Indexed | None:
    """Return the last batch in a segment's offset index; None without an index.

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
    """Read a checkpoint file: offsets by topic and partition. None if the file does not exist."""
    file = os.path.join(data_folder, name)
    try:
        return _read_checkpoint(file, os.stat(file).st_mtime_ns)
    except OSError:
        return None


@lru_cache(maxsize=16)
def _read_checkpoint(file: str, changed_ns: int) -> Mapping[tuple[str, int], int]:  # noqa: ARG001
    """Read a checkpoint file.

    The result is cached, because a data folder can have thousands of partitions.
    """
    lines = _lines(file, words=3)
    return {(topic, int(partition)): int(offset) for topic, partition, offset in lines}


def _lines(file: str, words: int) -> list[list[str]]:
    """Read the lines with ``words`` words that follow the version and the count of a checkpoint
    file.

    All words after the first word must be numbers of at least 0.
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
