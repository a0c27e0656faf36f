"""Replaces old segments by cleaned ones, concurrently with appends, reads and deletions.

Owns the guard: while it is held no segment of that log is deleted, and a stop of the broker waits.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable

from broker.time import Time
from broker.topics.logs import LogManager
from broker.topics.partition import Partition
from log.cleaner.clean_job import CleanedGroup
from log.cleaner.clean_swap import abandon, commit, discard, exchange, sources_of
from log.errors import LogPoisoned
from log.leftovers import CLEANED
from log.partition_log import PartitionLog
from log.segment import LOG, Segment, file_name


class Abandoned(Exception):
    """The log has changed or was deleted during its cleaning; this is not a fault."""


class SegmentSwaps:
    """The exchanges of one broker; use from the event loop's thread alone."""

    def __init__(
        self,
        logs: LogManager,
        time: Time,
        before_exchange: Callable[[PartitionLog], Awaitable[None]],
    ) -> None:
        """``before_exchange`` is awaited with a log before its segments are replaced."""
        self._logs = logs
        self._time = time
        self._before_exchange = before_exchange
        self._swaps: set[asyncio.Task[None]] = set()

    async def settled(self) -> None:
        """Waits until none is under way."""
        if self._swaps:
            await asyncio.wait(self._swaps)

    async def replace(self, partition: Partition, group: CleanedGroup, truncations: int) -> None:
        """Puts a cleaned segment in the place of its sources. Raises Abandoned, LogPoisoned.

        ``truncations`` is how many the log had seen when its sources were read.
        """
        log = partition.log
        await self._before_exchange(log)
        is_as_read = self.is_ours(partition) and log.truncations == truncations
        sources = sources_of(log, group) if is_as_read else None
        if sources is None:
            if self.is_ours(partition):
                await self._time.in_thread(abandon, log, group)
            raise Abandoned("its segments were deleted during the cleaning")
        # From now on: the task begins later, and retention may come before it.
        log.segments.swapping = True
        swap = asyncio.get_running_loop().create_task(self._swap(partition, group, sources))
        self._swaps.add(swap)
        swap.add_done_callback(self._swaps.discard)
        await asyncio.shield(swap)  # a stop of the broker lets it end

    async def _swap(
        self, partition: Partition, group: CleanedGroup, sources: list[Segment]
    ) -> None:
        log = partition.log
        try:
            left = await self._time.in_thread(commit, log, group)
            if not self.is_ours(partition):
                raise Abandoned("the log was closed during the cleaning")
            old = exchange(log, group, sources, left)
        except Abandoned:
            raise
        except Exception as error:
            self._swap_failed(partition, group, error)
            raise
        finally:
            log.segments.swapping = False
        undeleted = await self._time.in_thread(discard, log.fs, old, sources)
        log.segments.pending_deletes += undeleted  # the next retention run tries again

    def _swap_failed(self, partition: Partition, group: CleanedGroup, error: Exception) -> None:
        """Before the new files count, nothing has happened; afterwards only a new start helps."""
        log = partition.log
        path = os.path.join(log.directory, file_name(group.base_offset, LOG))
        if self.is_ours(partition) and not log.fs.exists(path + CLEANED):
            log.fail_for_good(f"replacing the segments of {log.directory} failed: {error}")
            raise LogPoisoned(str(log.poisoned), final=True) from error

    def is_ours(self, partition: Partition) -> bool:
        """Whether it is still served: its topic may be deleted, or the broker stop."""
        return not partition.log.failed_for_good and self._logs.serves(partition)
