"""Events: facts that the controller reports once, for log lines, metrics and the journal."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from controller.states import PartitionState
from controller.values import Assignment, Replicas


class Cause(Enum):
    """Why a state was written."""

    CREATED = "created"
    OFFLINE = "leader or ISR member failed"
    UNCLEAN = "unclean leader election: no live broker in the ISR"
    SHUTDOWN = "controlled shutdown"
    PREFERRED = "preferred leader election requested"
    BALANCE = "preferred leader is back"
    REASSIGNED = "replicas reassigned"
    ISR = "leader changed the ISR"


@dataclass(slots=True, frozen=True)
class ControllerReady:
    """The controller has begun to act."""

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
    """It was registered before: it restarted so quickly that its session never seemed lost."""


@dataclass(slots=True, frozen=True)
class BrokerLeft:
    """A broker's registration has ended."""

    broker_id: int
    epoch: int


@dataclass(slots=True, frozen=True)
class ShutdownAsked:
    """A broker is about to stop."""

    broker_id: int


@dataclass(slots=True, frozen=True)
class LogDirsFailed:
    """A broker answered that it can't reach the directories of some replicas."""

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
    """A state that was to be written had another version; it is read and decided again."""

    topic: str
    partition: int


@dataclass(slots=True, frozen=True)
class OtherController:
    """A state has the epoch of a later controller."""

    topic: str
    partition: int
    epoch: int


@dataclass(slots=True, frozen=True)
class NoLeader:
    """A partition has no leader, and no replica can lead it now."""

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
    """A topic is to be deleted; ``waits_for`` are brokers that must return first."""

    name: str
    waits_for: tuple[int, ...]


@dataclass(slots=True, frozen=True)
class DeletionStarted:
    """The replicas of a topic are being deleted."""

    name: str


@dataclass(slots=True, frozen=True)
class TopicRemoved:
    """A topic is gone, with its znodes."""

    name: str


@dataclass(slots=True, frozen=True)
class ReassignmentStarted:
    """A reassignment has begun: the partition gets other replicas."""

    topic: str
    partition: int
    assignment: Assignment
    before: Replicas
    """The replicas before the reassignment, in their order of preference."""


@dataclass(slots=True, frozen=True)
class ReassignmentDone:
    """A partition has its new replicas, or (cancelled) those that it had."""

    topic: str
    partition: int
    replicas: Replicas


@dataclass(slots=True, frozen=True)
class RequestRefused:
    """A broker refused a whole request."""

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
