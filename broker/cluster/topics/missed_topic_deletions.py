"""Compares the metadata cache with ZooKeeper when this broker registers. Finds topics that were
deleted while it was not registered, and topics that the controller has not sent yet.

The controller announces a deletion only to registered brokers, and only while the deletion is in
progress. To a broker that registers, it sends all existing topics. If the metadata then lacks a
topic that the broker knew before, this module checks the topic's node in ZooKeeper. It repeats the
check until the metadata has the topic or the node does not exist. This works with controllers of
any Kafka version.

A broker that starts may become coordinator before it has received all topics, because LeaderAndIsr
may precede UpdateMetadata. The coordinator of consumer groups must not treat the missing topics as
deleted. It waits for them (`MetadataCache.missing`), but at most `MISSING_S_MAX`.
"""

from __future__ import annotations

from asyncio import Task
from collections.abc import Callable, Collection, Coroutine
from contextlib import suppress
from typing import Any

import structlog

from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.zookeeper.zookeeper import Closed, SessionExpired, ZooKeeper, children_of
from broker.time import Time
from broker.topics.registry import NAMED_MAX
from protocol.znodes.topics import TOPICS

logger = structlog.get_logger(__name__)

FIRST_LOOK_S = 1.0
"""The time in seconds from a registration to the first check. The controller should have sent the
existing topics by then."""
LOOK_S_MAX = 60.0
"""The maximum pause in seconds between two checks. The pause doubles after each check, because the
metadata may lack a topic for a long time if the topic can't have a leader."""
MISSING_S_MAX = 15.0
"""The time in seconds after which consumer groups stop waiting for missing topics."""


async def expect_topics(zookeeper: ZooKeeper, cache: MetadataCache) -> None:
    """Marks all topics in ZooKeeper as missing in the metadata cache.

    This must be called before the broker registers: the controller announces topics that are
    created later.
    """
    while True:
        with suppress(SessionExpired):  # repeated in the new session
            cache.missing = set(await children_of(zookeeper, TOPICS))
            return


class MissedTopicDeletions:
    """Each time this broker registers in ZooKeeper: finds topics that were deleted before the
    registration, and topics that the controller has not sent. Only the event loop's thread may use
    this class."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        cache: MetadataCache,
        forget: Callable[[Collection[str]], None],
        time: Time,
        spawn: Callable[[Coroutine[Any, Any, None], str], Task[None]],
    ) -> None:
        """``forget`` is called with the names of topics that were deleted."""
        self._zookeeper = zookeeper
        self._cache = cache
        self._forget = forget
        self._time = time
        self._spawn = spawn
        self._looking: Task[None] | None = None

    def registered(self, _epoch: int) -> None:
        """Starts to check for topics that were deleted before this registration, and for missing
        topics."""
        self.stop()
        self._cache.doubt_all()
        if self._cache.doubted or self._cache.missing:
            self._looking = self._spawn(self._look(), "unheard deletions")

    def stop(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    async def _look(self) -> None:
        pause_s, passed_s = FIRST_LOOK_S, 0.0
        with suppress(SessionExpired, Closed):  # repeated after the next registration
            while True:
                await self._time.sleep(pause_s)
                passed_s += pause_s
                pause_s = min(2 * pause_s, LOOK_S_MAX)
                if not (self._cache.doubted or self._cache.missing):
                    return
                existing = await children_of(self._zookeeper, TOPICS)
                self._check_missing(existing, passed_s)
                gone = self._cache.doubted.difference(existing)
                if gone:
                    logger.info(
                        "topics deleted while this broker was not registered",
                        topics=sorted(gone)[:NAMED_MAX],
                        count=len(gone),
                    )
                    self._forget(gone)

    def _check_missing(self, existing: Collection[str], passed_s: float) -> None:
        """Removes from `MetadataCache.missing` the topics that do not exist any more (those not in
        ``existing``). When ``passed_s`` reaches `MISSING_S_MAX`, removes all topics, with a
        warning."""
        missing = self._cache.missing
        missing.intersection_update(existing)
        if missing and passed_s >= MISSING_S_MAX:
            logger.warning(
                "consumer groups stop waiting for topics that the controller did not send",
                topics=sorted(missing)[:NAMED_MAX],
                count=len(missing),
            )
            missing.clear()
