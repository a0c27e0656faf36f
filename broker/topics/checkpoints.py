"""The checkpoints of the data directory: recovery point, high watermark and start of each log.

The next start reports everything that they name and that is gone. So the directories of logs are
fsynced first: no name is written here that a power cut could still remove.
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
    """The checkpoints of one data directory; any thread may write them."""

    def __init__(self, fs: FileSystem, directory: str) -> None:
        self._fs = fs
        self._directory = directory
        self._writing = Lock()
        self.outdated: set[str] = set()
        """Deleted topics of which a checkpoint may still speak."""
        self.made: dict[TopicPartition, Partition] = {}
        """New partitions that are not visible yet."""
        self._read: dict[str, Mapping[TopicPartition, int]] = {name: {} for name in FILES}
        self._cleaned: Mapping[TopicPartition, int] = {}
        self._cleaned_unknown = 0

    # -- at the start

    def read(self) -> None:
        """Reads what the last process wrote. Raises CorruptLog with what to do about it."""
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
        except CorruptLog:  # cleaning logs it, and begins without it
            self._cleaned, self._cleaned_unknown = {}, LONG_MAX

    def named(self) -> dict[TopicPartition, str]:
        """Every partition that a checkpoint speaks of, and which one does."""
        return {key: name for name in reversed(FILES) for key in self._read[name]}

    def expected(self, key: TopicPartition) -> Expected:
        """The offsets of a log in the checkpoints that were read."""
        return Expected(
            self._read[RECOVERY_POINT].get(key, 0),
            self._read[HIGH_WATERMARK].get(key, 0),
            self._read[LOG_START_OFFSET].get(key, 0),
            self._cleaned.get(key, self._cleaned_unknown),
            known=any(key in offsets for offsets in self._read.values()),
        )

    # -- while the broker runs

    def add(self, partitions: Collection[Partition]) -> None:
        """Writes down that new partitions are there, before anybody may use them. OSError."""
        with self._writing:
            self._sync_names(partitions)
            self.made.update({(each.topic, each.index): each for each in partitions})
            path = self._path(RECOVERY_POINT)
            offsets = {**read_offsets(self._fs, path), **dict.fromkeys(self.made, 0)}
            write_offsets(self._fs, path, offsets)

    def shown(self, topic: str) -> list[TopicPartition]:
        """The new partitions of a topic are visible; returns them."""
        keys = [key for key in list(self.made) if key[0] == topic]
        for key in keys:
            self.made.pop(key, None)
        return keys

    def take_back(self, topic: str) -> None:
        """Removes a topic's new partitions that `add` entered: they could not be created."""
        keys = set(self.shown(topic))
        path = self._path(RECOVERY_POINT)
        with self._writing, suppress(OSError):  # of the disk that failed before, it may
            offsets = read_offsets(self._fs, path)
            if keys & offsets.keys():
                write_offsets(
                    self._fs, path, {key: at for key, at in offsets.items() if key not in keys}
                )

    def write(self, partitions: Callable[[], Iterable[Partition]]) -> None:
        """Writes recovery points, high watermarks and log start offsets. Raises OSError.

        ``partitions`` gives those that are there when it is their turn to be written down.
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
        """Writes down that a log is about to end earlier, where it was said to reach further.

        Its next end would else seem to have lost what a follower dropped. Raises OSError.
        """
        path = self._path(RECOVERY_POINT)
        with self._writing:
            offsets = read_offsets(self._fs, path)
            if offsets.get(key, 0) > recovery_point:
                write_offsets(self._fs, path, {**offsets, key: recovery_point})

    def _sync_names(self, partitions: Collection[Partition]) -> None:
        """Has the names of the logs' files on the disk, before anything vouches for them."""
        logs = [partition.log for partition in partitions]
        ours = [log for log in logs if self._directory in log.segments.unsynced_directories]
        if ours:  # one for all of them; only opening a log enters it
            self._fs.fsync_directory(self._directory)
            for log in ours:
                log.segments.unsynced_directories.pop(self._directory, None)
        for log in logs:
            with suppress(FileNotFoundError):  # its topic is being deleted
                log.sync_names()

    def forget(self, topic: str) -> None:
        """Takes a deleted topic out of the checkpoints: the next of that name begins at 0.

        Raises OSError; it is done again when there is room.
        """
        with self._writing:
            self.outdated.add(topic)
            self._keep(lambda key: key[0] != topic)
            self.outdated.discard(topic)

    def forget_partitions(self, partitions: Collection[TopicPartition]) -> None:
        """Takes partitions out of the checkpoints. Raises OSError."""
        with self._writing:
            self._keep(lambda key: key not in partitions)

    def write_high_watermarks(self, partitions: Callable[[], Iterable[Partition]]) -> None:
        """Writes the high watermarks alone; see `write`. Raises OSError."""
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
