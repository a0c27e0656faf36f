"""Replaces old segments by cleaned segments, concurrently with appends, reads and deletions. While
a log is marked as swapping, retention does not delete its segments, and the broker does not stop.
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
    """Raised if a log was changed or deleted while it was cleaned. This is not an error."""


class SegmentSwaps:
    """Replaces segments of one broker's logs. Only the event loop's thread may use this class."""

    def __init__(
        self,
        logs: LogManager,
        time: Time,
        before_exchange: Callable[[PartitionLog], Awaitable[None]],
    ) -> None:
        """Creates the object. ``before_exchange`` is awaited with a log before segments of the log
        are replaced."""
        self._logs = logs
        self._time = time
        self._before_exchange = before_exchange
        self._swaps: set[asyncio.Task[None]] = set()

    async def settled(self) -> None:
        """Waits until no replacement is in progress."""
        if self._swaps:
            await asyncio.wait(self._swaps)

    async def replace(self, partition: Partition, group: CleanedGroup, truncations: int) -> None:
        """Replaces source segments by the segment that was cleaned from them. Raises Abandoned and
        LogPoisoned.

        ``truncations`` is the log's number of truncations when the sources were read.
        """
        log = partition.log
        await self._before_exchange(log)
        is_as_read = self.is_ours(partition) and log.truncations == truncations
        sources = sources_of(log, group) if is_as_read else None
        if sources is None:
            if self.is_ours(partition):
                await self._time.in_thread(abandon, log, group)
            raise Abandoned("segments of the log were deleted during the cleaning")
        # Set before the task begins, since retention may run first.
        log.segments.swapping = True
        swap = asyncio.get_running_loop().create_task(self._swap(partition, group, sources))
        self._swaps.add(swap)
        swap.add_done_callback(self._swaps.discard)
        await asyncio.shield(swap)  # a stop of the broker must not interrupt the swap

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
        """Handles a failed replacement of segments. If the new segment may already be in use,
        poisons the log until the broker restarts, since only a restart repairs it. Otherwise the
        log is unchanged."""
        log = partition.log
        path = os.path.join(log.directory, file_name(group.base_offset, LOG))
        if self.is_ours(partition) and not log.fs.exists(path + CLEANED):
            log.fail_for_good(f"replacing the segments of {log.directory} failed: {error}")
            raise LogPoisoned(str(log.poisoned), final=True) from error

    def is_ours(self, partition: Partition) -> bool:
        """Returns True if the broker still serves the partition and its log has not failed
        permanently."""
        return not partition.log.failed_for_good and self._logs.serves(partition)
