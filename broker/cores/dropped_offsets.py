"""Committed offsets of deleted topics: every shard drops them, now or before it serves again.

A topic's entry in the registry outlives its offsets: whatever ends the process, the next one knows
which shards had still to drop them. A new topic of the same name loses no offsets, since each shard
drops only those below a bound in its log: the end of that log when nobody could commit for the
name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from broker.cores.hosted_shard import HostedShard, Phase
from broker.loop.slices import Slices
from broker.time import Time
from coordinator.outcome import Outcome
from protocol.errors import NONE

ITEMS_PER_PIECE = 100
"""See `GroupShard.expire`: some 4 ms."""
_RETRY_S = 1.0


class Superseded(Exception):
    """The shard that was being loaded is not hosted any more: it is loaded again elsewhere."""


@dataclass(slots=True, eq=False)
class _Dropping:
    """The ticket of one shard's tombstones."""

    dropped_offsets: DroppedOffsets
    hosted: HostedShard
    topics: Mapping[str, int]
    done: asyncio.Future[None] | None

    def take(self, error_code: int) -> None:
        """See `Ticket`."""
        self.dropped_offsets.answered(self.hosted, self.topics, self.done, error_code)


class DroppedOffsets:
    """What the shards of one broker have still to drop; `HostedShard.gone` has it, shard by shard.

    ``work`` takes the outcome of what a shard does by itself; ``on_dropped`` is called with each
    topic of which no shard has anything left.
    """

    def __init__(
        self,
        hosted_shards: Sequence[HostedShard],
        time: Time,
        work: Callable[[HostedShard, Callable[[], Outcome]], None],
        on_dropped: Callable[[str], None],
    ) -> None:
        self._hosted_shards = hosted_shards
        self._time = time
        self._work = work
        self._on_dropped = on_dropped

    def resume(self, topics: Mapping[str, Mapping[int, int] | None]) -> None:
        """What the last process had still to drop: by topic, the bounds by partition.

        None: all offsets of that topic, in every shard.
        """
        for name, bounds in topics.items():
            for hosted in self._hosted_shards:
                if bounds is None:
                    hosted.gone[name] = hosted.log.log_end_offset
                elif hosted.partition in bounds:
                    hosted.gone[name] = min(bounds[hosted.partition], hosted.log.log_end_offset)

    def left(self, topic: str) -> dict[int, int]:
        """The shards that have still to drop offsets of a topic: partition to bound."""
        return {
            hosted.partition: hosted.gone[topic]
            for hosted in self._hosted_shards
            if topic in hosted.gone
        }

    async def drop(self, topics: Iterable[str], slices: Slices) -> None:
        """Drops the offsets of topics for which nobody can commit; returns when it is done.

        Shards that do not serve now are not waited for: they do it before they serve again.
        """
        names = list(topics)
        for hosted in self._hosted_shards:
            hosted.gone.update(dict.fromkeys(names, hosted.accepted))
        waiting = []
        for hosted in self._hosted_shards:
            if slices.over:
                await slices.pause()
            if hosted.phase is Phase.ACTIVE:
                done = asyncio.get_running_loop().create_future()
                self._begin(hosted, done)
                waiting.append(done)
        slices.end()
        if waiting:
            await asyncio.wait(waiting)

    def catch_up(self, hosted: HostedShard) -> None:
        """Begins what a shard that serves has still to do."""
        if hosted.gone and hosted.phase is Phase.ACTIVE:
            self._begin(hosted, None)

    async def before_serving(self, hosted: HostedShard) -> None:
        """Does all of it in a shard that is being loaded, before the shard answers anybody.

        Raises Superseded.
        """
        if not hosted.gone:
            return
        shard = hosted.core
        self._work(hosted, partial(shard.topics_deleted, dict(hosted.gone), self._time.now()))
        while hosted.core is shard and (shard.is_sweeping or hosted.appended < hosted.accepted):
            await self._time.sleep(0)  # the turn ends, and appends what there is
            if hosted.core is shard and shard.is_sweeping:
                self._work(hosted, partial(shard.sweep, self._time.now(), ITEMS_PER_PIECE))
        if hosted.core is not shard:
            raise Superseded

    def _begin(self, hosted: HostedShard, done: asyncio.Future[None] | None) -> None:
        topics = dict(hosted.gone)
        ticket = _Dropping(self, hosted, topics, done)
        self._work(hosted, lambda: hosted.core.topics_deleted(topics, self._time.now(), ticket))
        if hosted.phase is not Phase.ACTIVE and done is not None and not done.done():
            done.set_result(None)  # a bug ended the shard before it could answer

    def answered(
        self,
        hosted: HostedShard,
        topics: Mapping[str, int],
        done: asyncio.Future[None] | None,
        error_code: int,
    ) -> None:
        """A shard's tombstones are stable, or it has failed and will be loaded again."""
        if error_code == NONE:
            for name, below in topics.items():
                if hosted.gone.get(name) == below:
                    del hosted.gone[name]
                    if not self.left(name):
                        self._on_dropped(name)
        else:
            self._time.call_later(_RETRY_S, self.catch_up, hosted)
        if done is not None and not done.done():
            done.set_result(None)
