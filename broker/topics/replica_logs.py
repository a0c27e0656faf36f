"""The logs of this broker's replicas in a cluster: made and put away partition by partition.

In a cluster the controller decides which partitions have a replica here. A log is made when the
first request names it. One that is to be deleted is closed at once, its directory is renamed to
``…-delete``, and its files go after ``file.delete.delay.ms``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from broker.loop.background import Background
from broker.time import Time
from broker.topics.disk_changes import DiskChanges
from broker.topics.logs import DELETED_SUFFIX, LogManager
from broker.topics.partition import Partition
from broker.topics.partition_mark import mark
from broker.topics.registry import Topic, partition_name
from broker.topics.replica import Replica


class ReplicaLogs:
    """See the module; use from the event loop's thread alone, one change at a time."""

    def __init__(
        self, logs: LogManager, changes: DiskChanges, time: Time, background: Background
    ) -> None:
        self._logs = logs
        self._changes = changes
        self._time = time
        self._background = background

    def get(self, topic: str, index: int) -> Replica | None:
        """A replica that is here."""
        found = self._logs.get(topic, index)
        assert found is None or isinstance(found, Replica)
        return found

    def all(self) -> Iterator[Replica]:
        """All that are here."""
        for each in self._logs.all():
            assert isinstance(each, Replica)
            yield each

    def topic(self, name: str) -> Topic | None:
        """A topic that has a replica here, as it is known here."""
        entry = self._logs.topics.get(name)
        return None if entry is None else entry.topic

    async def make(self, topic: Topic, indexes: Sequence[int]) -> None:
        """Makes the logs of new replicas. Raises OSError with none of them made."""
        entry = await self._changes.run(self._logs.make, topic, indexes)
        self._logs.show(entry)

    async def identify(self, name: str, topic_id: bytes) -> None:
        """Notes the id of a topic that had none. Raises OSError."""
        entry = self._logs.topics[name]
        directories = [each.log.directory for each in entry.partitions]

        def mark_all() -> None:
            for directory in directories:
                mark(self._logs.fs, directory, topic_id)

        await self._changes.run(mark_all)
        entry.topic = replace(entry.topic, topic_id=topic_id)

    def counted(self, name: str, partitions: int) -> None:
        """A topic has so many partitions in the cluster."""
        entry = self._logs.topics.get(name)
        if entry is not None and entry.topic.partitions != partitions:
            entry.topic = entry.topic.with_partitions(partitions)

    async def drop(self, topic: str, index: int) -> None:
        """Puts a replica away, and a directory that is nobody's likewise. Raises OSError."""
        partition = self._logs.get(topic, index)
        delay_ms = 0
        if partition is not None:
            entry = self._logs.topics[topic]
            delay_ms = entry.settings["file.delete.delay.ms"]
            entry.remove(index)
            if not entry.partitions:
                del self._logs.topics[topic]
            partition.stop()
        tag = self._time.fresh_id().hex()
        away = await self._changes.run(self._put_away, topic, index, partition, tag)
        if away is not None:
            directory = away
            self._background.after(delay_ms, lambda: self._logs.remove([directory]))

    def _put_away(
        self, topic: str, index: int, partition: Partition | None, tag: str
    ) -> str | None:
        """Closes a log and renames its directory; the new path. In any thread."""
        logs = self._logs
        if partition is not None:
            partition.close(clean=False)
        directory = os.path.join(logs.directory, partition_name(topic, index))
        if not logs.fs.exists(directory):
            return None
        away = f"{partition_name(topic[:190], index)}.{tag}{DELETED_SUFFIX}"
        away = os.path.join(logs.directory, away)
        logs.fs.rename(directory, away)
        logs.fs.fsync_directory(logs.directory)
        with suppress(OSError):  # a full disk; see `LogManager.retire`
            logs.checkpoints.forget_partition((topic, index))
        return away

    async def write_high_watermarks(self) -> None:
        """Writes ``replication-offset-checkpoint``. Raises OSError."""
        await self._changes.run(self._logs.write_high_watermarks)
