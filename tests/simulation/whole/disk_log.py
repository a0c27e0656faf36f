"""Reads a partition's log on the simulated disk without the broker's code.

A batch starts with its base offset and its length. The delta of its last offset is at byte 23.
`LogOnDisk` tracks the log end in the written bytes and in the fsynced bytes, and reads only new
bytes.
"""

from __future__ import annotations

import os
import struct

from tests.simulated_files import SimulatedFiles

OFFSETS_TOPIC = "__consumer_offsets"

_BASE_AND_LENGTH = struct.Struct(">qi")
_LAST_DELTA = struct.Struct(">i")
_LAST_DELTA_AT = 23
_HEADER_BYTES = 61


def directory_of(topic: str, partition: int) -> str:
    return f"/data/{topic}-{partition}"


def segments_of(files: SimulatedFiles, directory: str) -> list[str]:
    """Returns the paths of all segments in ``directory``, ordered by base offset."""
    if directory not in files.directories:
        return []
    return [
        f"{directory}/{name}"
        for name in files.list(directory)
        if os.path.splitext(name)[1] == ".log"
    ]


def batches(data: bytes) -> list[tuple[int, int, bytes]]:
    """Returns base offset, next offset and bytes of each complete batch at the start of
    ``data``."""
    found = []
    position = 0
    while len(data) - position >= _HEADER_BYTES:
        base, length = _BASE_AND_LENGTH.unpack_from(data, position)
        end = position + _BASE_AND_LENGTH.size + length
        if length <= 0 or end > len(data):
            break
        (delta,) = _LAST_DELTA.unpack_from(data, position + _LAST_DELTA_AT)
        found.append((base, base + delta + 1, data[position:end]))
        position = end
    return found


def batches_of(
    files: SimulatedFiles, topic: str, partition: int, *, synced: bool
) -> list[tuple[int, int, bytes]]:
    """Returns the batches of a partition. If ``synced``, reads only the fsynced bytes."""
    found = []
    for path in segments_of(files, directory_of(topic, partition)):
        inode = files.names[path]
        found += batches(inode.synced if synced else bytes(inode.data))
    return found


class LogOnDisk:
    """The log end of a partition on the simulated disk."""

    def __init__(self, files: SimulatedFiles, topic: str, partition: int, *, synced: bool) -> None:
        self._files = files
        self._directory = directory_of(topic, partition)
        self._synced = synced
        self._path = ""
        self._names = -1
        """The number of files in the simulated file system at the last search for segment files; -1
        before the first search."""
        self._position = 0
        self._end = 0

    def end(self) -> int:
        """Returns the offset after the last batch. If the log was truncated since an earlier call,
        the result may still be the end before the truncation."""
        names = self._files.names
        if len(names) != self._names or self._path not in names:
            self._names = len(names)  # there may be a new segment
            paths = segments_of(self._files, self._directory)
            if not paths:
                return 0
            newest = paths[-1]
        else:
            newest = self._path
        if newest != self._path:
            self._path, self._position = newest, 0
            self._end = int(os.path.basename(self._path).removesuffix(".log"))
        inode = self._files.names[self._path]
        data = inode.synced if self._synced else inode.data
        while len(data) - self._position >= _HEADER_BYTES:
            base, length = _BASE_AND_LENGTH.unpack_from(data, self._position)
            behind = self._position + _BASE_AND_LENGTH.size + length
            if length <= 0 or behind > len(data):
                break
            if (
                self._synced
                and data[self._position : behind] != inode.data[self._position : behind]
            ):
                break  # overwritten since: the disk may have either content
            (delta,) = _LAST_DELTA.unpack_from(data, self._position + _LAST_DELTA_AT)
            self._end, self._position = base + delta + 1, behind
        return self._end
