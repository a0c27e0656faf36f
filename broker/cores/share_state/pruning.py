"""Deletes redundant records of ``__share_group_state``, and the states of deleted topics.

The topic is not compacted, because each update record builds on the records before it. Instead, the
oldest records of the log are deleted, up to the first snapshot record that a load needs. Source:
Kafka 4.3.1 ``ShareCoordinatorService.setupRecordPruning`` and ``maybeCleanupShareState``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from broker.cores.hosted_shard import Phase
from broker.cores.share_state.runtime import HostedShareStates, ShareStateRuntime
from broker.loop.background import Background
from broker.loop.slices import Slicer, Slices
from broker.topics.ticket import Awaited
from log.errors import LogPoisoned
from protocol.errors import NONE
from share.persister.calls import DeleteState, FindRedundant, RedundantReply, StateReply

logger = structlog.get_logger(__name__)


class Pruning:
    """The periodic deletion of redundant records and states."""

    def __init__(
        self,
        runtime: ShareStateRuntime,
        interval_ms: Callable[[], int],
        topic_exists: Callable[[bytes], bool],
        slicer: Slicer,
        background: Background,
    ) -> None:
        """``topic_exists`` returns True if a topic with the given id exists."""
        self._runtime = runtime
        self._interval_ms = interval_ms
        self._topic_exists = topic_exists
        self._slicer = slicer
        self._background = background
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = self._background.every(
            "share pruning", lambda: self._interval_ms() / 1000, self.run, _failed
        )

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def run(self) -> None:
        """Deletes the states of deleted topics, and redundant records, in all active shards."""
        slices = self._slicer.work("share pruning")
        for hosted in list(self._runtime.hosted_shards):
            if slices.over:
                await slices.pause()
            if hosted.phase is Phase.ACTIVE:
                await self._delete_states(hosted, slices)
                await slices.beside(self._prune(hosted))
        slices.end()

    async def delete_states_of_deleted_topics(self) -> None:
        """Deletes the states of topics that no longer exist."""
        slices = self._slicer.work("share pruning")
        for hosted in list(self._runtime.hosted_shards):
            if hosted.phase is Phase.ACTIVE:
                await self._delete_states(hosted, slices)
        slices.end()

    async def _delete_states(self, hosted: HostedShareStates, slices: Slices) -> None:
        keys = [key for key in hosted.core.view.known_keys if not self._topic_exists(key.topic_id)]
        for key in keys:
            if slices.over:
                await slices.pause()
            self._runtime.submit(hosted, DeleteState(_Unawaited(), key))
        if keys:
            logger.info(
                "states of share partitions deleted, because their topics were deleted",
                partition=hosted.partition.name,
                share_partitions=len(keys),
            )

    async def _prune(self, hosted: HostedShareStates) -> None:
        """Deletes the redundant records of a shard.

        First flushes the log. Otherwise a power failure could lose a newer snapshot record after
        the segment with the older snapshot record was deleted.
        """
        found = Awaited[RedundantReply]()
        self._runtime.submit(hosted, FindRedundant(found))
        reply = await found.reply
        offset = reply.first_needed
        if reply.error_code != NONE or offset <= hosted.log.log_start_offset:
            return
        try:
            await hosted.partition.flush()
        except LogPoisoned as error:
            hosted.partition.poisoned(error)
            return
        hosted.partition.delete_records(offset)


class _Unawaited:
    """A ticket that ignores its reply, because the next pruning repeats a failed deletion."""

    def take(self, reply: StateReply) -> None: ...


def _failed(error: Exception) -> None:
    logger.error("records of share partitions not deleted", error=repr(error))
