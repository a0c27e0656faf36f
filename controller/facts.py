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
    """All registered brokers. The controller gets this fact after each registration, end of a
    registration, or change of a registration's data."""

    brokers: Sequence[BrokerFact]
    registrations: int = -1
    """The version of `/brokers/ids` before this read. A state is written only if the version is
    still the same."""


@dataclass(slots=True, frozen=True)
class TopicsSeen:
    """The names of all topics, after a change of the children of `/brokers/topics`."""

    names: Sequence[str]


@dataclass(slots=True, frozen=True)
class TopicSeen:
    """The znode of a topic: the result of `ReadTopic`, and of each later change of the znode's
    data.

    ``spare_id`` is the topic id to write if the znode has none. It is the id that this broker knows
    for the topic, because an old tool may have dropped the id from the znode. If the broker knows
    no id, ``spare_id`` is random.
    """

    topic: TopicFact
    spare_id: bytes


@dataclass(slots=True, frozen=True)
class TopicGone:
    """A result of `ReadTopic`: the topic's znode does not exist."""

    name: str


@dataclass(slots=True, frozen=True)
class StatesRead:
    """The result of `ReadStates`: the content of each partition's state znode, or None if the znode
    does not exist."""

    states: Sequence[tuple[TopicPartition, LeaderAndIsr | None]]


@dataclass(slots=True, frozen=True)
class DeletionsSeen:
    """The children of `/admin/delete_topics`."""

    names: Sequence[str]


@dataclass(slots=True, frozen=True)
class ReassignmentsSeen:
    """The requested reassignments: the content that `/admin/reassign_partitions` had when the
    controller read it. Empty if the znode does not exist."""

    targets: Mapping[TopicPartition, Replicas]


@dataclass(slots=True, frozen=True)
class PreferredSeen:
    """The content of `/admin/preferred_replica_election`. The controller deletes the znode
    afterwards."""

    partitions: Sequence[TopicPartition]


@dataclass(slots=True, frozen=True)
class IsrNotified:
    """The znodes below `/isr_change_notification`, and the partitions that these znodes name."""

    paths: Sequence[str]
    partitions: Sequence[TopicPartition]


@dataclass(slots=True, frozen=True)
class LogDirsNotified:
    """The znodes below `/log_dir_event_notification`, and the brokers that these znodes name."""

    paths: Sequence[str]
    broker_ids: Sequence[int]


@dataclass(slots=True, frozen=True)
class UncleanSeen:
    """The value of `unclean.leader.election.enable` of a topic, or of the whole cluster if
    ``topic`` is empty. The value is None if the topic does not have the setting. This fact is also
    the result of `ReadUnclean`."""

    topic: str
    allowed: bool | None


@dataclass(slots=True, frozen=True)
class ProducerIdsUnknown:
    """`/latest_producer_id_block` can't be read, so the allocated producer ids are unknown."""


@dataclass(slots=True, frozen=True)
class ProducerIdsRead:
    """The content of `/latest_producer_id_block`: the last allocated id, and the version of the
    znode. -1 and -1 mean that the znode does not exist; -1 and a version mean that the znode is
    empty."""

    block_end: int
    znode_version: int


class Result(Enum):
    """The result of a write to ZooKeeper."""

    OK = "ok"
    BAD_VERSION = "bad version"
    """The znode has another version than expected."""
    NODE_EXISTS = "node exists"
    NO_NODE = "no node"
    FENCED = "fenced"
    """`/controller_epoch` has another version: this broker is no longer the controller."""
    OUTDATED = "outdated"
    """The state was not written, because `/brokers/ids` has changed: when the controller computed
    the state, it did not know one of the registered brokers."""
    FAILED = "failed"
    """The write returned an error for which no other value of this Enum exists. ZooKeeper may have
    executed the write."""


class WriteResult(NamedTuple):
    """The result of one write to ZooKeeper."""

    ticket: int
    result: Result
    version: int = -1
    """The new version of the znode if the result is OK."""


@dataclass(slots=True, frozen=True)
class Written:
    """The results of one or more writes to ZooKeeper."""

    results: Sequence[WriteResult]


@dataclass(slots=True, frozen=True)
class Answered:
    """The response of a broker to a request of the controller. ``error`` is the error of the whole
    response. ``partitions`` has the partition errors of LeaderAndIsr and StopReplica, and is empty
    for other requests."""

    request: Send
    error: int
    partitions: Mapping[TopicPartition, int]


@dataclass(slots=True, frozen=True)
class Ready:
    """The host has read all facts that a new controller needs. The controller begins its work."""


@dataclass(slots=True, frozen=True)
class Resigned:
    """This broker stops being the controller: another broker is the controller, or this broker
    can't be sure, because its ZooKeeper session is lost."""


@dataclass(slots=True, frozen=True)
class Tick:
    """The time that `Controller.next_deadline` returned has been reached."""


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
