"""Producer ids: each block is reserved durably before its ids are used, and never reused.

A request takes an id from memory. When nine tenths of a block are used the next is reserved in the
background, so that only the first request waits for one. A block that can't be reserved is tried
again soon, until it works; requests without an id in that time get a retriable error. A standalone
broker reserves on its disk; in a cluster `broker/cluster/coordinators/producer_id_blocks.py` does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine

import structlog

from broker.time import Time
from transactions.producer_ids import REFILL_BELOW, ProducerIds

logger = structlog.get_logger(__name__)

BLOCK = 1000
"""Producer ids reserved at once, as Kafka's controller does."""
Reserve = Callable[[], Awaitable[range]]
"""Reserves a block; raises OSError where it can't now."""
RETRY_S = 0.05
"""How soon a block that could not be reserved is tried again, as in Kafka."""


class ProducerIdPool:
    """The ids at hand and who sees to it that there are some; of the event loop's thread alone."""

    def __init__(
        self,
        reserve: Reserve,
        time: Time,
        spawn: Callable[[Coroutine[None, None, None], str], asyncio.Task[None]],
    ) -> None:
        self.ids = ProducerIds()
        """The reserved ids; a caller that takes some calls `refill` afterwards."""
        self._reserve = reserve
        self._time = time
        self._spawn = spawn
        self._refilling: asyncio.Task[None] | None = None
        self._tried: asyncio.Future[bool] | None = None
        """Whether the first try of the last refill has reserved a block."""

    def refill(self) -> None:
        """Begins to reserve a block if one is wanted; returns at once."""
        if self.ids.left < REFILL_BELOW and self._refilling is None:
            self._tried = asyncio.get_running_loop().create_future()
            self._refilling = self._spawn(self._refill(self._tried), "producer ids")

    async def ready(self) -> bool:
        """Whether ids can be had; where none is at hand one try is waited for."""
        if self.ids.left:
            return True
        self.refill()
        return self._tried is not None and await asyncio.shield(self._tried)

    async def take(self) -> int | None:
        """A new id, unique across restarts; None if none can be reserved now."""
        fresh = self.ids.take()
        while fresh is None and await self.ready():
            fresh = self.ids.take()  # others who waited may have taken the block
        self.refill()
        return fresh

    def stop(self) -> None:
        """Reserves no more ids."""
        if self._refilling is not None:
            self._refilling.cancel()

    async def _refill(self, tried: asyncio.Future[bool]) -> None:
        try:
            failures = 0
            while True:
                try:
                    self.ids.add(await self._reserve())
                    if not tried.done():
                        tried.set_result(True)
                    return
                except OSError as error:
                    failures += 1
                    if failures & (failures - 1) == 0:
                        logger.error(
                            "producer ids can't be reserved", error=str(error), times=failures
                        )
                if not tried.done():
                    tried.set_result(False)
                await self._time.sleep(RETRY_S)
        finally:
            self._refilling = None
            if not tried.done():
                tried.set_result(False)
