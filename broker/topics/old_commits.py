"""Commits of version 0 on their way into the file of ZooKeeper's consumer paths."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import structlog

from broker.time import Time
from broker.topics.consumer_paths import FileConsumerPaths
from broker.topics.registry import OldOffset, Place
from broker.topics.shared_writes import SharedWrites

logger = structlog.get_logger(__name__)


class OldCommits:
    """See `OldOffsets` and `SharedWrites`."""

    def __init__(
        self,
        time: Time,
        paths: FileConsumerPaths,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        flush_messages: Callable[[], int],
        kept: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        """``flush_messages`` is asked for the setting of the offsets topic before each write,
        ``kept`` runs once when there is a file that must be missed if it is gone."""
        self._time = time
        self._paths = paths
        self._flush_messages = flush_messages
        self._kept: Callable[[], Coroutine[Any, Any, None]] | None = kept
        self._writes = SharedWrites(self._write, spawn, self._shorten)

    def keep(self, entries: list[OldOffset]) -> asyncio.Future[Exception | None]:
        """See OldOffsets."""
        return self._writes.keep(entries)

    def fetch(self, group_id: str, places: Sequence[Place]) -> asyncio.Future[Mapping[Place, int]]:
        """See OldOffsets."""
        done: asyncio.Future[Mapping[Place, int]] = asyncio.get_running_loop().create_future()
        kept = {place: self._paths.fetch(group_id, *place) for place in places}
        done.set_result({place: offset for place, offset in kept.items() if offset is not None})
        return done

    async def _write(self, entries: list[OldOffset]) -> None:
        await self._time.in_thread(self._paths.write, entries, self._flush_messages())
        self._paths.take(entries)
        if self._kept is not None:
            await self._kept()
            self._kept = None

    async def _shorten(self) -> None:
        """Writes the file anew where most of it is old."""
        if self._paths.outgrown:
            try:
                await self._time.in_thread(self._paths.rewrite)
            except OSError as error:
                logger.warning("consumers.offsets could not be shortened", error=str(error))

    async def stop(self) -> None:
        """Brings to the disk what was written."""
        try:
            await self._time.in_thread(self._paths.flush)
        except OSError as error:
            logger.error("commits of version 0 may not be on the disk", error=str(error))
