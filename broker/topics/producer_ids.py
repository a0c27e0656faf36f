"""Producer ids. Each block of ids is reserved durably before its ids are used, and is never
reserved again.

A request gets an id from memory. When nine tenths of a block are used, the next block is reserved
in the background, so that only the first request waits for a block. A failed reservation is retried
until it succeeds. If no id is available, requests get a retriable error. A standalone broker
reserves blocks on its disk; in a cluster, `broker/cluster/coordinators/producer_id_blocks.py`
reserves them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine

import structlog

from broker.time import Time
from transactions.producer_ids import REFILL_BELOW, ProducerIds

logger = structlog.get_logger(__name__)

BLOCK = 1000
Reserve = Callable[[], Awaitable[range]]
"""A function that reserves a block of ids. Raises OSError if no block can be reserved now."""
RETRY_S = 0.05
"""The number of seconds after which a failed reservation is retried, as in Kafka."""


class ProducerIdPool:
    """The reserved producer ids, and the reservation of further blocks. Only the event loop's
    thread may use this class."""

    def __init__(
        self,
        reserve: Reserve,
        time: Time,
        spawn: Callable[[Coroutine[None, None, None], str], asyncio.Task[None]],
    ) -> None:
        self.ids = ProducerIds()
        """The reserved ids. A caller that takes an id must call `refill`."""
        self._reserve = reserve
        self._time = time
        self._spawn = spawn
        self._refilling: asyncio.Task[None] | None = None
        self._tried: asyncio.Future[bool] | None = None
        """The result of the first attempt of the last refill, which may still be in progress. It is
        True if a block of producer ids was reserved."""

    def refill(self) -> None:
        """Starts to reserve a block if one is needed. Returns immediately."""
        if self.ids.left < REFILL_BELOW and self._refilling is None:
            self._tried = asyncio.get_running_loop().create_future()
            self._refilling = self._spawn(self._refill(self._tried), "producer ids")

    async def ready(self) -> bool:
        """Returns True if an id is available. If no id is available, first waits for one attempt to
        reserve a block."""
        if self.ids.left:
            return True
        self.refill()
        return self._tried is not None and await asyncio.shield(self._tried)

    async def take(self) -> int | None:
        """Returns a new id, which is unique across restarts; None if no block can be reserved
        now."""
        fresh = self.ids.take()
        while fresh is None and await self.ready():
            fresh = self.ids.take()  # None if other waiting calls have used up the block
        self.refill()
        return fresh

    def stop(self) -> None:
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
