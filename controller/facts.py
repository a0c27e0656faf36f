"""Facts: the state of ZooKeeper, results of writes, replies of brokers, and the passing of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from controller.requests import Send
from controller.values import BrokerFact, LeaderAndIsr, Replicas, TopicFact, TopicPartition


@dataclass(slots=True, frozen=True)
class BrokersSeen:
    """All registered brokers, after a registration began, ended or changed its data."""

    brokers: Sequence[BrokerFact]
    registrations: int = -1
    """The version of `/brokers/ids` before this read, with which the host fences writes."""


@dataclass(slots=True, frozen=True)
class TopicsSeen:
    """The names of all topics, after a change of the children of `/brokers/topics`."""

    names: Sequence[str]


@dataclass(slots=True, frozen=True)
class TopicSeen:
    """The node of a topic, as the result of `ReadTopic` and after each change of its data.

    ``spare_id`` is for a topic whose node has no id. It is the id by which this broker already
    knows the topic, because an old tool may have dropped the id from the node. For an unknown topic
    it is a random id.
    """

    topic: TopicFact
    spare_id: bytes


@dataclass(slots=True, frozen=True)
class TopicGone:
    """A result of `ReadTopic`: the node of the topic does not exist."""

    name: str


@dataclass(slots=True, frozen=True)
class StatesRead:
    """The state nodes of partitions, as the result of `ReadStates`; None for a node that does not
    exist."""

    states: Sequence[tuple[TopicPartition, LeaderAndIsr | None]]


@dataclass(slots=True, frozen=True)
class DeletionsSeen:
    """The children of `/admin/delete_topics`."""

    names: Sequence[str]


@dataclass(slots=True, frozen=True)
class ReassignmentsSeen:
    """The content of `/admin/reassign_partitions` after the node was created; empty if the node
    does not exist."""

    targets: Mapping[TopicPartition, Replicas]


@dataclass(slots=True, frozen=True)
class PreferredSeen:
    """The content of `/admin/preferred_replica_election`, if the node exists; the controller then
    deletes the node."""

    partitions: Sequence[TopicPartition]


@dataclass(slots=True, frozen=True)
class IsrNotified:
    """Nodes of `/isr_change_notification`, and the partitions that they name."""

    paths: Sequence[str]
    partitions: Sequence[TopicPartition]


@dataclass(slots=True, frozen=True)
class LogDirsNotified:
    """Nodes of `/log_dir_event_notification`, and the brokers that they name."""

    paths: Sequence[str]
    broker_ids: Sequence[int]


@dataclass(slots=True, frozen=True)
class UncleanSeen:
    """The value of `unclean.leader.election.enable` of a topic, or of the whole cluster if the name
    is empty. None means that the topic does not have the setting. This fact is also the result of
    `ReadUnclean`."""

    topic: str
    allowed: bool | None


@dataclass(slots=True, frozen=True)
class ProducerIdsUnknown:
    """`/latest_producer_id_block` can't be read, so the allocated producer ids are unknown."""


@dataclass(slots=True, frozen=True)
class ProducerIdsRead:
    """The content of `/latest_producer_id_block`: the last allocated id, and the version of the
    node. -1 and -1 mean that the node does not exist; -1 and a version mean that the node is empty.
    """

    block_end: int
    znode_version: int


class Result(Enum):
    """The result of a write."""

    OK = "ok"
    BAD_VERSION = "bad version"
    """The node has another version than expected."""
    NODE_EXISTS = "node exists"
    NO_NODE = "no node"
    FENCED = "fenced"
    """`/controller_epoch` has another version: this broker is no longer the controller."""
    OUTDATED = "outdated"
    """The state was not written, because a broker has registered that is unknown to this
    controller."""
    FAILED = "failed"
    """Another error; it is unknown whether the write was done."""


class WriteResult(NamedTuple):
    """The result of one write."""

    ticket: int
    """The ticket of the write."""
    result: Result
    version: int = -1
    """The new version of the node if the result is OK."""


@dataclass(slots=True, frozen=True)
class Written:
    """Results of writes."""

    results: Sequence[WriteResult]


@dataclass(slots=True, frozen=True)
class Answered:
    """A broker responded to a request. ``error`` is the error of the whole response. ``partitions``
    has the partition errors of LeaderAndIsr and StopReplica, and is empty for other requests."""

    request: Send
    error: int
    partitions: Mapping[TopicPartition, int]


@dataclass(slots=True, frozen=True)
class Ready:
    """The host has read all facts of the election: the controller begins to act."""


@dataclass(slots=True, frozen=True)
class Resigned:
    """This broker is no longer the controller, or its session is lost, so that it can't know
    whether it is."""


@dataclass(slots=True, frozen=True)
class Tick:
    """The time that `next_deadline` returned has passed."""


Fact = (
    BrokersSeen
    | TopicsSeen
    | TopicSeen
    | TopicGone
    | StatesRead
    | DeletionsSeen
    | ReassignmentsSeen
    | PreferredSeen
    | IsrNotified
    | LogDirsNotified
    | UncleanSeen
    | ProducerIdsRead
    | ProducerIdsUnknown
    | Written
    | Answered
    | Ready
    | Resigned
    | Tick
)
