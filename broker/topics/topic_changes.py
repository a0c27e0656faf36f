"""The interface through which handlers create topics, add partitions and delete topics.

`broker/topics/topic_admin.py` implements the interface on the disk of a standalone broker;
`broker/cluster/topics/cluster_topics.py` writes ZooKeeper's nodes, to which the controller reacts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from broker.topics.owned_topics import OwnedTopic
from broker.topics.registry import Topic

PARTITIONS_MAX = 10_000
"""The maximum number of partitions of one topic, and of all new topics of one request, as in Kafka.
"""
LEFT_TO_BROKER = -1
"""The replication factor that selects the broker's default."""

Assignment = Sequence[Sequence[int]]
"""The broker ids of each partition's replicas; the first replica is the preferred leader."""


class TopicExists(Exception):
    """Raised if the topic exists or is being created."""


class NoSuchTopic(Exception):
    """Raised if the topic does not exist or is being deleted."""


class BadFactor(ValueError):
    """Raised for a replication factor that is invalid or above the number of brokers; the text is
    Kafka's."""


class BadAssignment(ValueError):
    """Raised for an invalid assignment of replicas; the text is one sentence."""


class BeingReassigned(Exception):
    """Raised if the topic's replicas are being reassigned, so that its ZooKeeper node must not be
    written now."""


class CannotChange(Exception):
    """Raised if the change is not possible now, but may be possible later. The text contains the
    reason."""


class TopicChanges(Protocol):
    """Changes of topics. Callers first call the methods that check; these raise the other
    errors."""

    @property
    def is_controller(self) -> bool:
        """True if clients may send topic changes to this broker; in a cluster this is only the
        controller."""

    def check_new(self, name: str) -> None:
        """Raises BadTopicName or TopicExists if a topic with the name ``name`` can't be created."""

    def collisions(self, name: str) -> list[str]:
        """Returns the topics whose names in metrics would collide with the name in metrics of
        ``name``."""

    def placed(self, partitions: int, factor: int) -> Assignment:
        """Returns brokers for the replicas of a new topic. Raises BadFactor and CannotChange."""

    def check_assignment(self, assignment: Assignment) -> None:
        """Raises BadAssignment if a new topic can't have the replicas in ``assignment``."""

    def check_more(self, name: str, first: int, assignment: Assignment) -> None:
        """Raises BadAssignment if the new partitions, from the number ``first`` on, can't have
        these replicas."""

    async def create(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str],
        assignment: Assignment | None = None,
    ) -> Topic:
        """Creates a topic; if ``assignment`` is None, the topic gets the default replication
        factor.

        In a cluster the topic may not exist yet when this method returns: see `led`. Raises
        BadTopicName, TopicExists, BadValue, BadFactor, CannotChange and OSError.
        """

    async def ensure(self, name: str) -> Topic | None:
        """Returns the topic if it exists. Otherwise starts to create the topic with the defaults,
        and returns None if it does not exist yet.

        Raises the exceptions of `create`. Calls `ensure_owned` for the topic of a coordinator.
        """

    async def ensure_owned(self, owned: OwnedTopic) -> Topic | None:
        """Does the same as `ensure` for the topic of a coordinator; when a topic is returned, its
        shards exist."""

    async def add_partitions(
        self, name: str, total: int, assignment: Assignment | None = None
    ) -> Topic:
        """Increases the number of partitions of a topic to ``total``; ``assignment`` contains the
        replicas of the new partitions.

        Raises NoSuchTopic, BadFactor, BeingReassigned, CannotChange and OSError.
        """

    async def delete(self, name: str) -> Topic:
        """Deletes a topic; in a cluster this method returns before the deletion is complete: see
        `gone`.

        Raises NoSuchTopic, CannotChange and OSError.
        """

    async def led(self, topics: Mapping[str, int], timeout_ms: int) -> Collection[str]:
        """Waits until each partition of the topics has a leader; ``topics`` contains the partition
        counts.

        Returns the topics of which a partition has no leader at the timeout.
        """

    async def gone(self, names: Collection[str], timeout_ms: int) -> Collection[str]:
        """Waits until topics are deleted; returns the topics that still exist at the timeout."""


def check_factor(factor: int, brokers: int) -> None:
    """Raises BadFactor if ``factor`` is invalid or above the number of brokers."""
    if factor <= 0:
        raise BadFactor("Replication factor must be larger than 0.")
    if factor > brokers:
        raise BadFactor(
            f"Unable to replicate the partition {factor} time(s): The target replication factor of"
            f" {factor} cannot be reached because only {brokers} broker(s) are registered."
        )


def check_replicas(
    partition: int, broker_ids: Sequence[int], known: Collection[int] | None = None
) -> None:
    """Raises BadAssignment if the replicas of a partition are invalid; ``known`` contains the valid
    broker ids."""
    unknown = [each for each in broker_ids if known is not None and each not in known]
    if not broker_ids:
        problem = f"The assignment of partition {partition} has no replicas."
    elif len(set(broker_ids)) < len(broker_ids):
        problem = f"The assignment of partition {partition} has a broker twice: {broker_ids}."
    elif min(broker_ids) < 0 or unknown:
        named = unknown or [each for each in broker_ids if each < 0]
        problem = f"The assignment of partition {partition} has unknown brokers: {named}."
    else:
        return
    raise BadAssignment(problem)
