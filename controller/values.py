"""Brokers, topics and partitions as values."""

from __future__ import annotations

from typing import Any, NamedTuple

from protocol.znodes.brokers import Endpoint

NO_LEADER = -1
LEADER_OF_DELETED = -2
"""The leader of a partition that is being deleted, in UpdateMetadata."""
NO_CONTROLLER_EPOCH = 0

TopicPartition = tuple[str, int]
Replicas = tuple[int, ...]


class BrokerFact(NamedTuple):
    """A registered broker, with the content of `/brokers/ids/<id>`."""

    broker_id: int
    epoch: int
    """The broker epoch: the czxid of the broker's znode, which rises with every registration."""
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    features: tuple[tuple[str, int, int], ...] = ()
    """The name, lowest version and highest version of each feature."""


class Assignment(NamedTuple):
    """The replicas of a partition, and the reassignment in progress.

    ``replicas`` is the whole list, with the target replicas first. The target is ``replicas``
    without ``removing``; the origin is ``replicas`` without ``adding``.
    """

    replicas: Replicas
    adding: Replicas = ()
    removing: Replicas = ()

    @property
    def target(self) -> Replicas:
        """The replicas after the reassignment."""
        return tuple(each for each in self.replicas if each not in self.removing)

    @property
    def origin(self) -> Replicas:
        """The replicas before the reassignment."""
        return tuple(each for each in self.replicas if each not in self.adding)

    def reassigned_to(self, target: Replicas) -> Assignment:
        """The assignment of a reassignment from this assignment's origin to ``target``, which may
        be the origin itself."""
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
    """The topic id; None if the node has no id."""
    partitions: dict[int, Assignment]
    znode_version: int
    created: int = 0
    """The czxid of the node. A different czxid means another topic with the same name."""
    unknown: Any = None
    """The keys of the node that are unknown to the codec; `RewriteTopic` writes these keys back."""


class LeaderAndIsr(NamedTuple):
    """The content of a partition's state node."""

    leader: int
    leader_epoch: int
    isr: Replicas
    controller_epoch: int
    recovering: bool = False
    partition_epoch: int = 0
    """The version of the znode; in a state to write, the expected version."""
    written: int = 0
    """The ZooKeeper transaction that wrote the state (mzxid); set only in a state that was read."""

    def says_as(self, other: LeaderAndIsr) -> bool:
        """Returns whether this state and ``other`` have the same data, ignoring their versions."""
        return self[:5] == other[:5]
