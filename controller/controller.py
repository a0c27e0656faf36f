"""The controller: accepts one event at a time and returns an outcome. The docstring of the package
`controller` describes the code that runs it."""

from __future__ import annotations

from collections.abc import Iterator

from controller import (
    brokers,
    deletions,
    isr_changes,
    reassignments,
    requested_elections,
    shutdowns,
    topics,
)
from controller.calls import (
    AllocateProducerIds,
    AlterPartition,
    AlterReassignments,
    Call,
    ControlledShutdown,
    ElectLeaders,
    ListReassignments,
)
from controller.cluster import Cluster
from controller.config import ControllerConfig
from controller.events import ControllerReady
from controller.facts import (
    Answered,
    BrokersSeen,
    DeletionsSeen,
    Fact,
    IsrNotified,
    LogDirsNotified,
    PreferredSeen,
    ProducerIdsRead,
    ProducerIdsUnknown,
    Ready,
    ReassignmentsSeen,
    Resigned,
    StatesRead,
    Tick,
    TopicGone,
    TopicSeen,
    TopicsSeen,
    UncleanSeen,
    Written,
)
from controller.outcome import (
    AlterPartitionReply,
    ControlledShutdownReply,
    ElectLeadersReply,
    ListedReassignments,
    Outcome,
    ProducerIdsReply,
    ReassignmentsReply,
    Reply,
)
from controller.producer_ids import ProducerIds
from controller.settling import settle
from controller.view import Counts, Doing, Waits, counts, doing, waits
from controller.work import Work
from protocol import errors
from protocol.now import Now

SLICE = 256
"""The maximum number of write results in one step, and of partitions in one slice. A step or slice
of this size takes at most 3 ms."""


