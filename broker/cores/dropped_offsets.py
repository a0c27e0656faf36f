"""Committed offsets of deleted topics: every shard drops them, now or before it serves again.

A topic's entry in the registry outlives its offsets: whatever ends the process, the next one knows
which shards had still to drop them. A topic made anew under the name loses none of its own, since
each shard drops only what lies below a bound in its log: the end of that log when nobody could
commit for the name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from broker.cores.shard_log import Phase, ShardLog
from broker.loop.slices import Slices
from broker.time import Time
from coordinator.outcome import Outcome
from protocol.errors import NONE

ITEMS_PER_PIECE = 100
"""See `GroupShard.expire`: some 4 ms."""
_RETRY_S = 1.0


class Superseded(Exception):
    """The shard that was being loaded is not its host's any more: it is loaded again elsewhere."""


@dataclass(slots=True, eq=False)
class _Dropping:
    """The ticket of one shard's tombstones."""

    dropped_offsets: DroppedOffsets
    host: ShardLog
    topics: Mapping[str, int]
    done: asyncio.Future[None] | None

    def take(self, error_code: int) -> None:
        """See `Ticket`."""
        self.dropped_offsets.answered(self.host, self.topics, self.done, error_code)


class DroppedOffsets:
    """What the shards of one broker have still to drop; `ShardLog.gone` has it host by host.

    ``work`` takes the outcome of what a shard does by itself.
    """

    def __init__(
        self,
        hosts: Sequence[ShardLog],
        time: Time,
        work: Callable[[ShardLog, Callable[[], Outcome]], None],
    ) -> None:
        self.on_dropped: Callable[[str], None] = lambda topic: None  # noqa: ARG005
        """Told of a topic of which no shard has anything left."""
        self._hosts = hosts
        self._time = time
        self._work = work

    def resume(self, topics: Mapping[str, Mapping[int, int] | None]) -> None:
        """What the process before had still to drop: by topic, the bounds by partition.

        None: all offsets of that topic, in every shard.
        """
        for name, bounds in topics.items():
            for host in self._hosts:
                if bounds is None:
                    host.gone[name] = host.log.log_end_offset
                elif host.partition in bounds:
                    host.gone[name] = min(bounds[host.partition], host.log.log_end_offset)

    def left(self, topic: str) -> dict[int, int]:
        """The shards that have still to drop offsets of a topic: partition to bound."""
        return {host.partition: host.gone[topic] for host in self._hosts if topic in host.gone}

    async def drop(self, topics: Iterable[str], slices: Slices) -> None:
        """Drops the offsets of topics for which nobody can commit; returns when it is done.

        Shards that do not serve now are not waited for: they do it before they serve again.
        """
        names = list(topics)
        for host in self._hosts:
            host.gone.update(dict.fromkeys(names, host.accepted))
        waiting = []
        for host in self._hosts:
            if slices.over:
                await slices.pause()
            if host.phase is Phase.ACTIVE:
                done = asyncio.get_running_loop().create_future()
                self._begin(host, done)
                waiting.append(done)
        slices.end()
        if waiting:
            await asyncio.wait(waiting)

    def catch_up(self, host: ShardLog) -> None:
        """Begins what a shard that serves has still to do."""
        if host.gone and host.phase is Phase.ACTIVE:
            self._begin(host, None)

    async def before_serving(self, host: ShardLog) -> None:
        """Does all of it in a shard that is being loaded, before anybody is answered by it.

        Raises Superseded.
        """
        if not host.gone:
            return
        shard = host.shard
        self._work(host, partial(shard.topics_deleted, dict(host.gone), self._time.now()))
        while host.shard is shard and (shard.is_sweeping or host.appended < host.accepted):
            await asyncio.sleep(0)  # the turn ends, and appends what there is
            if host.shard is shard and shard.is_sweeping:
                self._work(host, partial(shard.sweep, self._time.now(), ITEMS_PER_PIECE))
        if host.shard is not shard:
            raise Superseded

    def _begin(self, host: ShardLog, done: asyncio.Future[None] | None) -> None:
        topics = dict(host.gone)
        ticket = _Dropping(self, host, topics, done)
        self._work(host, lambda: host.shard.topics_deleted(topics, self._time.now(), ticket))
        if host.phase is not Phase.ACTIVE and done is not None and not done.done():
            done.set_result(None)  # a bug ended the shard before it could answer

    def answered(
        self,
        host: ShardLog,
        topics: Mapping[str, int],
        done: asyncio.Future[None] | None,
        error_code: int,
    ) -> None:
        """A shard's tombstones are stable, or it has failed and will be loaded again."""
        if error_code == NONE:
            for name, below in topics.items():
                if host.gone.get(name) == below:
                    del host.gone[name]
                    if not self.left(name):
                        self.on_dropped(name)
        else:
            asyncio.get_running_loop().call_later(_RETRY_S, self.catch_up, host)
        if done is not None and not done.done():
            done.set_result(None)
