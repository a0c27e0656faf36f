"""The checkpoints of the data directory: recovery points, high watermarks and log start offsets.

If a partition in a checkpoint has no directory, the next start reports the partition as missing.
Therefore the directories of logs are fsynced before a checkpoint lists their partitions. Otherwise
a power loss could remove a listed directory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from threading import Lock

import structlog

from broker.topics.partition import Partition
from log.checkpoint import (
    CLEANER_OFFSET,
    HIGH_WATERMARK,
    LOG_START_OFFSET,
    RECOVERY_POINT,
    TopicPartition,
    read_offsets,
    write_offsets,
)
from log.config import LONG_MAX
from log.errors import CorruptLog
from log.files.filesystem import FileSystem
from log.missed import Expected

logger = structlog.get_logger(__name__)

FILES = (RECOVERY_POINT, HIGH_WATERMARK, LOG_START_OFFSET)


class Checkpoints:
    """The checkpoints of one data directory. Methods that write are thread-safe."""

    def __init__(self, fs: FileSystem, directory: str) -> None:
        self._fs = fs
        self._directory = directory
        self._writing = Lock()
        self.outdated: set[str] = set()
        """Deleted topics that a checkpoint may still list."""
        self.made: dict[TopicPartition, Partition] = {}
        """Partitions of new topics that are not visible yet, although a checkpoint already lists
        them."""
        self._read: dict[str, Mapping[TopicPartition, int]] = {name: {} for name in FILES}
        self._cleaned: Mapping[TopicPartition, int] = {}
        self._cleaned_unknown = 0

    # -- at the start

    def read(self) -> None:
        """Reads the checkpoints that the previous process wrote. Raises CorruptLog, whose text says
        what the operator must do."""
        for name in FILES:
            path = self._path(name)
            try:
                self._read[name] = read_offsets(self._fs, path)
            except CorruptLog as damage:
                raise CorruptLog(
                    path,
                    damage.position,
                    f"{damage.reason}; restore the file from a copy, or remove it and start"
                    f" once with log.recovery.missing={name}",
                ) from None
        try:
            self._cleaned = read_offsets(self._fs, self._path(CLEANER_OFFSET))
        except CorruptLog:  # the cleaner logs the damage, and starts without the checkpoint
            self._cleaned, self._cleaned_unknown = {}, LONG_MAX

    def named(self) -> dict[TopicPartition, str]:
        """Returns each listed partition with the name of one checkpoint that lists it."""
        return {key: name for name in reversed(FILES) for key in self._read[name]}

    def expected(self, key: TopicPartition) -> Expected:
        """Returns the offsets that `read` found for a log."""
        return Expected(
            self._read[RECOVERY_POINT].get(key, 0),
            self._read[HIGH_WATERMARK].get(key, 0),
            self._read[LOG_START_OFFSET].get(key, 0),
            self._cleaned.get(key, self._cleaned_unknown),
            known=any(key in offsets for offsets in self._read.values()),
        )

    # -- while the broker runs

    def add(self, partitions: Collection[Partition]) -> None:
        """Adds new partitions to a checkpoint, before the partitions are used. Raises OSError."""
        with self._writing:
            self._sync_names(partitions)
            self.made.update({(each.topic, each.index): each for each in partitions})
            path = self._path(RECOVERY_POINT)
            offsets = {**read_offsets(self._fs, path), **dict.fromkeys(self.made, 0)}
            write_offsets(self._fs, path, offsets)

    def shown(self, topic: str) -> list[TopicPartition]:
        """Called when a new topic has become visible. Removes the topic's partitions from `made`,
        and returns them."""
        keys = [key for key in list(self.made) if key[0] == topic]
        for key in keys:
            self.made.pop(key, None)
        return keys

    def take_back(self, topic: str) -> None:
        """Called when the creation of a topic has failed. Removes the topic's partitions from
        `made` and from the checkpoint file."""
        keys = set(self.shown(topic))
        path = self._path(RECOVERY_POINT)
        with self._writing, suppress(OSError):  # the disk that failed before may fail again
            offsets = read_offsets(self._fs, path)
            if keys & offsets.keys():
                write_offsets(
                    self._fs, path, {key: at for key, at in offsets.items() if key not in keys}
                )

    def write(self, partitions: Callable[[], Iterable[Partition]]) -> None:
        """Writes recovery points, high watermarks and log start offsets. Raises OSError.

        First waits until other writes have ended, and then calls ``partitions``, which returns the
        partitions to write.
        """
        with self._writing:
            there = {**self.made, **{(each.topic, each.index): each for each in partitions()}}
            recovery_points = {key: each.log.recovery_point for key, each in there.items()}
            high_watermarks = {key: each.high_watermark for key, each in there.items()}
            starts = {key: each.log.log_start_offset for key, each in there.items()}
            self._sync_names(there.values())
            for name, offsets in (
                (RECOVERY_POINT, recovery_points),
                (HIGH_WATERMARK, high_watermarks),
                (LOG_START_OFFSET, {key: start for key, start in starts.items() if start}),
            ):
                write_offsets(self._fs, self._path(name), offsets)
            self.outdated.clear()

    def lower(self, key: TopicPartition, recovery_point: int) -> None:
        """Lowers a log's recovery point on disk. Called before the log is truncated below it;
        otherwise the next start would report the truncated records as lost. Raises OSError."""
        path = self._path(RECOVERY_POINT)
        with self._writing:
            offsets = read_offsets(self._fs, path)
            if offsets.get(key, 0) > recovery_point:
                write_offsets(self._fs, path, {**offsets, key: recovery_point})

    def _sync_names(self, partitions: Collection[Partition]) -> None:
        """Fsyncs the directories of logs and the data directory, before a checkpoint lists the
        logs."""
        logs = [partition.log for partition in partitions]
        ours = [log for log in logs if self._directory in log.segments.unsynced_directories]
        if ours:  # one fsync of the data directory is enough for all logs
            self._fs.fsync_directory(self._directory)
            for log in ours:
                log.segments.unsynced_directories.pop(self._directory, None)
        for log in logs:
            with suppress(FileNotFoundError):  # the topic is being deleted
                log.sync_names()

    def forget(self, topic: str) -> None:
        """Removes a deleted topic from the checkpoints, since the offsets of a new topic with the
        same name start at 0. Raises OSError; the next write of the checkpoints then removes the
        topic."""
        with self._writing:
            self.outdated.add(topic)
            self._keep(lambda key: key[0] != topic)
            self.outdated.discard(topic)

    def forget_partitions(self, partitions: Collection[TopicPartition]) -> None:
        """Removes partitions from the checkpoints. Raises OSError."""
        with self._writing:
            self._keep(lambda key: key not in partitions)

    def write_high_watermarks(self, partitions: Callable[[], Iterable[Partition]]) -> None:
        """Writes only the high watermarks of the partitions that ``partitions`` returns. Raises
        OSError."""
        with self._writing:
            there = list(partitions())
            self._sync_names(there)
            offsets = {(each.topic, each.index): each.high_watermark for each in there}
            write_offsets(self._fs, self._path(HIGH_WATERMARK), offsets)

    def _keep(self, is_kept: Callable[[TopicPartition], bool]) -> None:
        for name in FILES:
            offsets = read_offsets(self._fs, self._path(name))
            kept = {key: offset for key, offset in offsets.items() if is_kept(key)}
            if len(kept) < len(offsets):
                write_offsets(self._fs, self._path(name), kept)

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)
