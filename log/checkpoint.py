"""The small files in a data directory: checkpoints of offsets, and the marker file of a clean
shutdown.

Names and formats are Kafka's. A write replaces the whole file, by a rename. When the function
returns, the file is on the disk.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from log.errors import CorruptLog
from log.files.filesystem import FileSystem, read_whole, write_whole

RECOVERY_POINT = "recovery-point-offset-checkpoint"
LOG_START_OFFSET = "log-start-offset-checkpoint"
HIGH_WATERMARK = "replication-offset-checkpoint"
CLEANER_OFFSET = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"

TopicPartition = tuple[str, int]


def read_offsets(fs: FileSystem, path: str) -> dict[TopicPartition, int]:
    """Reads a checkpoint of offsets: version 0, a count, then ``topic partition offset`` lines.
    Returns an empty dict for a missing or empty file. Raises CorruptLog with the position of the
    invalid line."""
    if not fs.exists(path):
        return {}
    data = read_whole(fs, path)
    if not data:
        return {}
    lines = data.splitlines(keepends=True)
    offsets: dict[TopicPartition, int] = {}
    position = 0
    for number, line in enumerate(lines):
        words = line.decode("utf-8", "replace").split()
        try:
            if number == 0 and int(words[0]) != 0:
                raise CorruptLog(path, 0, f"version {words[0]}, expected 0")
            if number >= 2:
                topic, partition, offset = words
                offsets[topic, int(partition)] = int(offset)
        except (ValueError, IndexError):
            raise CorruptLog(path, position, f"line {number + 1} is {line!r}") from None
        position += len(line)
    if len(lines) < 2 or not lines[1].strip().isdigit() or int(lines[1]) != len(lines) - 2:
        raise CorruptLog(
            path,
            position,
            f"the file has {max(0, len(lines) - 2)} entries, but the header states another count",
        )
    return offsets


def write_offsets(fs: FileSystem, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replaces a checkpoint file of offsets. The format is that of `read_offsets`."""
    lines = [f"0\n{len(offsets)}\n"]
    lines += (f"{topic} {partition} {offset}\n" for (topic, partition), offset in offsets.items())
    write_whole(fs, path, "".join(lines).encode())


def read_clean_shutdown(fs: FileSystem, directory: str) -> bool:
    """Returns whether the last process shut down cleanly, so that no log needs recovery."""
    return fs.exists(os.path.join(directory, CLEAN_SHUTDOWN))


def write_clean_shutdown(fs: FileSystem, directory: str, broker_epoch: int = -1) -> None:
    """Writes the file that marks that all logs are closed and flushed. This is the last step of a
    clean shutdown."""
    mark = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    write_whole(fs, os.path.join(directory, CLEAN_SHUTDOWN), mark.encode())


def clear_clean_shutdown(fs: FileSystem, directory: str) -> None:
    """Removes the marker file of a clean shutdown. The broker does so before the first append."""
    path = os.path.join(directory, CLEAN_SHUTDOWN)
    if fs.exists(path):
        fs.remove(path)
        fs.fsync_directory(directory)
