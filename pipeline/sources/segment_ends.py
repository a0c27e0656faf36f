"""Finds from other files in a log's folder how far the log extended, to detect a truncated log.

Kafka writes each of these files after the records to which it refers:

- A producer snapshot: its name is the log offset up to which it was made.
- The leader epochs: each has the offset at which it began.
- The checkpoints of a data folder: for each partition, the high watermark, or the offset up to
  which the log is flushed or cleaned, or the log start offset.
- An offset index: the positions of batches in its segment.

A missing file, or a file of unknown format, is ignored.
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
    """A lower bound of the log end offset: the file ``by`` shows that records up to, but not
    including, ``offset`` were written."""

    offset: int
    by: str


class Indexed(NamedTuple):
    """The last entry of a segment's offset index: the last offset of the indexed batch, and the
    position of this batch in the segment."""

    last_offset: int
    position: int


def log_end(topic: str, partition: int, folder: str) -> LogEnd | None:
    """Returns the highest log end offset that a file in the folder shows; None if no file shows
    one."""
    return max((LogEnd(*each) for each in _said(topic, partition, folder)), default=None)


def log_start(topic: str, partition: int, folder: str, base_offset: int) -> int:
    """Returns the log start offset of a log whose first segment begins at ``base_offset``. It is
    higher than ``base_offset`` if records of this segment were deleted (DeleteRecords)."""
    deleted = _checkpoint(os.path.dirname(folder), _STARTS) or {}
    return max(base_offset, deleted.get((topic, partition), 0))


def partitions_written(topic: str, data_folder: str) -> dict[int, LogEnd]:
    """Returns the partitions of a topic that a data folder has or once had, with the end of each
    log."""
    name = _REACHED[0]
    return {
        partition: LogEnd(offset, name)
        for (each, partition), offset in (_checkpoint(data_folder, name) or {}).items()
        if each == topic and offset > 0
    }


def cleaned_to(topic: str, partition: int, folder: str) -> int | None:
    """Returns the first offset that the log cleaner has not cleaned yet; None if it is unknown."""
    checkpoint = _checkpoint(os.path.dirname(folder), _CLEANED)
    return None if checkpoint is None else checkpoint.get((topic, partition), 0)


def last_indexed(log_file: str, base_offset: int) -> Indexed | None:
    """Returns the last entry of a segment's offset index; None if no index exists.

    Kafka preallocates index files, so the unused part of the file is zeros.
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
    """Reads a checkpoint file: offsets by topic and partition. Returns None if the file does not
    exist."""
    file = os.path.join(data_folder, name)
    try:
        return _read_checkpoint(file, os.stat(file).st_mtime_ns)
    except OSError:
        return None


@lru_cache(maxsize=16)
def _read_checkpoint(file: str, changed_ns: int) -> Mapping[tuple[str, int], int]:  # noqa: ARG001
    """Reads a checkpoint file. The result is cached, because a data folder can have thousands of
    partitions."""
    lines = _lines(file, words=3)
    return {(topic, int(partition)): int(offset) for topic, partition, offset in lines}


def _lines(file: str, words: int) -> list[list[str]]:
    """Returns the valid lines of a checkpoint file, each as a list of words. A valid line has
    ``words`` words, and each word after the first is a number of at least 0. The lines with the
    version and the count are left out."""
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
