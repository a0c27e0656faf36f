"""Finds pending offset commits whose transaction has ended, and logs the command that drops them.

A log has such commits only if an earlier version of Muster wrote it. This version accepted commits
after the end of their transaction, because a producer of transaction version 1 keeps its epoch then
(broker/cores/groups/records.py).

Until the producer's next transaction, OffsetFetch returns UNSTABLE_OFFSET_COMMIT for the group. The
end of this next transaction would commit the pending offsets.
"""

from __future__ import annotations

import asyncio

import structlog

from broker.cores.groups.runtime import GroupRuntime
from broker.loop.background import Background
from broker.loop.internal_errors import InternalErrors
from broker.loop.slices import Slicer
from broker.metrics.lag import readable
from broker.metrics.lso_blockers import LsoBlocker, LsoBlockers
from broker.topics.partition import Partition
from verdicts.commands import command, word

logger = structlog.get_logger(__name__)

EVERY_S = 20.0


class HangingCommits:
    """Logs each hanging transaction in a partition of ``__consumer_offsets``, once."""

    def __init__(
        self,
        groups: GroupRuntime,
        lso_blockers: LsoBlockers,
        slicer: Slicer,
        internal_errors: InternalErrors,
        background: Background,
    ) -> None:
        self._groups = groups
        self._lso_blockers = lso_blockers
        self._slicer = slicer
        self._internal_errors = internal_errors
        self._background = background
        self._hung: dict[int, tuple[int, int]] = {}
        """The producer id and start offset of the transaction that hung at the last check, by
        partition."""
        self._logged: dict[int, tuple[int, int]] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = self._background.every(
            "hanging commits", lambda: EVERY_S, self.look, self._failed
        )

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _failed(self, error: Exception) -> None:
        self._internal_errors.caught("observer", error)

    async def look(self) -> None:
        """Checks the partitions of ``__consumer_offsets`` that have open transactions."""
        held = [
            hosted.partition
            for hosted in readable(self._groups)
            if hosted.log.producers.open_transactions
        ]
        before, self._hung = self._hung, {}
        if not held:
            return
        slices = self._slicer.work("hanging commits")
        await slices.through(self._lso_blockers.refresh())
        for partition in held:
            self._look_at(partition, before.get(partition.index))
        slices.end()

    def _look_at(self, partition: Partition, before: tuple[int, int] | None) -> None:
        """Logs the oldest open transaction of a partition if it hangs at two consecutive checks.

        One check is not enough. A transaction that began after the transactional ids were collected
        appears to hang.
        """
        blocker = self._lso_blockers.of(partition)
        if blocker is None or not blocker.hangs:
            return
        which = blocker.producer_id, blocker.start_offset
        self._hung[partition.index] = which
        if before == which and self._logged.get(partition.index) != which:
            self._logged[partition.index] = which
            _log(partition, blocker)


def _log(partition: Partition, blocker: LsoBlocker) -> None:
    place = f"{partition.topic}:{partition.index}"
    start = f"--start-offset {blocker.start_offset}"
    logger.warning(
        "offset commits are pending in a transaction that has ended",
        partition=partition.name,
        producer_id=blocker.producer_id,
        producer_epoch=blocker.producer_epoch,
        start_offset=blocker.start_offset,
        end_it_with=command("transactions abort", [], f"--topic {word(place)}", start),
    )
