"""Commits of version 0 on their way into the file of ZooKeeper's consumer paths."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import structlog

from broker.time import Time
from broker.topics.consumer_paths import FileConsumerPaths
from broker.topics.registry import OldOffset, Place

logger = structlog.get_logger(__name__)


class OldCommits:
    """See `OldOffsets`. Commits that come while one write runs share the next."""

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
        self._spawn = spawn
        self._flush_messages = flush_messages
        self._kept: Callable[[], Coroutine[Any, Any, None]] | None = kept
        self._waiting: list[tuple[list[OldOffset], asyncio.Future[Exception | None]]] = []
        self._writing = False

    def keep(self, entries: list[OldOffset]) -> asyncio.Future[Exception | None]:
        """See OldOffsets."""
        done: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((entries, done))
        if not self._writing:
            self._writing = True
            self._spawn(self._write_all())
        return done

    def fetch(self, group_id: str, places: Sequence[Place]) -> asyncio.Future[Mapping[Place, int]]:
        """See OldOffsets."""
        done: asyncio.Future[Mapping[Place, int]] = asyncio.get_running_loop().create_future()
        kept = {place: self._paths.fetch(group_id, *place) for place in places}
        done.set_result({place: offset for place, offset in kept.items() if offset is not None})
        return done

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                together, self._waiting = self._waiting, []
                entries = [entry for each, _ in together for entry in each]
                failed: Exception | None = None
                try:
                    await self._time.in_thread(self._paths.write, entries, self._flush_messages())
                    self._paths.take(entries)
                    if self._kept is not None:
                        await self._kept()
                        self._kept = None
                except Exception as error:  # noqa: BLE001 - whoever waits gets it, whatever it was
                    failed = error
                    logger.error("commits of version 0 could not be stored", error=repr(error))
                for _, done in together:
                    if not done.done():
                        done.set_result(failed)
                if failed is None and self._paths.outgrown:
                    await self._rewrite()
        finally:
            self._writing = False
            left, self._waiting = self._waiting, []
            for _, done in left:  # the broker stops
                done.cancel()

    async def _rewrite(self) -> None:
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
