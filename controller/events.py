"""Events: facts that the controller reports once, for log lines, metrics and the journal."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from controller.states import PartitionState
from controller.values import Assignment, Replicas


class Cause(Enum):
    """The cause of a partition's new state."""

    CREATED = "created"
    OFFLINE = "leader or ISR member failed"
    UNCLEAN = "unclean leader election: no live broker in the ISR"
    SHUTDOWN = "controlled shutdown"
    PREFERRED = "preferred leader election requested"
    BALANCE = "preferred leader is in the ISR again"
    REASSIGNED = "replicas reassigned"
    ISR = "leader changed the ISR"


@dataclass(slots=True, frozen=True)
class ControllerReady:
    """The new controller has read the state of the cluster and begins its work."""

    epoch: int
    brokers: tuple[int, ...]
    topics: int
    partitions: int


@dataclass(slots=True, frozen=True)
class BrokerJoined:
    """A broker registered, for the first time or again."""

    broker_id: int
    epoch: int
    bounced: bool
    """True if the broker restarted so quickly that the controller did not notice the end of the
    broker's old registration."""


@dataclass(slots=True, frozen=True)
class BrokerLeft:
    """A broker's registration has ended."""

    broker_id: int
    epoch: int


@dataclass(slots=True, frozen=True)
class ShutdownAsked:
    """A broker requested its controlled shutdown."""

    broker_id: int


@dataclass(slots=True, frozen=True)
class LogDirsFailed:
    """A broker reported in a response that it can't access the log directories of some replicas."""

    broker_id: int
    partitions: tuple[tuple[str, int], ...]


@dataclass(slots=True, frozen=True)
class StateWritten:
    """A partition has a new leader or ISR."""

    topic: str
    partition: int
    state: PartitionState
    cause: Cause
    leader: int
    leader_before: int
    leader_epoch: int
    isr: Replicas
    isr_before: Replicas


@dataclass(slots=True, frozen=True)
class StateLost:
    """A partition's state was not written, because its znode had another version than expected. The
    controller reads the znode and decides again."""

    topic: str
    partition: int


@dataclass(slots=True, frozen=True)
class OtherController:
    """A controller with a newer epoch exists: the epoch in the state znode of a partition shows
    this."""

    topic: str
    partition: int
    epoch: int


@dataclass(slots=True, frozen=True)
class NoLeader:
    """A partition has no leader, and no replica can become leader now."""

    topic: str
    partition: int
    isr: Replicas
    replicas: Replicas


@dataclass(slots=True, frozen=True)
class TopicAdded:
    """A topic was created, or has more partitions."""

    name: str
    partitions: int


@dataclass(slots=True, frozen=True)
class DeletionQueued:
    """The deletion of a topic waits until the brokers in ``waits_for`` are registered again."""

    name: str
    waits_for: tuple[int, ...]


@dataclass(slots=True, frozen=True)
class DeletionStarted:
    """The replicas of a topic are being deleted."""

    name: str


@dataclass(slots=True, frozen=True)
class TopicRemoved:
    """A topic and its znodes are deleted."""

    name: str


@dataclass(slots=True, frozen=True)
class ReassignmentStarted:
    """The reassignment of a partition to other replicas has begun."""

    topic: str
    partition: int
    assignment: Assignment
    before: Replicas
    """The replicas before the reassignment, in their order of preference."""


@dataclass(slots=True, frozen=True)
class ReassignmentDone:
    """A reassignment was completed or cancelled. ``replicas`` are the partition's replicas
    afterwards."""

    topic: str
    partition: int
    replicas: Replicas


@dataclass(slots=True, frozen=True)
class RequestRefused:
    """A broker responded to a request of the controller with an error for the whole request."""

    broker_id: int
    request: str
    error: int


@dataclass(slots=True, frozen=True)
class ControllerResigned:
    """This broker is no longer the controller."""

    reason: str


Event = (
    ControllerReady
    | BrokerJoined
    | BrokerLeft
    | ShutdownAsked
    | LogDirsFailed
    | StateWritten
    | StateLost
    | OtherController
    | NoLeader
    | TopicAdded
    | DeletionQueued
    | DeletionStarted
    | TopicRemoved
    | ReassignmentStarted
    | ReassignmentDone
    | RequestRefused
    | ControllerResigned
)
