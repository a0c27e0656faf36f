"""The interface through which handlers create topics, add partitions and delete topics. On a
standalone broker, `broker/topics/topic_admin.py` implements it on the disk. In a cluster,
`broker/cluster/topics/cluster_topics.py` implements it: it writes ZooKeeper's nodes, and the
controller reacts to them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from broker.topics.owned_topics import OwnedTopic
from broker.topics.registry import Topic

PARTITIONS_MAX = 10_000
"""The maximum number of partitions of one topic. As in Kafka, it is also the maximum for all new
topics of one request together."""
LEFT_TO_BROKER = -1
"""The replication factor in a request that means the broker's default."""

Assignment = Sequence[Sequence[int]]
"""The broker ids of the replicas of each partition. The first replica is the preferred leader."""


class TopicExists(Exception):
    """Raised if the topic exists or is being created."""


class NoSuchTopic(Exception):
    """Raised if the topic does not exist or is being deleted."""


class BadFactor(ValueError):
    """Raised if a replication factor is invalid or exceeds the number of brokers. The text is
    Kafka's."""


class BadAssignment(ValueError):
    """Raised for an invalid replica assignment. The text is one sentence."""


class BeingReassigned(Exception):
    """Raised if the topic's replicas are being reassigned, so that its ZooKeeper node must not be
    written."""


class CannotChange(Exception):
    """Raised if a change is not possible now but may be possible later. The text contains the
    reason."""


class TopicChanges(Protocol):
    """Changes of topics. Before a change, callers must call the ``check_`` method for this change:
    only the ``check_`` methods raise the errors about invalid changes."""

    @property
    def is_controller(self) -> bool:
        """True if clients may send topic changes to this broker. In a cluster, only the controller
        accepts them."""

    def check_new(self, name: str) -> None:
        """Raises BadTopicName or TopicExists if a topic named ``name`` can't be created."""

    def collisions(self, name: str) -> list[str]:
        """Returns the topics whose metrics would have the same name as the metrics of a topic
        ``name``."""

    def placed(self, partitions: int, factor: int) -> Assignment:
        """Returns the brokers for the replicas of a new topic. Raises BadFactor and
        CannotChange."""

    def check_assignment(self, assignment: Assignment) -> None:
        """Raises BadAssignment if a new topic can't have the replica assignment ``assignment``."""

    def check_more(self, name: str, first: int, assignment: Assignment) -> None:
        """Raises BadAssignment if new partitions can't have the replica assignment ``assignment``.
        The first new partition has the number ``first``."""

    async def create(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str],
        assignment: Assignment | None = None,
    ) -> Topic:
        """Creates a topic. If ``assignment`` is None, the topic gets the default replication
        factor.

        In a cluster the topic may not exist yet when this method returns: see `led`. Raises
        BadTopicName, TopicExists, BadValue, BadFactor, CannotChange and OSError.
        """

    async def ensure(self, name: str) -> Topic | None:
        """Returns the topic if it exists. Otherwise begins to create it with default settings, and
        returns None if the creation is not complete yet. Calls `ensure_owned` for the topic of a
        coordinator. Raises the exceptions of `create`."""

    async def ensure_owned(self, owned: OwnedTopic) -> Topic | None:
        """Does the same as `ensure` for the topic of a coordinator. Returns the topic only if the
        coordinator's shards already exist."""

    async def add_partitions(
        self, name: str, total: int, assignment: Assignment | None = None
    ) -> Topic:
        """Increases the number of partitions of a topic to ``total``. ``assignment`` contains the
        replicas of the new partitions. Raises NoSuchTopic, BadFactor, BeingReassigned, CannotChange
        and OSError."""

    async def delete(self, name: str) -> Topic:
        """Deletes a topic. In a cluster this method returns before the deletion is complete: see
        `gone`. Raises NoSuchTopic, CannotChange and OSError."""

    async def led(self, topics: Mapping[str, int], timeout_ms: int) -> Collection[str]:
        """Waits until each partition of the topics has a leader. ``topics`` maps topic names to
        partition counts. Returns the topics that still have a partition without a leader at the
        timeout."""

    async def gone(self, names: Collection[str], timeout_ms: int) -> Collection[str]:
        """Waits until the topics are deleted. Returns the topics that still exist at the
        timeout."""


def check_factor(factor: int, brokers: int) -> None:
    """Raises BadFactor if ``factor`` is invalid or exceeds the number of brokers."""
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
    """Raises BadAssignment if the replicas of a partition are invalid. ``known`` contains the valid
    broker ids; None means that all ids are valid."""
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
