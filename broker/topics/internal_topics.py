"""Creates the internal topics of streams groups (KIP-1071): repartition topics and changelog
topics.

The group coordinator determines the topics and their partition counts. The application sends their
settings. A topic is created in the background; each heartbeat of the group repeats the attempt
until the topic exists. Source: Kafka 4.3.1
``AutoTopicCreationManager.createStreamsInternalTopics``.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

import structlog

from broker.topics.registry import Registry
from broker.topics.topic_changes import (
    LEFT_TO_BROKER,
    PARTITIONS_MAX,
    CannotChange,
    TopicChanges,
    TopicExists,
)
from offsets.streams_records import InternalTopic

logger = structlog.get_logger(__name__)

_FAULTS_KEPT = 1000
"""The maximum number of topics whose last creation error is kept."""


class InternalTopics:
    """The creation of internal topics on one broker."""

    def __init__(
        self,
        registry: Registry,
        topics: TopicChanges,
        default_factor: Callable[[], int],
        spawn: Callable[[Coroutine[Any, Any, None], str], object],
    ) -> None:
        self._registry = registry
        self._topics = topics
        self._default_factor = default_factor
        self._spawn = spawn
        self._pending: set[str] = set()
        self._faults: dict[str, str] = {}
        """The reason why the last attempt to create a topic failed, by topic name."""

    def create(self, topics: Iterable[InternalTopic]) -> None:
        """Begins to create those of ``topics`` that do not exist."""
        wanted = [
            topic
            for topic in topics
            if topic.name not in self._pending and self._registry.topic(topic.name) is None
        ]
        partitions = sum(topic.partitions for topic in wanted)
        if partitions > PARTITIONS_MAX:  # as in CreateTopics
            reason = f"at most {PARTITIONS_MAX} partitions can be created at once, not {partitions}"
            for topic in wanted:
                self._failed(topic.name, reason)
        elif wanted:
            self._pending.update(topic.name for topic in wanted)
            self._spawn(self._create_all(wanted), "internal topics")

    def faults(self, topics: Iterable[InternalTopic]) -> dict[str, str]:
        """Returns the reason of each failed creation, by topic name. Omits those of ``topics``
        whose last creation did not fail."""
        names = [topic.name for topic in topics]
        return {name: self._faults[name] for name in names if name in self._faults}

    async def _create_all(self, topics: Sequence[InternalTopic]) -> None:
        try:
            for topic in topics:
                try:
                    await self._create(topic)
                    self._faults.pop(topic.name, None)
                except TopicExists:
                    self._faults.pop(topic.name, None)
                except (ValueError, CannotChange, OSError) as error:
                    self._failed(topic.name, str(error))
                self._pending.discard(topic.name)
        finally:
            self._pending.difference_update(topic.name for topic in topics)

    async def _create(self, topic: InternalTopic) -> None:
        name, count = topic.name, topic.partitions
        self._topics.check_new(name)
        same = self._topics.collisions(name)
        if same:
            raise CannotChange(f"Topic '{name}' collides with existing topic: {', '.join(same)}")
        factor = topic.replication_factor
        if factor in (0, LEFT_TO_BROKER):
            factor = self._default_factor()
        assignment = self._topics.placed(count, factor)
        await self._topics.create(name, count, dict(topic.configs), assignment)

    def _failed(self, name: str, reason: str) -> None:
        if self._faults.get(name) != reason:
            logger.warning("internal topic can't be created", topic=name, error=reason)
        self._faults.pop(name, None)
        while len(self._faults) >= _FAULTS_KEPT:
            del self._faults[next(iter(self._faults))]
        self._faults[name] = reason
