"""Batches the writes of OffsetCommit v0 requests. Commits that arrive during a write are written
together by the next write."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import structlog

from broker.topics.registry import OldOffset

logger = structlog.get_logger(__name__)


class SharedWrites:
    """Batches the writes of OffsetCommit v0 requests. Only the event loop's thread may use this
    class."""

    def __init__(
        self,
        write: Callable[[list[OldOffset]], Awaitable[None]],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        written: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """``write`` stores commits in the order of their arrival. If it raises an exception, all
        these commits get the exception as their result. ``written`` is called after each call of
        ``write`` that succeeds."""
        self._write = write
        self._spawn = spawn
        self._after = written
        self._waiting: list[tuple[list[OldOffset], asyncio.Future[Exception | None]]] = []
        self._writing = False

    def keep(self, entries: list[OldOffset]) -> asyncio.Future[Exception | None]:
        done: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((entries, done))
        if not self._writing:
            self._writing = True
            self._spawn(self._write_all())
        return done

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                together, self._waiting = self._waiting, []
                failed: Exception | None = None
                try:
                    await self._write([entry for entries, _ in together for entry in entries])
                except Exception as error:  # noqa: BLE001 - passed to the waiting callers
                    failed = error
                    logger.error("offsets of OffsetCommit v0 can't be stored", error=repr(error))
                for _, done in together:
                    if not done.done():
                        done.set_result(failed)
                if failed is None and self._after is not None:
                    await self._after()
        finally:
            self._writing = False
            left, self._waiting = self._waiting, []
            for _, done in left:  # the broker is stopping
                done.cancel()
