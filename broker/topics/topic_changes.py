"""The interface through which handlers create, grow and delete topics.

`broker/topics/topic_admin.py` implements it on a standalone broker's disk;
`broker/cluster/topics/cluster_topics.py` writes ZooKeeper's nodes, to which the controller reacts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from broker.topics.owned_topics import OwnedTopic
from broker.topics.registry import Topic

PARTITIONS_MAX = 10_000
"""The most partitions of one topic, and of all new topics of one request, as in Kafka."""
LEFT_TO_BROKER = -1
"""The replication factor that selects the broker's default."""

Assignment = Sequence[Sequence[int]]
"""The broker ids of each partition's replicas; the first is the preferred leader."""


class TopicExists(Exception):
    """The topic exists, or is being created."""


class NoSuchTopic(Exception):
    """The topic does not exist, or is being deleted."""


class BadFactor(ValueError):
    """An invalid replication factor, or one above the number of brokers; the text is Kafka's."""


class BadAssignment(ValueError):
    """An invalid assignment of replicas; the text is one sentence."""


class BeingReassigned(Exception):
    """The topic's replicas are being reassigned: its ZooKeeper node must not be written now."""


class CannotChange(Exception):
    """The change is not possible now, but may be possible later. The text has the reason."""


class TopicChanges(Protocol):
    """Changes of topics. Callers first call the checks, which raise the other errors."""

    @property
    def is_controller(self) -> bool:
        """Whether clients may send topic changes to this broker: in a cluster, the controller."""

    def check_new(self, name: str) -> None:
        """Raises BadTopicName or TopicExists if ``name`` can't be created."""

    def collisions(self, name: str) -> list[str]:
        """Returns the topics whose metric names would collide with those of ``name``."""

    def placed(self, partitions: int, factor: int) -> Assignment:
        """Chooses brokers for the replicas of a new topic. Raises BadFactor, CannotChange."""

    def check_assignment(self, assignment: Assignment) -> None:
        """Raises BadAssignment if a new topic can't have these replicas."""

    def check_more(self, name: str, first: int, assignment: Assignment) -> None:
        """Raises BadAssignment if partitions from ``first`` on can't have these replicas."""

    async def create(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str],
        assignment: Assignment | None = None,
    ) -> Topic:
        """Creates a topic; without an ``assignment``, with the default replication factor.

        In a cluster the topic may not exist yet when this returns: see `led`. Raises BadTopicName,
        TopicExists, BadValue, BadFactor, CannotChange, OSError.
        """

    async def ensure(self, name: str) -> Topic | None:
        """Returns the topic, or None until it exists; creates a missing topic with the defaults.

        Raises the exceptions of `create`. Calls `ensure_owned` for a coordinator's topic.
        """

    async def ensure_owned(self, owned: OwnedTopic) -> Topic | None:
        """Does the same as `ensure` for a coordinator's topic; a returned topic has its shards."""

    async def add_partitions(
        self, name: str, total: int, assignment: Assignment | None = None
    ) -> Topic:
        """Grows a topic to ``total`` partitions; ``assignment`` is that of the new partitions.

        Raises NoSuchTopic, BadFactor, BeingReassigned, CannotChange, OSError.
        """

    async def delete(self, name: str) -> Topic:
        """Deletes a topic; in a cluster this returns before the deletion is complete: see `gone`.

        Raises NoSuchTopic, CannotChange, OSError.
        """

    async def led(self, topics: Mapping[str, int], timeout_ms: int) -> Collection[str]:
        """Waits until each partition of the topics has a leader; ``topics`` has partition counts.

        Returns the topics that lack a leader at the timeout.
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
    """Raises BadAssignment for invalid replicas of a partition; ``known`` are the valid ids."""
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
