"""Offsets of logs that other brokers lead, for the lag of groups that this broker coordinates.

| this broker's replica | source of the offsets |
|---|---|
| leads, or follows in sync | the replica's own log, up to the high watermark in this replica |
| follows out of sync, or does not exist | the leader's response to ListOffsets |

Within a second after a read of a partition's offsets, this broker requests them from the leader. It
repeats the request every few seconds while reads continue. Readers do not wait: unknown offsets are
None. Only DescribeShareGroupOffsets waits for the response (`RemoteEndOffsets.read`).
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import structlog

from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.peers.fitting import Value, fitting
from broker.cluster.peers.lasting_peer import LastingPeer, PeerSettings
from broker.cluster.peers.outboxes import Outboxes
from broker.cluster.peers.peer import PeerLost
from broker.loop.background import Background
from broker.time import Time
from broker.topics.cluster_view import NO_LEADER
from broker.topics.logs import LogManager
from broker.topics.partition import Partition
from protocol.errors import NONE
from protocol.messages.list_offsets import API

logger = structlog.get_logger(__name__)

LOOK_S = 1.0
"""The interval in seconds between two checks for partitions whose offsets must be requested now."""
EVERY_MS = 5_000
"""The interval in ms between two requests for the offsets of the same partition."""
READ_S = 5.0
"""The maximum time in seconds that `RemoteEndOffsets.read` waits."""
WANTED_MS = 60_000
"""If no part of the broker has read a partition's offsets for this time in ms, they are no longer
requested."""
WANTED_MAX = 100_000
"""The maximum number of partitions whose offsets are requested. The offsets of further partitions
are unknown."""
PARTITIONS_AT_ONCE = 1_000
"""The maximum number of partitions in one request. Encoding such a request takes about 3 ms."""
TRUSTED_MS = 1_000
"""The time in ms for which the result of `RemoteEndOffsets.trusted` is cached."""

_EARLIEST, _LATEST = -2, -1
_AS_CONSUMER = -1
_FIRST_WITH_ONE_OFFSET = 1

Place = tuple[str, int]
_NONE: Mapping[int, Partition] = {}


class Ends(NamedTuple):
    """The start offset and the high watermark of a log."""

    start: int
    end: int
    asked_ms: int
    """The wall time in ms at which the offsets were requested. They are not older than this time.
    """


@dataclass(slots=True, eq=False)
class _Question:
    """A request to the leader of some partitions, for the end offsets of these partitions."""

    places: Sequence[Place]
    asked_ms: int
    over: asyncio.Future[None] | None = None
    """A future that is done when the leader has responded or the request has failed. None if no
    caller waits for the response."""

    @property
    def key(self) -> int:
        return id(self)

    @property
    def weight(self) -> int:
        return len(self.places)

    def lost(self, lost: PeerLost) -> None:
        """Implements `Item.lost`. Offsets from earlier responses stay known; the missing offsets
        are requested again later."""
        logger.debug("log end offsets not read: the leader does not answer", reason=str(lost))
        self.end()

    def end(self) -> None:
        if self.over is not None and not self.over.done():
            self.over.set_result(None)


class RemoteEndOffsets:
    """Offsets of logs that other brokers lead. Only the event loop's thread may use this class."""

    def __init__(
        self,
        cache: MetadataCache,
        logs: LogManager,
        settings: PeerSettings,
        time: Time,
        background: Background,
    ) -> None:
        self._cache = cache
        self._logs = logs
        self._node_id = settings.node_id
        self._time = time
        self._background = background
        self._wanted: dict[Place, int] = {}
        """For each partition, the monotonic time in ms at which a caller of this object last read
        the partition's offsets."""
        self._asked: dict[Place, int] = {}
        """For each partition, the monotonic time in ms at which the leader was last asked for the
        offsets."""
        self._known: dict[Place, Ends] = {}
        self._trusted: dict[str, tuple[int, Mapping[int, Partition]]] = {}
        self._outboxes: Outboxes[_Question] = Outboxes(
            "ends of logs",
            cache,
            settings,
            self._ask,
            PARTITIONS_AT_ONCE,
            time,
            background.spawn,
        )
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = self._background.every("ends of logs", lambda: LOOK_S, self._look, _failed)

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._outboxes.stop()

    # -- reads

    def topic_id(self, topic: str) -> bytes:
        """Returns the topic id. For a topic without an id, as in old clusters, returns the encoded
        name."""
        return self._cache.id_of(topic) or topic.encode()

    def trusted(self, topic: str) -> Mapping[int, Partition]:
        """Returns those replicas of a topic on this broker that lead or are in sync. The result is
        cached for `TRUSTED_MS`."""
        now_ms = self._time.now().mono_ms
        found = self._trusted.get(topic)
        if found is None or now_ms >= found[0]:
            entry = self._logs.topics.get(topic)
            here = _NONE if entry is None else entry.by_index
            replicas = {index: each for index, each in here.items() if self._is_in_sync(each)}
            found = self._trusted[topic] = (now_ms + TRUSTED_MS, replicas)
        return found[1]

    def ends(self, topic: str, partition: int) -> Ends | None:
        """Returns the offsets in the leader's last response; None before the first response.

        After this call, this broker requests the partition's offsets from the leader repeatedly,
        for `WANTED_MS`.
        """
        place = (topic, partition)
        if place in self._wanted or (
            len(self._wanted) < WANTED_MAX and self._cache.partition(*place) is not None
        ):
            self._wanted[place] = self._time.now().mono_ms
        return self._known.get(place)

    async def read(self, places: Sequence[Place]) -> None:
        """Requests the offsets of partitions now, and waits for the leaders' responses, at most for
        `READ_S`. Afterwards, `ends` returns the offsets."""
        now = self._time.now()
        by_leader: dict[int, list[Place]] = {}
        for place in places:
            self.ends(*place)
            view = self._cache.partition(*place)
            leader = NO_LEADER if view is None else view.leader
            if place in self._wanted and leader not in (NO_LEADER, self._node_id):
                self._asked[place] = now.mono_ms
                by_leader.setdefault(leader, []).append(place)
        questions = []
        for leader, led in by_leader.items():
            for first in range(0, len(led), PARTITIONS_AT_ONCE):
                over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                some = led[first : first + PARTITIONS_AT_ONCE]
                self._outboxes.put(leader, _Question(some, now.wall_ms, over))
                questions.append(over)
        with suppress(TimeoutError):
            async with self._time.within(READ_S):
                for each in questions:
                    await each

    def high_watermarks(self, topic: str) -> array[int]:
        """Returns the high watermarks of all partitions of a topic. An unknown high watermark is 0.
        Sends no requests."""
        known = self._cache.topics.get(topic)
        found = array("q", bytes(8 * (0 if known is None else max(known.partitions) + 1)))
        here = self.trusted(topic)
        for index in range(len(found)):
            each, ends = here.get(index), self._known.get((topic, index))
            if each is not None:
                found[index] = each.high_watermark
            elif ends is not None:
                found[index] = ends.end
        return found

    def _is_in_sync(self, partition: Partition) -> bool:
        view = self._cache.partition(partition.topic, partition.index)
        return view is not None and self._node_id in view.isr

    # -- requests

    async def _look(self) -> None:
        now = self._time.now()
        for place in [each for each, ms in self._wanted.items() if now.mono_ms - ms > WANTED_MS]:
            del self._wanted[place]
            self._asked.pop(place, None)
            self._known.pop(place, None)
        for topic in [each for each, (until, _) in self._trusted.items() if until < now.mono_ms]:
            del self._trusted[topic]
        due: dict[int, list[Place]] = {}
        for place in self._wanted:
            if now.mono_ms - self._asked.get(place, -EVERY_MS) >= EVERY_MS:
                view = self._cache.partition(*place)
                if view is not None and view.leader not in (NO_LEADER, self._node_id):
                    self._asked[place] = now.mono_ms
                    due.setdefault(view.leader, []).append(place)
        for leader, places in due.items():
            if not self._outboxes.queued(leader):
                for first in range(0, len(places), PARTITIONS_AT_ONCE):
                    some = places[first : first + PARTITIONS_AT_ONCE]
                    self._outboxes.put(leader, _Question(some, now.wall_ms))

    async def _ask(self, peer: LastingPeer, batch: list[_Question]) -> None:
        version = await peer.version_of(API)
        for question in batch:
            if version < _FIRST_WITH_ONE_OFFSET:
                question.end()
                continue
            starts = await _offsets(peer, version, question.places, _EARLIEST)
            ends = await _offsets(peer, version, question.places, _LATEST)
            for place in question.places:
                if place in starts and place in ends and place in self._wanted:
                    self._known[place] = Ends(starts[place], ends[place], question.asked_ms)
            question.end()


async def _offsets(
    peer: LastingPeer, version: int, places: Sequence[Place], timestamp: int
) -> dict[Place, int]:
    """Requests the offsets for a timestamp. The result omits partitions with an error. Raises
    PeerLost."""
    topics: dict[str, list[Value]] = {}
    for topic, index in places:
        entry = {"partition_index": index, "current_leader_epoch": -1, "timestamp": timestamp}
        topics.setdefault(topic, []).append(entry)
    value = {
        "replica_id": _AS_CONSUMER,
        "isolation_level": 0,
        "topics": [{"name": name, "partitions": found} for name, found in topics.items()],
    }
    answer = await peer.call(API, version, fitting(API.request, version, value))
    return {
        (topic["name"], each["partition_index"]): each["offset"]
        for topic in answer["topics"]
        for each in topic["partitions"]
        if each["error_code"] == NONE
    }


def _failed(error: Exception) -> None:
    logger.error("reading log end offsets of other leaders failed", error=repr(error))
