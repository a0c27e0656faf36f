"""Brokers, topics and partitions as values."""

from __future__ import annotations

from typing import Any, NamedTuple

from protocol.znodes.brokers import Endpoint

NO_LEADER = -1
LEADER_OF_DELETED = -2
"""The leader that UpdateMetadata contains for a partition that is being deleted."""
NO_CONTROLLER_EPOCH = 0

TopicPartition = tuple[str, int]
Replicas = tuple[int, ...]


class BrokerFact(NamedTuple):
    """A registered broker, with the content of `/brokers/ids/<id>`."""

    broker_id: int
    epoch: int
    """The broker epoch: the czxid of the broker's znode. It rises with every registration."""
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    features: tuple[tuple[str, int, int], ...] = ()
    """The name, lowest version and highest version of each feature."""


class Assignment(NamedTuple):
    """The replicas of a partition, and the reassignment in progress.

    ``replicas`` is the list of all replicas, with the target replicas first. The target is
    ``replicas`` without ``removing``. The origin is ``replicas`` without ``adding``.
    """

    replicas: Replicas
    adding: Replicas = ()
    removing: Replicas = ()

    @property
    def target(self) -> Replicas:
        return tuple(each for each in self.replicas if each not in self.removing)

    @property
    def origin(self) -> Replicas:
        return tuple(each for each in self.replicas if each not in self.adding)

    def reassigned_to(self, target: Replicas) -> Assignment:
        """Returns the assignment during a reassignment from the original replicas (`origin`) to
        ``target``. It contains the replicas to add and the replicas to remove. Both are empty if
        ``target`` equals `origin`."""
        origin = self.origin
        whole = (*target, *(each for each in origin if each not in target))
        return Assignment(
            whole,
            tuple(each for each in whole if each not in origin),
            tuple(each for each in whole if each not in target),
        )


class TopicFact(NamedTuple):
    """A topic, with the content of `/brokers/topics/<name>`."""

    name: str
    topic_id: bytes | None
    """The topic id; None if the znode has no topic id."""
    partitions: dict[int, Assignment]
    znode_version: int
    created: int = 0
    """The czxid of the znode. A different czxid means another topic with the same name."""
    unknown: Any = None
    """The fields of the znode that the codec does not know. `RewriteTopic` writes them back."""


class LeaderAndIsr(NamedTuple):
    """The content of a partition's state znode."""

    leader: int
    leader_epoch: int
    isr: Replicas
    controller_epoch: int
    recovering: bool = False
    partition_epoch: int = 0
    """The version of the state znode. If the state is not written yet, this is the version that the
    znode must have when the state is written."""
    written: int = 0
    """The mzxid of the znode: the ZooKeeper transaction that wrote the state. Set only in a state
    that was read."""

    def says_as(self, other: LeaderAndIsr) -> bool:
        """Returns True if ``other`` differs from this state at most in the znode's version."""
        return self[:5] == other[:5]
