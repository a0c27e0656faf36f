"""What follows the mark of a deleted topic: its directories go, and then its entry in the registry.

From the mark on the topic is deleted, whatever the disk says afterwards: what cannot be done now is
tried again, ever less often, and at the next start. Its name is not free before its directories are
out of the way, so that no two logs ever share a file.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import structlog

from broker.reserved_file import NotSettled
from log.partition_log import PartitionLog

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.registry import Topic

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
        """By name, those whose directories or whose entry are still there."""
        self._retries: set[asyncio.Task[None]] = set()

    def __contains__(self, name: str) -> bool:
        """Whether the name is not free yet."""
        return name in self._left

    def resume(self) -> None:
        """Goes on with what the start could not finish."""
        for topic in self.broker.registry.dying.values():
            self._retry_later(self._add(topic, (), 0))

    async def stop(self) -> None:
        """Ends the retries; the next start goes on."""
        for task in self._retries:
            task.cancel()
        if self._retries:
            await asyncio.wait(self._retries)

    async def finish(self, topic: Topic, logs: Sequence[PartitionLog], delay_ms: int) -> None:
        """Removes what is left of a topic that is marked and hidden, or sees to it later."""
        deleted = self._add(topic, logs, delay_ms)
        if not await self._try(deleted):
            self._retry_later(deleted)

    def _add(self, topic: Topic, logs: Sequence[PartitionLog], delay_ms: int) -> _Deleted:
        deleted = _Deleted(topic, logs, delay_ms, os.urandom(16).hex())
        self._left[topic.name] = deleted
        return deleted

    def _retry_later(self, deleted: _Deleted) -> None:
        task = asyncio.get_running_loop().create_task(self._retry(deleted))
        self._retries.add(task)
        task.add_done_callback(self._retries.discard)

    async def _retry(self, deleted: _Deleted) -> None:
        wait_ms = RETRY_MS_FIRST
        while True:
            await asyncio.sleep(wait_ms / 1000)
            if await self._try(deleted):
                return
            wait_ms = min(2 * wait_ms, RETRY_MS_MAX)

    async def _try(self, deleted: _Deleted) -> bool:
        """Whether nothing is left to be done."""
        name = deleted.topic.name
        broker = self.broker
        try:
            directories = await broker.topics.on_disk(
                broker.logs.retire, deleted.topic, deleted.logs, deleted.tag
            )
            await broker.topics.on_disk(broker.registry.forget, name)
        except NotSettled:
            return True  # the broker stops, and the next start goes on
        except OSError as error:
            logger.error(
                "not all of a deleted topic could be removed; that is tried again",
                topic=name,
                error=str(error),
            )
            return False
        del self._left[name]
        broker.after(deleted.delay_ms, lambda: broker.logs.remove(directories))
        return True
