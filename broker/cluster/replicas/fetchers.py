"""The fetchers of all partitions that this broker follows.

Partitions with the same leader share at most ``num.replica.fetchers`` fetchers, each with its own
connection.
"""

from __future__ import annotations

from asyncio import wait
from collections.abc import Callable, Sequence
from contextlib import suppress

from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.replicas.fetcher import Fetcher, FetcherParts, Place, Spawn
from broker.cluster.replicas.followed import Followed
from broker.cluster.replicas.replication_settings import ReplicationSettings
from broker.loop.slices import Slicer
from broker.time import Time
from broker.topics.replicas.replica import Replica
from protocol.java_hash import java_hash

_STOP_S_MAX = 2
"""The maximum time in seconds that `Fetchers.stop` waits for the tasks of fetchers to end."""


class Fetchers:
    """All fetchers of a broker. Only the event loop's thread may use this class."""

    def __init__(
        self,
        settings: ReplicationSettings,
        cache: MetadataCache,
        broker_epoch: Callable[[], int],
        time: Time,
        slicer: Slicer,
        spawn: Spawn,
    ) -> None:
        self.settings = settings
        self._time = time
        self._parts = FetcherParts(settings, cache, broker_epoch, time, slicer, spawn)
        self._fetchers: dict[tuple[int, int], Fetcher] = {}
        self._of: dict[Place, Fetcher] = {}

    def follow(self, replica: Replica) -> None:
        """Starts to fetch a partition from the leader in ``replica.state``, in the leader epoch of
        this state."""
        state = replica.state
        assert state is not None
        place = (replica.topic, replica.index)
        key = (state.leader, _fetcher_id(*place, self.settings.fetchers))
        fetcher = self._fetchers.get(key)
        if fetcher is None:
            fetcher = self._fetchers[key] = Fetcher(*key, self._parts)
        old = self._of.get(place)
        if old is not None and old is not fetcher:
            old.remove(place)
        self._of[place] = fetcher
        before = fetcher.followed.get(place)
        fetcher.add(place, Followed(replica, self.settings.spoken, fetcher.lines, before))

    def forget(self, topic: str, index: int) -> None:
        fetcher = self._of.pop((topic, index), None)
        if fetcher is not None:
            fetcher.remove((topic, index))

    def followed(self, topic: str, index: int) -> Followed | None:
        """Returns the state of a partition that this broker follows; None if the partition is not
        fetched."""
        fetcher = self._of.get((topic, index))
        return None if fetcher is None else fetcher.followed[topic, index]

    def fetcher(self, topic: str, index: int) -> Fetcher | None:
        """Returns the fetcher of a partition; None if the partition is not fetched."""
        return self._of.get((topic, index))

    @property
    def all(self) -> Sequence[Fetcher]:
        """A copy of the list of fetchers."""
        return list(self._fetchers.values())

    @property
    def count(self) -> int:
        """The number of fetchers, each of which has its own connection."""
        return len(self._fetchers)

    def close_idle(self) -> None:
        """Stops the fetchers that have no partitions left."""
        idle = [key for key, each in self._fetchers.items() if not each.followed]
        for key in idle:
            self._fetchers.pop(key).stop()

    async def stop(self) -> None:
        tasks = [each.stop() for each in self._fetchers.values()]
        self._fetchers.clear()
        self._of.clear()
        if tasks:
            with suppress(TimeoutError):
                async with self._time.within(_STOP_S_MAX):
                    await wait(tasks)


def _fetcher_id(topic: str, index: int, fetchers: int) -> int:
    number = (31 * java_hash(topic) + index) & 0xFFFFFFFF
    number -= (number & 0x80000000) << 1
    return abs(number) % fetchers
