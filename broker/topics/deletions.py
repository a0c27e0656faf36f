"""Completes topic deletions: removes the directories, the committed offsets, and finally the
registry entry.

A topic is deleted once it is marked as deleted in the registry, even if a later step fails. Failed
steps are retried at growing intervals and at the next start.

A new topic may use the name after two steps. First, the directories are renamed, so that two logs
never share a file. Second, all loaded shards have dropped the committed offsets. The registry entry
is removed when every shard has dropped them (`broker/cores/groups/dropped_offsets.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import structlog

from broker.loop.background import Background
from broker.loop.slices import Slicer, Slices
from broker.time import Time
from broker.topics.directory.disk_changes import DiskChanges
from broker.topics.directory.reserved_file import NotSettled
from broker.topics.logs import LogManager
from broker.topics.partition import Partition
from broker.topics.registry import StoredRegistry, Topic

logger = structlog.get_logger(__name__)

RETRY_MS_FIRST = 1_000
RETRY_MS_MAX = 60_000


class _Deleted(NamedTuple):
    """A topic whose deletion is incomplete."""

    topic: Topic
    partitions: Sequence[Partition]
    """The partitions of the topic; empty if a previous process deleted the topic."""
    delay_ms: int
    """The number of milliseconds before the topic's files are removed: `file.delete.delay.ms`."""
    tag: str
    """The 32 hexadecimal digits in the names of the renamed directories."""


class CommittedOffsets(Protocol):
    """Finds and drops the committed offsets of deleted topics in the shards of
    `__consumer_offsets`."""

    def left(self, topic: str) -> Mapping[int, int]:
        """Returns a log offset for each shard that must still drop committed offsets of a topic.
        The shard drops the commits before this log offset."""

    async def drop(self, topics: Iterable[str], slices: Slices) -> None:
        """Drops the committed offsets of topics that no longer accept commits. Returns when the
        offsets are dropped."""


