"""The controller's state of one partition and of one topic."""

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
    """The progress of a partition's reassignment."""

    NO = "the partition is not being reassigned"
    NODE = "the topic's ZooKeeper node is being written"
    START = "the replicas are being notified"
    CATCHING_UP = "some target replicas are not in the ISR yet"
    LEAVING = "the leader is a target replica; the removed replicas are leaving the ISR"
    FINISHED = "the topic's ZooKeeper node is being written without the removed replicas"


class Deletion(Enum):
    """The progress of a topic's deletion."""

    NO = "the topic is not being deleted"
    QUEUED = "the deletion waits until no partition is being written or reassigned"
    STARTED = "the replicas are being deleted"
    ERASING = "the topic's ZooKeeper nodes are being deleted"


class Partition:
    """The state of one partition, and the requests that must be sent to its brokers."""

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
        """The content of the partition's state znode when it was last read or written; None if the
        content is unknown or the znode does not exist."""
        self.flight: Change | None = None
        """The change that is being written; None if no write is in flight."""
        self.reading = False
        """True if the partition's state znode must be read before the next decision."""
        self.dirty = False
        """True if the partition is in a queue and waits until `settle` checks its state."""
        self.lost: Replicas = ()
        """Brokers whose registration ended after the last decision about this partition's state.
        Some of them may have registered again."""
        self.failed_on: Replicas = ()
        """Brokers on which the log directory of this partition's replica has failed."""
        self.owed: Replicas = ()
        self.is_new: Replicas = ()
        """The brokers whose next LeaderAndIsr request for this partition must have the field is_new
        set to true."""
        self.stopping: dict[int, bool] | None = None
        """The brokers that must get a StopReplica, by broker id. The value is the field `delete` of
        the request."""
        self.show = False
        """True if all brokers must get an UpdateMetadata for the partition."""
        self.moving = Moving.NO
        self.movers: list[PendingReassignment] | tuple[()] = ()
        """The reassignment requests that wait for the write of the topic's znode, and then get a
        reply."""
        self.leaving: Replicas = ()
        """Brokers that a reassignment has removed from ``replicas``, and whose replica must be
        deleted."""
        self.pending_requests: deque[PendingRequest] | None = None
        self.least_epoch = 0
        """The leader epoch that this controller writes if it creates the state znode. It is above 0
        if an earlier state znode was deleted, because brokers ignore lower epochs than the epoch in
        that znode."""

    @property
    def key(self) -> TopicPartition:
        """The topic's name and the index of the partition."""
        return self.topic.name, self.index

    @property
    def assignment(self) -> Assignment:
        """The replicas of the partition, with the replicas that a reassignment adds and removes."""
        return Assignment(self.replicas, self.adding, self.removing)

    @property
    def target(self) -> Replicas:
        return self.assignment.target if self.removing else self.replicas

    def is_led_by(self, broker_id: int) -> bool:
        """Returns whether the broker ``broker_id`` leads the partition according to its last known
        state."""
        return self.known is not None and self.known.leader == broker_id

    def works_on(self, broker_ids: Container[int]) -> None:
        """Records that the partition's log directories on these brokers no longer fail."""
        self.failed_on = tuple(each for each in self.failed_on if each not in broker_ids)

    def begin(self) -> None:
        self.transition_to(PartitionState.NEW)
        self.replica_states = dict.fromkeys(self.replicas, ReplicaState.NEW)

    def transition_to(self, state: PartitionState) -> None:
        """Changes the state of the partition. No other method may change the state. Raises
        AssertionError if the transition is illegal."""
        if self.state not in LEGAL_PREVIOUS[state]:
            raise AssertionError(f"{self.key} from {self.state.name} to {state.name}")
        self.state = state

    def replica_state(self, broker_id: int) -> ReplicaState:
        return self.replica_states.get(broker_id, ReplicaState.NON_EXISTENT)

    def begin_replica(self, broker_id: int) -> ReplicaState:
        """Returns the state of the partition's replica on a broker. If a reassignment has just
        added this replica, it has no state yet; the method then sets the state NEW."""
        if self.replica_state(broker_id) is ReplicaState.NON_EXISTENT:
            self.move_replica(broker_id, ReplicaState.NEW)
        return self.replica_state(broker_id)

    def move_replica(self, broker_id: int, state: ReplicaState) -> None:
        """Changes the state of a replica. Only this method and ``begin`` may change the state.
        Raises AssertionError if the transition is illegal."""
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
        """Notes that a broker must get a StopReplica for this partition."""
        if self.stopping is None:
            self.stopping = {}
        self.stopping[broker_id] = delete or self.stopping.get(broker_id, False)

    def pending(self, pending: PendingRequest) -> None:
        if self.pending_requests is None:
            self.pending_requests = deque()
        self.pending_requests.append(pending)


@dataclass(slots=True, frozen=True)
class Wanted:
    """The new assignment of a partition, which must be written to the topic's znode."""

    assignment: Assignment
    written: Callable[[], None]


class Topic:
    """The controller's state of one topic."""

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
        self.partitions: dict[int, Partition] = {}
        self.unsettled: set[int] = set()
        """The partitions whose state this controller has not checked and sent yet (`settle`). While
        the set is not empty, brokers do not get an UpdateMetadata for the topic, because clients
        would see too few partitions."""
        self.wanted: dict[int, Wanted] = {}
        """The assignments that must be written to the topic's znode, by partition."""
        self.restore = False
        """True if the controller must write the topic's znode again, for example because another
        process removed data from it, or added partitions to a topic that is being deleted."""
        self.flight = False
        self.reading = False
        """True if the topic's znode must be read before the next write."""
        self.seen_version = -1
        """The version of the topic's znode that the controller read while its own write of this
        znode was in flight; -1 if it has read none."""
        self.deletion = Deletion.NO
        self.replicas_left = 0
        """The number of replicas that a deletion has not deleted yet."""
        self.unclean: bool | None = None
        """The topic's unclean.leader.election.enable; None if the cluster's setting applies or the
        setting was not read yet."""
        self.unclean_asked = False
        """True if the topic's unclean.leader.election.enable was read or is being read."""

    @property
    def is_being_deleted(self) -> bool:
        return self.deletion in (Deletion.STARTED, Deletion.ERASING)

    @property
    def waits_for_id(self) -> bool:
        """Returns True if the topic has an id that is not in its znode yet. Brokers must not get
        the topic before the id is written, because an id that is only in memory may be lost."""
        return self.topic_id is not None and self.node.topic_id is None
