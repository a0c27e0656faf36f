"""Creates and removes the logs of this broker's replicas in a cluster, partition by partition.

The controller decides which partitions have a replica on this broker. The first request that names
a partition creates its log. When a replica is deleted, its log is closed immediately and its
directory is renamed to ``…-delete``. Its files are removed after ``file.delete.delay.ms``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import structlog

from broker.loop.background import Background
from broker.time import Time
from broker.topics.directory.disk_changes import DiskChanges
from broker.topics.directory.partition_mark import mark
from broker.topics.logs import DELETED_SUFFIX, LogManager
from broker.topics.partition import Partition
from broker.topics.registry import Topic, partition_name
from broker.topics.replicas.replica import Replica
from log.checkpoint import TopicPartition
from log.errors import LogPoisoned

logger = structlog.get_logger(__name__)


class _Dropped(NamedTuple):
    """A deleted replica. ``partition`` is None if its log was not open; then only its directory was
    deleted."""

    topic: str
    number: int
    partition: Partition | None


class ReplicaLogs:
    """The replicas on this broker. Only the event loop's thread may use this class, with one call
    at a time."""

    def __init__(
        self, logs: LogManager, changes: DiskChanges, time: Time, background: Background
    ) -> None:
        self._logs = logs
        self._changes = changes
        self._time = time
        self._background = background

    def get(self, topic: str, index: int) -> Replica | None:
        """Returns this broker's replica of a partition; None if this broker has no replica of
        it."""
        found = self._logs.get(topic, index)
        assert found is None or isinstance(found, Replica)
        return found

    def all(self) -> Iterator[Replica]:
        for each in self._logs.all():
            assert isinstance(each, Replica)
            yield each

    def topic(self, name: str) -> Topic | None:
        """Returns a topic that has a replica on this broker; None for other topics."""
        entry = self._logs.topics.get(name)
        return None if entry is None else entry.topic

    async def make(self, topic: Topic, indexes: Sequence[int]) -> None:
        """Creates the logs of new replicas. After an OSError no log has been created."""
        entry = await self._changes.run(self._logs.make, topic, indexes)
        self._logs.show(entry)

    async def identify(self, name: str, topic_id: bytes) -> None:
        """Stores the id of a topic that previously had no id. Raises OSError."""
        entry = self._logs.topics[name]
        directories = [each.log.directory for each in entry.partitions]

        def mark_all() -> None:
            for directory in directories:
                mark(self._logs.fs, directory, topic_id)

        await self._changes.run(mark_all)
        entry.topic = replace(entry.topic, topic_id=topic_id)

    def counted(self, name: str, partitions: int) -> None:
        entry = self._logs.topics.get(name)
        if entry is not None and entry.topic.partitions != partitions:
            entry.topic = entry.topic.with_partitions(partitions)

    async def drop(self, places: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Renames the directories of replicas, even if their logs are not open. Returns the
        partitions for which this failed. After the call, lookups do not find the replicas."""
        by_delay: dict[int, list[_Dropped]] = {}
        for topic, index in places:
            partition = self._logs.get(topic, index)
            delay_ms = 0 if partition is None else self._hide(partition)
            by_delay.setdefault(delay_ms, []).append(_Dropped(topic, index, partition))
        left: list[TopicPartition] = []
        for delay_ms, dropped in by_delay.items():
            tag = self._time.fresh_id().hex()
            away = await self._changes.run(self._put_away, dropped, tag, left)
            if away:
                self._background.after(delay_ms, partial(self._logs.remove, away))
        return left

    def _hide(self, partition: Partition) -> int:
        """Makes a partition invisible to requests. Returns the delay in ms before its files are
        removed."""
        entry = self._logs.topics[partition.topic]
        entry.remove(partition.index)
        if not entry.partitions:
            del self._logs.topics[partition.topic]
        partition.stop()
        delay_ms: int = entry.settings["file.delete.delay.ms"]
        return delay_ms

    def _put_away(
        self, dropped: Sequence[_Dropped], tag: str, left: list[TopicPartition]
    ) -> list[str]:
        """Closes logs and renames their directories. Returns the new paths. If this fails for a
        partition, adds the partition to ``left``. ``tag`` has the same meaning as in
        `LogManager.retire`. Thread-safe."""
        logs = self._logs
        away: list[str] = []
        try:  # before the renames, so that no later start reports these partitions as missing
            logs.checkpoints.forget_partitions({(each.topic, each.number) for each in dropped})
        except OSError as error:  # a full disk; the next checkpoint omits these partitions
            logger.warning("checkpoints may still list deleted replicas", error=str(error))
        for topic, index, partition in dropped:
            directory = os.path.join(logs.directory, partition_name(topic, index))
            name = f"{partition_name(topic[:190], index)}.{tag}{DELETED_SUFFIX}"
            try:
                if partition is not None:
                    partition.close(clean=False)
                if logs.fs.exists(directory):
                    logs.fs.rename(directory, os.path.join(logs.directory, name))
                    away.append(os.path.join(logs.directory, name))
            except (OSError, LogPoisoned) as error:
                logger.error(
                    "directory of a removed replica can't be renamed",
                    path=directory,
                    error=str(error),
                )
                left.append((topic, index))
        with suppress(OSError):  # if a power loss undoes the renames, they are made again
            logs.fs.fsync_directory(logs.directory)
        return away

    async def write_high_watermarks(self) -> None:
        """Writes ``replication-offset-checkpoint``. Raises OSError."""
        await self._changes.run(self._logs.write_high_watermarks)
