"""Drops the committed offsets of deleted topics in every shard. A shard that is not loaded drops
them before it serves requests again.

A topic's entry in the registry remains until its offsets are dropped. Thus, after any kind of stop,
the next process knows which shards must still drop them. A shard drops only offsets that were
committed before a bound in its log: the log end offset at a time when no client could commit for
the topic. Thus a new topic of the same name loses no offsets. It also gets no old offsets: a shard
whose log is poisoned rejects fetches of old offsets with COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from broker.cores.duties import Superseded, Work
from broker.cores.hosted_shard import HostedShard, Phase
from broker.loop.slices import Slices
from broker.time import Time
from coordinator.calls import Call, OffsetFetch
from coordinator.shard import GroupShard
from protocol.errors import NONE
from protocol.slotted import slotted

ITEMS_PER_PIECE = 100
"""The budget of one call of `GroupShard.sweep`. Such a call takes about 4 ms."""
_RETRY_S = 1.0


@slotted(eq=False)
class _Dropping:
    """The ticket under which one shard deletes the offsets of deleted topics. It gets a reply when
    the tombstones are stable."""

    dropped_offsets: DroppedOffsets
    hosted: HostedShard[GroupShard]
    topics: Mapping[str, int]
    done: asyncio.Future[None] | None

    def take(self, error_code: int) -> None:
        self.dropped_offsets.answered(self.hosted, self.topics, self.done, error_code)


class DroppedOffsets:
    """Drops the offsets of deleted topics in all shards of groups on this broker.

    A shard drops offsets in steps, and ``work`` handles the outcome of each step. When all shards
    have dropped the offsets of a topic, ``on_dropped`` is called with this topic.
    """

    def __init__(
        self,
        hosted_shards: Sequence[HostedShard[GroupShard]],
        time: Time,
        work: Work,
        on_dropped: Callable[[str], None],
    ) -> None:
        self.gone: defaultdict[int, dict[str, int]] = defaultdict(dict)
        """The offsets that must still be dropped. For each partition of `__consumer_offsets` and
        the name of each deleted topic: a log offset of this partition. The committed offsets of the
        topic must be dropped if their records are below this log offset."""
        self._hosted_shards = hosted_shards
        self._time = time
        self._work = work
        self._on_dropped = on_dropped

    def resume(self, unfinished: Mapping[str, Mapping[int, int] | None] | None) -> None:
        """Resumes the work of the previous process. ``unfinished`` has, for each deleted topic and
        each partition of `__consumer_offsets`, the log offset below which the topic's offsets must
        be dropped.

        If a topic has None in place of these log offsets, all its offsets are dropped, in every
        shard.
        """
        for name, bounds in (unfinished or {}).items():
            for hosted in self._hosted_shards:
                if bounds is None:
                    self.gone[hosted.index][name] = hosted.log.log_end_offset
                elif hosted.index in bounds:
                    self.gone[hosted.index][name] = min(
                        bounds[hosted.index], hosted.log.log_end_offset
                    )

    def restarted(self, hosted: HostedShard[GroupShard]) -> None:
        """Called when the shard is loaded again. Lowers the log offsets in ``gone`` to the log end
        offset, because the log may have lost records. Otherwise the shard would also drop new
        commits, which get the log offsets of the lost records."""
        gone, end = self.gone[hosted.index], hosted.log.log_end_offset
        self.gone[hosted.index] = {topic: min(below, end) for topic, below in gone.items()}

    def resigned(self, hosted: HostedShard[GroupShard]) -> None:
        """Forgets the offsets that the shard must still drop, because another broker now leads the
        shard's partition. The controller reports the deleted topics to this other broker too."""
        self.gone.pop(hosted.index, None)

    def left(self, topic: str) -> dict[int, int]:
        """For each shard that must still drop offsets of ``topic``, returns the log offset before
        which the shard drops them. The key is the shard's partition."""
        return {
            hosted.index: self.gone[hosted.index][topic]
            for hosted in self._hosted_shards
            if topic in self.gone[hosted.index]
        }

    async def drop(self, topics: Iterable[str], slices: Slices) -> None:
        """Drops the offsets of topics for which clients can no longer commit. Returns when the
        offsets are dropped.

        Does not wait for shards that do not serve now: they drop the offsets before they serve
        again.
        """
        names = list(topics)
        for hosted in self._hosted_shards:
            self.gone[hosted.index].update(dict.fromkeys(names, hosted.accepted))
        waiting = []
        for hosted in list(self._hosted_shards):
            if slices.over:
                await slices.pause()
            if hosted.phase is Phase.ACTIVE:
                done = asyncio.get_running_loop().create_future()
                self._begin(hosted, done)
                waiting.append(done)
        slices.end()
        if waiting:
            await asyncio.wait(waiting)

    def catch_up(self, hosted: HostedShard[GroupShard]) -> None:
        """Called when a shard begins to serve calls. Starts to drop the offsets that the shard must
        still drop."""
        if self.gone[hosted.index] and hosted.phase is Phase.ACTIVE:
            self._begin(hosted, None)

    async def before_serving(self, hosted: HostedShard[GroupShard]) -> None:
        """Drops all offsets of deleted topics that are still in a shard. Called before the shard
        serves calls that write records.

        Raises Superseded.
        """
        if not self.gone[hosted.index]:
            return
        shard, phase = hosted.core, hosted.phase

        def is_here() -> bool:
            return hosted.core is shard and hosted.phase is phase

        self._work(
            hosted,
            partial(shard.topics_deleted, dict(self.gone[hosted.index]), self._time.now()),
        )
        while is_here() and (shard.is_sweeping or hosted.appended < hosted.accepted):
            await self._time.sleep(0)  # the turn ends here, and appends the records
            if is_here() and shard.is_sweeping:
                self._work(hosted, partial(shard.sweep, self._time.now(), ITEMS_PER_PIECE))
        if not is_here():
            raise Superseded

    def holds_back(self, hosted: HostedShard[GroupShard], call: Call) -> bool:
        """Returns True if the call is an OffsetFetch that would return an offset of a deleted
        topic, whose tombstone is not written yet."""
        gone = self.gone[hosted.index]
        if not gone or not isinstance(call, OffsetFetch):
            return False
        group_id, topics = call.group_id, call.topics
        kept = hosted.core.view.offsets
        if topics is None:
            topics = [(topic, kept.partitions(group_id, topic)) for topic in kept.topics(group_id)]
        return any(
            (entry := kept.get(group_id, topic, partition)) is not None
            and entry.log_offset < gone[topic]
            for topic, partitions in topics
            if topic in gone
            for partition in partitions
        )

    def _begin(self, hosted: HostedShard[GroupShard], done: asyncio.Future[None] | None) -> None:
        topics = dict(self.gone[hosted.index])
        ticket = _Dropping(self, hosted, topics, done)
        self._work(hosted, lambda: hosted.core.topics_deleted(topics, self._time.now(), ticket))
        if hosted.phase is not Phase.ACTIVE and done is not None and not done.done():
            done.set_result(None)  # a bug unloaded the shard before it answered

    def answered(
        self,
        hosted: HostedShard[GroupShard],
        topics: Mapping[str, int],
        done: asyncio.Future[None] | None,
        error_code: int,
    ) -> None:
        """Called when the tombstones of a shard are stable or could not be written. After an error,
        the shard tries again."""
        if error_code == NONE:
            for name, below in topics.items():
                if self.gone[hosted.index].get(name) == below:
                    del self.gone[hosted.index][name]
                    if not self.left(name):
                        self._on_dropped(name)
        else:
            self._time.real.call_later(_RETRY_S, self.catch_up, hosted)
        if done is not None and not done.done():
            done.set_result(None)
