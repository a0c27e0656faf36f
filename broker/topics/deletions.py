"""What follows the mark of a deleted topic: directories and offsets go, then its registry entry.

From the mark on the topic is deleted, whatever the disk says afterwards: what cannot be done now is
tried again, ever less often, and at the next start. Its name is not free before its directories are
out of the way, so that no two logs ever share a file, and before the shards that serve have dropped
its committed offsets. Its entry goes when every shard has: `broker/cores/dropped_offsets.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import structlog

from broker.topics.reserved_file import NotSettled
from log.partition_log import PartitionLog

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.topics.registry import Topic

logger = structlog.get_logger(__name__)

RETRY_MS_FIRST = 1_000
RETRY_MS_MAX = 60_000


class _Deleted(NamedTuple):
    """A deleted topic of which something is left."""

    topic: Topic
    logs: Sequence[PartitionLog]
    """Empty for those of the process before."""
    delay_ms: int
    """How long its files stay: `file.delete.delay.ms`."""
    tag: str
    """What its directories are named after, 32 hexadecimal digits."""


class Deletions:
    """The deleted topics of one broker; use from the event loop's thread alone."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._left: dict[str, _Deleted] = {}
        """By name, those that are not out of the way."""
        self._retries: set[asyncio.Task[None]] = set()

    def __contains__(self, name: str) -> bool:
        """Whether the name is not free yet."""
        return name in self._left

    def resume(self) -> None:
        """Goes on with what the process before has left; the shards know their part already.

        Before anybody can commit. Raises OSError.
        """
        dropped_offsets = self.broker.runtime.dropped_offsets
        dropped_offsets.on_dropped = self._dropped
        for topic, offsets_below in list(self.broker.registry.dying.values()):
            if self.broker.registry.topic(topic.name) is None:
                self._retry_later(self.add(topic, (), 0), 0)
                continue
            left = dropped_offsets.left(topic.name)
            if left and left != offsets_below:
                # A log lost its end with the power: what is committed there now is the new one's.
                self.broker.registry.bound_offsets(topic.name, left)
            elif not left:
                self._dropped(topic.name)

    async def stop(self) -> None:
        """Ends the retries; the next start goes on."""
        for task in self._retries:
            task.cancel()
        if self._retries:
            await asyncio.wait(self._retries)

    def add(self, topic: Topic, logs: Sequence[PartitionLog], delay_ms: int) -> _Deleted:
        """Takes in a topic that is marked and hidden: its name is not free from here on."""
        deleted = _Deleted(topic, logs, delay_ms, self.broker.time.fresh_id().hex())
        self._left[topic.name] = deleted
        return deleted

    async def finish(self, deleted: _Deleted) -> None:
        """Removes what is left of a topic, or sees to it later.

        Its committed offsets are gone from all shards that serve when this returns: whoever makes
        the topic anew and asks for them gets none.
        """
        name = deleted.topic.name
        away = await self._move_away(deleted)
        slices = self.broker.slicer.work("DeleteTopics")
        await self.broker.runtime.dropped_offsets.drop([name], slices)
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
            await self.broker.time.sleep(wait_ms / 1000)
            name = deleted.topic.name
            if self._left.get(name) is deleted and await self._move_away(deleted):
                del self._left[name]
            if self._left.get(name) is not deleted and await self._forget(deleted.topic):
                return
            wait_ms = min(max(2 * wait_ms, RETRY_MS_FIRST), RETRY_MS_MAX)

    async def _move_away(self, deleted: _Deleted) -> bool:
        """Whether its directories are out of the way; then they go when their time has come."""
        broker = self.broker
        try:
            directories = await broker.topics.on_disk(
                broker.logs.retire, deleted.topic, deleted.logs, deleted.tag
            )
        except OSError as error:
            logger.error(
                "the directories of a deleted topic could not be renamed; the broker tries again",
                topic=deleted.topic.name,
                error=str(error),
            )
            return False
        broker.after(deleted.delay_ms, lambda: broker.logs.remove(directories))
        return True

    async def _forget(self, topic: Topic) -> bool:
        """Whether its entry is gone, or waits for shards that have still to drop its offsets."""
        if self.broker.runtime.dropped_offsets.left(topic.name):
            return True
        try:
            await self.broker.topics.on_disk(self.broker.registry.forget, topic)
        except NotSettled:
            return True  # the broker stops, and the next start goes on
        except OSError as error:
            logger.error(
                "a deleted topic could not be removed from the list; the broker tries again",
                topic=topic.name,
                error=str(error),
            )
            return False
        return True

    def _dropped(self, name: str) -> None:
        """No shard has any offset left of the topics that were deleted under a name."""
        deleted = self.broker.registry.dying.get(name)
        if deleted is not None and name not in self._left:
            self.broker.spawn(self._forget_or_not(deleted.topic))

    async def _forget_or_not(self, topic: Topic) -> None:
        await self._forget(topic)  # else it is the next start's
