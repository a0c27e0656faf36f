"""One partition and one topic, as the controller knows them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container
from dataclasses import dataclass
from enum import Enum

from controller.change import Change
from controller.pending_requests import PendingReassignment, PendingRequest
from controller.states import (
    LEGAL_PREVIOUS,
    LEGAL_PREVIOUS_REPLICA,
    PartitionState,
    ReplicaState,
)
from controller.values import Assignment, LeaderAndIsr, Replicas, TopicFact, TopicPartition


class Moving(Enum):
    """How far the reassignment of a partition is."""

    NO = "not being reassigned"
    NODE = "its topic's ZooKeeper node is being written"
    START = "its replicas are being notified"
    CATCHING_UP = "some target replicas are not in the ISR yet"
    LEAVING = "the leader is a target replica; the others are being removed from the ISR"
    FINISHED = "its topic's ZooKeeper node is being written without the removed replicas"


class Deletion(Enum):
    """How far the deletion of a topic is."""

    NO = "not being deleted"
    QUEUED = "waits until its partitions are neither written nor reassigned"
    STARTED = "its replicas are being deleted"
    ERASING = "its ZooKeeper nodes are being deleted"


class Partition:
    """The state of one partition, and the requests that its brokers have still to get."""

    __slots__ = (
        "adding",
        "dirty",
        "failed_on",
        "flight",
        "index",
        "is_new",
        "known",
        "least_epoch",
        "leaving",
        "lost",
        "movers",
        "moving",
        "owed",
        "pending_requests",
        "reading",
        "removing",
        "replica_states",
        "replicas",
        "show",
        "state",
        "stopping",
        "topic",
    )  # fmt: skip

    def __init__(self, topic: Topic, index: int, assignment: Assignment) -> None:
        self.topic = topic
        self.index = index
        self.replicas, self.adding, self.removing = assignment
        self.state = PartitionState.NON_EXISTENT
        self.replica_states: dict[int, ReplicaState] = {}
        self.known: LeaderAndIsr | None = None
        """The content of its state node, as last read or written; None: unknown, or the node does
        not exist."""
        self.flight: Change | None = None
        """The change that is being written: at most one."""
        self.reading = False
        """Its state node has to be read before anything else is decided."""
        self.dirty = False
        """It is in the backlog."""
        self.lost: Replicas = ()
        """Brokers whose session ended since the last decision, though they may be back."""
        self.failed_on: Replicas = ()
        """Brokers whose directory of this replica failed."""
        self.owed: Replicas = ()
        """Brokers that are to get a LeaderAndIsr."""
        self.is_new: Replicas = ()
        """The brokers among ``owed`` whose LeaderAndIsr has is_new."""
        self.stopping: dict[int, bool] | None = None
        """Brokers that are to get a StopReplica, and whether with delete."""
        self.show = False
        """All brokers are to get an UpdateMetadata."""
        self.moving = Moving.NO
        self.movers: list[PendingReassignment] | tuple[()] = ()
        """The reassignment requests that are answered when its topic's node is written."""
        self.leaving: Replicas = ()
        """Replicas of a reassignment that was replaced or cancelled: they are to be deleted."""
        self.pending_requests: deque[PendingRequest] | None = None
        """The requests that wait until nothing is being written."""
        self.least_epoch = 0
        """The leader epoch of its first state; more than 0 after its node was lost."""

    @property
    def key(self) -> TopicPartition:
        """Its topic's name and its index."""
        return self.topic.name, self.index

    @property
    def assignment(self) -> Assignment:
        """Its replicas, with the reassignment under way."""
        return Assignment(self.replicas, self.adding, self.removing)

    @property
    def target(self) -> Replicas:
        """The replicas after the reassignment."""
        return self.assignment.target if self.removing else self.replicas

    def is_led_by(self, broker_id: int) -> bool:
        """Whether its state names that leader, as far as is known."""
        return self.known is not None and self.known.leader == broker_id

    def works_on(self, broker_ids: Container[int]) -> None:
        """Clears failed directories of this partition on these brokers."""
        self.failed_on = tuple(each for each in self.failed_on if each not in broker_ids)

    def begin(self) -> None:
        """There is this partition: it and its replicas are new."""
        self.transition_to(PartitionState.NEW)
        self.replica_states = dict.fromkeys(self.replicas, ReplicaState.NEW)

    def transition_to(self, state: PartitionState) -> None:
        """The only place where its state changes."""
        if self.state not in LEGAL_PREVIOUS[state]:
            raise AssertionError(f"{self.key} from {self.state.name} to {state.name}")
        self.state = state

    def replica_state(self, broker_id: int) -> ReplicaState:
        """The state of one replica."""
        return self.replica_states.get(broker_id, ReplicaState.NON_EXISTENT)

    def begin_replica(self, broker_id: int) -> ReplicaState:
        """The state of a replica, which a reassignment may just have added."""
        if self.replica_state(broker_id) is ReplicaState.NON_EXISTENT:
            self.move_replica(broker_id, ReplicaState.NEW)
        return self.replica_state(broker_id)

    def move_replica(self, broker_id: int, state: ReplicaState) -> None:
        """The only place where the state of a replica changes."""
        before = self.replica_state(broker_id)
        if before not in LEGAL_PREVIOUS_REPLICA[state]:
            raise AssertionError(
                f"replica {broker_id} of {self.key} may not change from {before.name}"
                f" to {state.name}"
            )
        if state is ReplicaState.NON_EXISTENT:
            del self.replica_states[broker_id]
        else:
            self.replica_states[broker_id] = state

    def stop(self, broker_id: int, *, delete: bool) -> None:
        """A broker is owed a StopReplica."""
        if self.stopping is None:
            self.stopping = {}
        self.stopping[broker_id] = delete or self.stopping.get(broker_id, False)

    def pending(self, pending: PendingRequest) -> None:
        """Adds a request."""
        if self.pending_requests is None:
            self.pending_requests = deque()
        self.pending_requests.append(pending)