class Deletions:
    """The topic deletions of one broker. Only the event loop's thread may use this class."""

    def __init__(
        self,
        registry: StoredRegistry,
        logs: LogManager,
        offsets: CommittedOffsets,
        disk_changes: DiskChanges,
        time: Time,
        slicer: Slicer,
        background: Background,
    ) -> None:
        self._registry = registry
        self._logs = logs
        self._offsets = offsets
        self._disk_changes = disk_changes
        self._time = time
        self._slicer = slicer
        self._background = background
        self._left: dict[str, _Deleted] = {}
        """The deleted topics whose names are not free yet, by name."""
        self._retries: set[asyncio.Task[None]] = set()

    def __contains__(self, name: str) -> bool:
        """Returns True if a deleted topic still occupies ``name``."""
        return name in self._left

    def offsets_left(self, name: str) -> Mapping[int, int]:
        """Returns a log offset for each shard that must still drop committed offsets of a deleted
        topic ``name``. The shard drops the commits before this log offset."""
        return self._offsets.left(name)

    def resume(self) -> None:
        """Continues the topic deletions that the previous process did not finish. Called after the
        shards have loaded, and before the broker accepts commits. Raises OSError."""
        for topic, offsets_below in list(self._registry.dying.values()):
            if self._registry.topic(topic.name) is None:
                self._retry_later(self.add(topic, (), 0), 0)
                continue
            left = self._offsets.left(topic.name)
            if left and left != offsets_below:
                # A power loss truncated a log: commits at those offsets now belong to the new
                # topic.
                self._registry.bound_offsets(topic.name, left)
            elif not left:
                self.dropped(topic.name)

    async def stop(self) -> None:
        """Stops the retries; the next start of the broker continues the deletions."""
        for task in self._retries:
            task.cancel()
        if self._retries:
            await asyncio.wait(self._retries)

    def add(self, topic: Topic, partitions: Sequence[Partition], delay_ms: int) -> _Deleted:
        """Adds a topic that is already marked as deleted and invisible. From then on, no topic with
        this name can be created until the files of the deleted topic are moved away."""
        deleted = _Deleted(topic, partitions, delay_ms, self._time.fresh_id().hex())
        self._left[topic.name] = deleted
        return deleted

    def begin(self, topic: Topic) -> None:
        """Begins to remove the files of a topic whose creation failed. No client has seen the
        topic. In the registry, the topic is already deleted."""
        self._background.spawn(self.finish(self.add(topic, (), 0)))

    async def finish(self, deleted: _Deleted) -> None:
        """Removes the files, committed offsets and registry entry of a topic. Failed steps are
        retried later.

        When this method returns, all loaded shards have dropped the committed offsets, so that a
        new topic with the same name has no committed offsets.
        """
        name = deleted.topic.name
        away = await self._move_away(deleted)
        slices = self._slicer.work("DeleteTopics")
        await self._offsets.drop([name], slices)
        if away:
            del self._left[name]
        if not (away and await self._forget(deleted.topic)):
            self._retry_later(deleted, RETRY_MS_FIRST)

    def _retry_later(self, deleted: _Deleted, wait_ms: int) -> None:
        task = asyncio.get_running_loop().create_task(self._retry(deleted, wait_ms))
        self._retries.add(task)
        task.add_done_callback(self._retries.discard)

    async def _retry(self, deleted: _Deleted, wait_ms: int) -> None:
        while True:
            await self._time.real.sleep(wait_ms / 1000)
            name = deleted.topic.name
            if self._left.get(name) is deleted and await self._move_away(deleted):
                del self._left[name]
            if self._left.get(name) is not deleted and await self._forget(deleted.topic):
                return
            wait_ms = min(max(2 * wait_ms, RETRY_MS_FIRST), RETRY_MS_MAX)

    async def _move_away(self, deleted: _Deleted) -> bool:
        """Renames the directories of a deleted topic, and schedules the removal of the renamed
        directories. Returns False if they could not be renamed."""
        try:
            directories = await self._disk_changes.run(
                self._logs.retire, deleted.topic, deleted.partitions, deleted.tag
            )
        except OSError as error:
            logger.error(
                "directories of a deleted topic can't be renamed, retrying",
                topic=deleted.topic.name,
                error=str(error),
            )
            return False
        self._background.after(deleted.delay_ms, lambda: self._logs.remove(directories))
        return True

    async def _forget(self, topic: Topic) -> bool:
        """Removes the registry entry, unless a shard must still drop committed offsets. Returns
        False if the removal failed."""
        if self._offsets.left(topic.name):
            return True
        try:
            await self._disk_changes.run(self._registry.forget, topic)
        except NotSettled:
            return True  # the broker stops; the next start continues
        except OSError as error:
            logger.error(
                "deleted topic can't be removed from the topic list, retrying",
                topic=topic.name,
                error=str(error),
            )
            return False
        return True

    def dropped(self, name: str) -> None:
        """Called when all shards have dropped the committed offsets of the deleted topics named
        ``name``."""
        deleted = self._registry.dying.get(name)
        if deleted is not None and name not in self._left:
            self._background.spawn(self._forget_or_not(deleted.topic))

    async def _forget_or_not(self, topic: Topic) -> None:
        await self._forget(topic)  # on failure the next start tries again


def remove_leftovers(registry: StoredRegistry, logs: LogManager, time: Time) -> None:
    """Removes the directories of topics that the previous process deleted. Called before logs are
    opened. A failed removal is retried later."""
    try:
        for topic, _ in registry.dying.values():
            # If a topic of the name exists, the directories belong to this new topic.
            if registry.topic(topic.name) is None:
                logs.retire(topic, (), time.fresh_id().hex())
        logs.remove(logs.leftovers())
    except OSError as error:
        logger.error("directories of deleted topics can't be removed at start", error=str(error))