class Controller:
    """The controller of one epoch. A new object is created after each won election."""

    def __init__(self, config: ControllerConfig, epoch: int) -> None:
        self.cluster = Cluster(config, epoch)
        self._work = Work(self.cluster)
        self._producer_ids = ProducerIds(self._work)

    @property
    def epoch(self) -> int:
        """The controller epoch that the election gave to this controller."""
        return self.cluster.epoch

    def handle(self, event: Fact | Call, now: Now) -> Outcome:
        """Handles a fact or a call, and works for one slice. The outcome's ``more`` is True if work
        remains."""
        work = self._work
        work.now_ms = now.mono_ms
        if work.resigned or (not work.ready and isinstance(event, Call)):
            if isinstance(event, Call):
                work.reply(event.ticket, refusal(event))
            return work.take()
        if isinstance(event, Call):
            self._call(event)
        else:
            self._fact(event)
        return self.work(now)

    def work(self, now: Now) -> Outcome:
        work = self._work
        work.now_ms = now.mono_ms
        budget = SLICE if work.ready else 0
        while budget and work.results:
            budget -= 1
            work.land(work.results.popleft())
        # Partitions without a usable leader are written and sent in a separate step, so that their
        # writes and requests contain only these partitions. They get a new budget, so that many
        # results do not delay them to another step.
        budget = SLICE if work.ready else 0
        backlog = work.leaderless or work.backlog
        while budget and backlog:
            budget -= 1
            partition = backlog.popleft()
            partition.dirty = False
            settle(work, partition)
        if work.look_at_queued and work.ready:
            deletions.look_at_queued(work)
        while budget and work.sweeps:
            budget -= 1
            if next(work.sweeps[0], work) is work:
                work.sweeps.popleft()
        return work.take()

    def doing(self) -> Doing:
        """Returns the numbers of operations in progress."""
        return doing(self._work)

    def waits(self, only: str | None = None) -> Iterator[list[Waits]]:
        """Yields the `Waits` of each topic, or of the topic ``only``. Each topic is one list, so
        that the caller can work in slices."""
        return waits(self.cluster, only)

    def counts(self) -> Iterator[Counts]:
        """Counts the cluster's partitions for metrics, topic by topic. Yields the sums after each
        topic; the last value is the total."""
        return counts(self.cluster)

    def next_deadline(self) -> int | None:
        """Returns the monotonic time in ms at which the next `Tick` is due; None if none is due."""
        due = (self._work.retry_due_ms, self._work.balance_due_ms)
        return min((each for each in due if each is not None), default=None)

    def _call(self, call: Call) -> None:
        work = self._work
        match call:
            case AlterPartition():
                isr_changes.alter_partition(work, call)
            case ControlledShutdown():
                shutdowns.controlled_shutdown(work, call)
            case ElectLeaders():
                requested_elections.elect_leaders(work, call)
            case AlterReassignments():
                reassignments.alter_reassignments(work, call)
            case ListReassignments():
                reassignments.list_reassignments(work, call)
            case AllocateProducerIds():
                self._producer_ids.allocate(call)

    def _fact(self, fact: Fact) -> None:
        work = self._work
        match fact:
            case Written(results):
                work.results.extend(results)
            case Answered():
                brokers.answered(work, fact)
            case StatesRead(states):
                topics.states_read(work, states)
            case BrokersSeen(seen):
                brokers.brokers_seen(work, seen)
            case TopicsSeen(names):
                topics.topics_seen(work, names)
            case TopicSeen(topic, spare_id):
                topics.topic_seen(work, topic, spare_id)
            case TopicGone(name):
                topics.topic_gone(work, name)
            case DeletionsSeen(names):
                deletions.deletions_seen(work, names)
            case ReassignmentsSeen(targets):
                reassignments.reassignments_seen(work, targets)
            case PreferredSeen(partitions):
                requested_elections.preferred_seen(work, partitions)
            case IsrNotified():
                self._isr_notified(fact)
            case LogDirsNotified():
                brokers.log_dirs_notified(work, fact)
            case UncleanSeen(name, allowed):
                topics.unclean_seen(work, name, allowed)
            case ProducerIdsRead():
                self._producer_ids.read(fact)
            case ProducerIdsUnknown():
                self._producer_ids.unknown()
            case Ready():
                self._begin()
            case Resigned():
                work.resign("the ZooKeeper session is lost")
            case Tick():
                self._tick()

    def _begin(self) -> None:
        work, cluster = self._work, self.cluster
        if work.ready:
            return
        work.ready = True
        work.report(
            ControllerReady(
                cluster.epoch, tuple(cluster.brokers), len(cluster.topics),
                sum(len(each.partitions) for each in cluster.topics.values()),
            )
        )  # fmt: skip
        brokers.begin(work)
        topics.begin(work)
        reassignments.shrink_node(work)
        deletions.look_at_queued(work)  # before these topics are sent to brokers again
        if cluster.config.auto_leader_rebalance_enable:
            work.balance_due_ms = work.now_ms + requested_elections.BALANCE_AFTER_MS

    def _isr_notified(self, notice: IsrNotified) -> None:
        work = self._work
        for key in dict.fromkeys(notice.partitions):
            partition = self.cluster.partition(key)
            if partition is not None:
                work.read_state(partition)
        if notice.paths:
            work.delete_nodes([*notice.paths])

    def _tick(self) -> None:
        work, config = self._work, self.cluster.config
        if work.retry_due_ms is not None and work.now_ms >= work.retry_due_ms:
            work.retry_due_ms = None
            retries, work.retries = work.retries, []
            for again in retries:
                again()
        if work.balance_due_ms is not None and work.now_ms >= work.balance_due_ms:
            work.balance_due_ms = work.now_ms + config.leader_imbalance_check_interval_ms
            work.sweeps.append(requested_elections.balance(work))


def refusal(call: Call) -> Reply:
    """Returns the reply of a broker that is not the controller: NOT_CONTROLLER, or
    STALE_CONTROLLER_EPOCH for ControlledShutdown."""
    match call:
        case AlterPartition():
            return AlterPartitionReply(errors.NOT_CONTROLLER)
        case ControlledShutdown():
            return ControlledShutdownReply(errors.STALE_CONTROLLER_EPOCH)
        case ElectLeaders():
            return ElectLeadersReply(errors.NOT_CONTROLLER, {})
        case AlterReassignments():
            return ReassignmentsReply(errors.NOT_CONTROLLER, {})
        case ListReassignments():
            return ListedReassignments(errors.NOT_CONTROLLER, {})
        case AllocateProducerIds():
            return ProducerIdsReply(errors.NOT_CONTROLLER)
