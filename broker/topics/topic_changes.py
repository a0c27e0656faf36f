"""The interface by which handlers create, grow and delete topics.

`TopicChanges` is the interface. `broker/topics/topic_admin.py` does it on this broker's disk,
`broker/cluster/topics/cluster_topics.py` writes ZooKeeper's nodes, which the controller follows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from broker.topics.owned_topics import OwnedTopic
from broker.topics.registry import Topic

PARTITIONS_MAX = 10_000
"""Partitions of one topic, and of all topics of one request, as in Kafka; each is a directory."""
LEFT_TO_BROKER = -1
"""In place of a replication factor: the broker's default."""

Assignment = Sequence[Sequence[int]]
"""By partition the ids of the brokers that have its replicas; the first is preferred as leader."""


class TopicExists(Exception):
    """The topic is there already, or is being made."""


class NoSuchTopic(Exception):
    """The topic is not there, or is being deleted."""


class BadFactor(ValueError):
    """There are not so many brokers, or the number makes no sense; the text is Kafka's."""


class BadAssignment(ValueError):
    """Replicas that were named can't be had; the text is one sentence."""


class BeingReassigned(Exception):
    """The replicas of the topic are moving: its node must not be written by another."""


class CannotChange(Exception):
    """The change is not possible now, but may be later. The text has the reason."""


class TopicChanges(Protocol):
    """See the module. Whatever is not said to be raised has been checked before."""

    @property
    def is_controller(self) -> bool:
        """Whether clients may have this broker change topics: in a cluster the controller alone."""

    def check_new(self, name: str) -> None:
        """Raises BadTopicName or TopicExists where ``name`` cannot be created."""

    def collisions(self, name: str) -> list[str]:
        """Topics whose names metrics would mix up with ``name``."""

    def placed(self, partitions: int, factor: int) -> Assignment:
        """Brokers for the replicas of a new topic. Raises BadFactor, CannotChange."""

    def check_assignment(self, assignment: Assignment) -> None:
        """Raises BadAssignment where a new topic can't have these replicas."""

    def check_more(self, name: str, first: int, assignment: Assignment) -> None:
        """Raises BadAssignment where partitions from ``first`` on can't have these replicas."""

    async def create(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str],
        assignment: Assignment | None = None,
    ) -> Topic:
        """Makes a topic; without an ``assignment`` with the default factor.

        In a cluster it is not there yet when this returns: see `led`. Raises BadTopicName,
        TopicExists, BadValue, BadFactor, CannotChange, OSError.
        """

    async def ensure(self, name: str) -> Topic | None:
        """The topic, made with the defaults if it is not there; None while it is being made.

        Raises like `create`; the topic of a coordinator is made as `ensure_owned` does.
        """

    async def ensure_owned(self, owned: OwnedTopic) -> Topic | None:
        """A coordinator's topic, like `ensure`; its shards serve when it is returned."""

    async def add_partitions(
        self, name: str, total: int, assignment: Assignment | None = None
    ) -> Topic:
        """Grows a topic to ``total`` partitions; ``assignment`` is that of the new ones.

        Raises NoSuchTopic, BadFactor, BeingReassigned, CannotChange, OSError.
        """

    async def delete(self, name: str) -> Topic:
        """Deletes a topic; in a cluster it goes later: see `gone`.

        Raises NoSuchTopic, CannotChange, OSError.
        """

    async def led(self, topics: Mapping[str, int], timeout_ms: int) -> Collection[str]:
        """Waits until each of the partitions (their number by topic) has a leader.

        Returns the topics of which some has none in time.
        """

    async def gone(self, names: Collection[str], timeout_ms: int) -> Collection[str]:
        """Waits until topics are gone. Returns those that are not in time."""


def check_factor(factor: int, brokers: int) -> None:
    """Raises BadFactor where so many brokers can't have so many replicas."""
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
    """Raises BadAssignment for replicas that a partition can't have, of these brokers or any."""
    unknown = [each for each in broker_ids if known is not None and each not in known]
    if not broker_ids:
        problem = f"Partition {partition} has no replicas."
    elif len(set(broker_ids)) < len(broker_ids):
        problem = f"Partition {partition} names a broker twice: {broker_ids}."
    elif min(broker_ids) < 0 or unknown:
        named = unknown or [each for each in broker_ids if each < 0]
        problem = f"Partition {partition} names unknown brokers: {named}."
    else:
        return
    raise BadAssignment(problem)