@dataclass(slots=True, frozen=True)
class Wanted:
    """The assignment of a partition that is to be written into its topic's node."""

    assignment: Assignment
    written: Callable[[], None]
    """Called when the node has it."""


class Topic:
    """The state of one topic."""

    __slots__ = (
        "created", "deletion", "flight", "name", "node", "partitions", "reading",
        "replicas_left", "restore", "seen_version", "topic_id", "unclean", "unclean_asked",
        "unsettled", "wanted",
    )  # fmt: skip

    def __init__(self, fact: TopicFact, topic_id: bytes | None) -> None:
        self.name = fact.name
        self.topic_id = topic_id
        self.created = fact.created
        self.node = fact
        """The content of its node."""
        self.partitions: dict[int, Partition] = {}
        self.unsettled: set[int] = set()
        """Partitions that this controller has yet to settle for the first time: until there are
        none, no broker is shown any of the topic's, or clients would see too few."""
        self.wanted: dict[int, Wanted] = {}
        """Assignments that are to be written into its node."""
        self.restore = False
        """Its node lost something, or gained what it may not have."""
        self.flight = False
        """Its node is being written."""
        self.reading = False
        """Its node has to be read before it is written."""
        self.seen_version = -1
        """The version that was seen of its node while it was being written."""
        self.deletion = Deletion.NO
        self.replicas_left = 0
        """How many replicas are still to be deleted."""
        self.unclean: bool | None = None
        """Its own setting of unclean elections."""
        self.unclean_asked = False
        """Its setting was read, or is being read."""

    @property
    def is_being_deleted(self) -> bool:
        """Whether its replicas are being deleted already."""
        return self.deletion in (Deletion.STARTED, Deletion.ERASING)

    @property
    def waits_for_id(self) -> bool:
        """Whether no broker may get the topic yet: an id that is not written might be lost."""
        return self.topic_id is not None and self.node.topic_id is None
