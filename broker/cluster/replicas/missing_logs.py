"""Replicas that could not begin, as on a full disk: they do as soon as that works.

The log of one could not be made, or one that was to lead could not write its leader epoch down. The
controller has heard KAFKA_STORAGE_ERROR of it, and gives it no role until this broker answers
otherwise. It asks again when a notice of a changed directory names the broker, as Kafka's does:
that is left when the log is there, or takes writes. A restart of the broker does the same.
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
"""How soon it is tried again; twice as long after each failure."""
AGAIN_S_MAX = 64.0


class MissingLogs:
    """See the module; use from the event loop's thread alone, one change of replicas at a time."""

    def __init__(
        self,
        node_id: int,
        logs: ReplicaLogs,
        cache: MetadataCache,
        configs: Callable[[str], Awaitable[Mapping[str, str]]],
        changing: Lock,
        notify: Callable[[], Awaitable[None]],
    ) -> None:
        """``configs`` reads a topic's own settings; ``changing`` is held by who changes replicas;
        ``notify`` has the controller ask for all replicas of this broker."""
        self._node_id = node_id
        self._logs = logs
        self._cache = cache
        self._configs = configs
        self._changing = changing
        self._notify = notify
        self._missing: dict[str, tuple[bytes | None, set[int], str]] = {}
        """By topic: its id, the partitions whose logs could not be created, and the last error."""
        self._ailing: set[tuple[str, int]] = set()
        """Replicas that were to lead, and whose logs accept no writes."""
        self.pause_s = AGAIN_S
        """Until the next attempt."""

    @property
    def is_needed(self) -> bool:
        """Whether any replica could not begin."""
        return bool(self._missing or self._ailing)

    async def make(self, name: str, topic_id: bytes | None, wanted: Iterable[int]) -> None:
        """Makes the logs of a topic that are missing. One that can't be made stays missing."""
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
        """Raises OSError and BadDirectory."""
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
        """Why the log of a replica could not be made, None where it is not missing."""
        _, indexes, why = self._missing.get(name, (None, (), ""))
        return why if index in indexes else None

    def could_not_lead(self, name: str, index: int) -> None:
        """A replica that is here was to lead, and its log takes no writes."""
        self._ailing.add((name, index))
        self.pause_s = AGAIN_S

    def forget(self, name: str, index: int) -> None:
        """A replica is to be here no more."""
        if name in self._missing:
            self._missing[name][1].discard(index)

    async def make_again(self) -> None:
        """Creates missing logs, and has the controller send the roles of those that can begin."""
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
        """How many logs take writes again. A log does so by itself, or never."""
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
        """How many logs of a topic were made."""
        topic_id, indexes, _ = self._missing[name]
        missing = [each for each in sorted(indexes) if self._is_wanted(name, topic_id, each)]
        try:
            if missing:
                await self._make(name, topic_id, missing)
        except (OSError, BadDirectory):
            return 0  # it was logged at the first failure
        del self._missing[name]
        if missing:
            logger.info("replica logs created after a retry", topic=name, partitions=missing)
        return len(missing)

    def _is_wanted(self, name: str, topic_id: bytes | None, index: int) -> bool:
        """Whether a replica that is missing is still to be here, and of this topic."""
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


def differ(known: bytes, told: bytes | None) -> bool:
    """Whether two ids say that a topic is another one; where one has none they do not."""
    return told is not None and known not in (ZERO_UUID, told)
