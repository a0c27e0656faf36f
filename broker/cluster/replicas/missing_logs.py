"""Starts replicas that could not start when the controller assigned a role to them, for example
because the disk was full.

A replica can't start if its log could not be created, or if its new leader epoch could not be
written to the log. This broker then answers LeaderAndIsr with KAFKA_STORAGE_ERROR, and the
controller treats the replica as offline. Kafka's controller sends LeaderAndIsr again after a
restart of this broker, or after a log directory notification in ZooKeeper that names this broker.
This module writes such a notification as soon as the log exists or accepts writes again.
"""

from __future__ import annotations

from asyncio import Lock
from collections.abc import Awaitable, Callable, Iterable, Mapping

import structlog

from broker.cluster.metadata_cache import MetadataCache
from broker.topics.registry import BadDirectory, Topic
from broker.topics.replica_logs import ReplicaLogs
from protocol.schema import ZERO_UUID

logger = structlog.get_logger(__name__)

AGAIN_S = 2.0
"""The delay in seconds after the first failed attempt to create a log. The delay doubles after each
further failure."""
AGAIN_S_MAX = 64.0


class MissingLogs:
    """The replicas that could not start. Only the event loop's thread may use this class. A method
    that changes this object first acquires the lock for changes of replicas."""

    def __init__(
        self,
        node_id: int,
        logs: ReplicaLogs,
        cache: MetadataCache,
        configs: Callable[[str], Awaitable[Mapping[str, str]]],
        changing: Lock,
        notify: Callable[[], Awaitable[None]],
    ) -> None:
        """``configs`` reads a topic's own settings. ``changing`` is the lock for changes of
        replicas. After a call of ``notify``, the controller sends LeaderAndIsr for all replicas of
        this broker again."""
        self._node_id = node_id
        self._logs = logs
        self._cache = cache
        self._configs = configs
        self._changing = changing
        self._notify = notify
        self._missing: dict[str, tuple[bytes | None, set[int], str]] = {}
        """By topic: the topic id, the partitions whose logs could not be created, and the last
        error."""
        self._ailing: set[tuple[str, int]] = set()
        """The replicas that can't become leader because their logs accept no writes."""
        self.pause_s = AGAIN_S
        """The delay in seconds before the next call of `make_again`."""

    @property
    def is_needed(self) -> bool:
        """True if any replica could not start."""
        return bool(self._missing or self._ailing)

    async def make(self, name: str, topic_id: bytes | None, wanted: Iterable[int]) -> None:
        """Creates the missing logs of a topic. Logs that can't be created are remembered for
        another attempt."""
        missing = [each for each in wanted if self._logs.get(name, each) is None]
        known = self._logs.topic(name)
        if not missing or (known is not None and differ(known.topic_id, topic_id)):
            return
        try:
            await self._make(name, topic_id, missing)
        except (OSError, BadDirectory) as error:
            before, indexes, _ = self._missing.get(name, (topic_id, set(), ""))
            all_missing = {*missing, *(indexes if before == topic_id else ())}
            self._missing[name] = (topic_id, all_missing, str(error))
            self.pause_s = AGAIN_S
            logger.error(
                "replica logs can't be created, retrying",
                topic=name,
                partitions=missing,
                error=str(error),
            )

    async def _make(self, name: str, topic_id: bytes | None, missing: list[int]) -> None:
        """Creates the missing logs of a topic. Raises OSError and BadDirectory."""
        known = self._logs.topic(name)
        shown = self._cache.topics.get(name)
        count = max(
            max(missing) + 1,
            0 if known is None else known.partitions,
            0 if shown is None else max(shown.partitions, default=-1) + 1,
        )
        if known is None:
            configs = await self._configs(name)
            known = Topic(name, topic_id or ZERO_UUID, count, configs)
        await self._logs.make(known.with_partitions(count), missing)

    def why_missing(self, name: str, index: int) -> str | None:
        """Returns the reason why the log of a replica could not be created; None if its creation
        has not failed."""
        _, indexes, why = self._missing.get(name, (None, (), ""))
        return why if index in indexes else None

    def could_not_lead(self, name: str, index: int) -> None:
        """Remembers that a replica can't become leader because its log accepts no writes.
        `make_again` checks the log again."""
        self._ailing.add((name, index))
        self.pause_s = AGAIN_S

    def forget(self, name: str, index: int) -> None:
        """Removes a partition that the controller has removed from this broker."""
        if name in self._missing:
            self._missing[name][1].discard(index)

    async def make_again(self) -> None:
        """Tries again to create the missing logs. If at least one replica can now become leader or
        follower, requests that the controller sends LeaderAndIsr for these replicas again."""
        if not self.is_needed:
            return
        async with self._changing:
            begin = self._recovered()
            for name in [*self._missing]:
                begin += await self._try(name)
        self.pause_s = min(2 * self.pause_s, AGAIN_S_MAX) if self.is_needed else AGAIN_S
        if begin:
            await self._notify()

    def _recovered(self) -> int:
        """Removes replicas from the set of failed replicas when their logs accept writes again.
        Returns the number of removed replicas."""
        found = {place: self._logs.get(*place) for place in self._ailing}
        self._ailing = {
            place
            for place, replica in found.items()
            if replica is not None and replica.log.poisoned is not None
        }
        return sum(
            replica is not None and place not in self._ailing for place, replica in found.items()
        )

    async def _try(self, name: str) -> int:
        """Tries to create the missing logs of a topic. Returns the number of created logs."""
        topic_id, indexes, _ = self._missing[name]
        missing = [each for each in sorted(indexes) if self._is_wanted(name, topic_id, each)]
        try:
            if missing:
                await self._make(name, topic_id, missing)
        except (OSError, BadDirectory):
            return 0  # the first failure was logged
        del self._missing[name]
        if missing:
            logger.info("replica logs created after a retry", topic=name, partitions=missing)
        return len(missing)

    def _is_wanted(self, name: str, topic_id: bytes | None, index: int) -> bool:
        """Returns True if the partition has no log, and is still assigned to this broker in a topic
        with the same id."""
        shown = self._cache.topics.get(name)
        known = self._logs.topic(name)
        ids = (None if shown is None else shown.topic_id, None if known is None else known.topic_id)
        partition = self._cache.partition(name, index)
        return (
            self._logs.get(name, index) is None
            and partition is not None
            and self._node_id in partition.replicas
            and not any(each is not None and differ(each, topic_id) for each in ids)
        )


def differ(known: bytes, reported: bytes | None) -> bool:
    """Returns True if the topic ids differ; False if either id is unknown."""
    return reported is not None and known not in (ZERO_UUID, reported)
