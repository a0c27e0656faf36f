"""Settles partitions: writes the state of a partition if it must change, then sends the state to
brokers.

A partition is queued for settling when a fact about it changes. `settle` compares the last known
state with the facts and begins at most one write. The write is an election (`elections`) or a
requested change (`granting`). When the result of the write arrives, the partition is settled again
with the facts that are known then. Therefore it does not matter in which order facts arrive.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from controller import granting, reassignments, shutdowns
from controller.change import Change
from controller.elections import next_change, wants_unclean_setting
from controller.events import Cause, NoLeader, OtherController, StateLost, StateWritten
from controller.facts import Result, WriteResult
from controller.outcome import CreateState, ReadTopic, ReadUnclean, SetState
from controller.partition import Deletion, Partition
from controller.states import PartitionState, ReplicaState
from controller.values import NO_LEADER, LeaderAndIsr
from controller.work import Work


def settle(work: Work, partition: Partition) -> None:
    """Begins the write that the partition needs. If the partition needs no write, adds to the batch
    the requests that brokers must get."""
    topic = partition.topic
    if partition.flight or partition.reading or topic.waits_for_id:
        return
    if work.cluster.topics.get(topic.name) is not topic or topic.is_being_deleted:
        granting.refuse_all(work, partition)
        shutdowns.settled(work, partition)
        return
    if wants_unclean_setting(work.cluster, partition):
        topic.unclean_asked = True
        work.read(ReadUnclean(topic.name))
    change = next_change(work.cluster, partition) or granting.next_granted(work, partition)
    if change is not None:
        _write(work, partition, change)
        return
    partition.lost = ()
    reassignments.settled(work, partition)
    _pay(work, partition)
    topic.unsettled.discard(partition.index)
    shutdowns.settled(work, partition)
    if topic.deletion is Deletion.QUEUED:
        work.look_at_queued = True


def _write(work: Work, partition: Partition, change: Change) -> None:
    partition.flight = change
    make = CreateState if partition.known is None else SetState
    write = make(work.number(), partition.topic.name, partition.index, change.state)
    work.write(write, partial(_landed, work, partition, change))


def _landed(work: Work, partition: Partition, change: Change, result: WriteResult) -> None:
    if partition.flight is not change:
        return
    topic = partition.topic
    match result.result:
        case Result.OK:
            _written(work, partition, change, result.version)
        case Result.BAD_VERSION | Result.NODE_EXISTS:
            work.report(StateLost(topic.name, partition.index))
            _read(work, partition)
        case Result.NO_NODE if partition.known is None:
            # The topic's node does not exist: the read shows whether the topic was deleted or
            # recreated.
            _drop_flight(partition)
            work.read(ReadTopic(topic.name))
            _retry(work, partition, partial(work.mark, partition))
        case Result.NO_NODE:
            _read(work, partition)
        case Result.OUTDATED:
            # The state may name the broker that has just registered: decide again with the facts
            # known after the retry.
            _drop_flight(partition)
            work.mark(partition)
        case Result.FAILED | Result.FENCED:
            partition.reading = True
            _retry(work, partition, partial(_read_again, work, partition, change))


def _retry(work: Work, partition: Partition, again: Callable[[], None]) -> None:
    """Calls ``again`` after a delay. During the delay, UpdateMetadata requests for the topic do not
    wait for this partition. They contain the partition's last known state, or omit the partition if
    it has none."""
    if partition.index in partition.topic.unsettled:
        partition.topic.unsettled.discard(partition.index)
        work.batch.show(partition)
    work.retry(again)


def _read(work: Work, partition: Partition) -> None:
    partition.reading = True
    work.read_state(partition)


def _read_again(work: Work, partition: Partition, change: Change) -> None:
    """Reads the state znode again after the write ``change``. Does nothing if another read has
    begun since then."""
    if partition.reading and partition.flight is change:
        _read(work, partition)


def _drop_flight(partition: Partition) -> None:
    """Forgets the change of this partition whose write to ZooKeeper is in flight. If a request of a
    client caused the change, the request becomes the first of the pending requests again."""
    change = partition.flight
    partition.flight = None
    if change is not None and change.pending is not None and partition.pending_requests is not None:
        partition.pending_requests.appendleft(change.pending)


def state_read(work: Work, partition: Partition, found: LeaderAndIsr | None) -> None:
    """Handles the content of a state znode. The znode was read because a write failed, or because a
    leader notified the controller of a change."""
    change, known = partition.flight, partition.known
    if not partition.reading:
        if change is not None or found is None:
            return
        if known is not None and found.partition_epoch <= known.partition_epoch:
            return
    partition.reading = False
    if found is None:
        if known is not None:
            _forget_state(partition, known)
    elif found.controller_epoch > work.cluster.epoch:
        work.report(OtherController(*partition.key, found.controller_epoch))
    elif change is not None and found.says_as(change.state):
        # The state is this controller's: the result of its write was lost, and the retry failed.
        _written(work, partition, change, found.partition_epoch)
        return
    if found is not None:
        _learn(work, partition, found)
    _drop_flight(partition)
    if found is None and known is None:
        # The node was deleted: retry later, not as fast as ZooKeeper answers.
        _retry(work, partition, partial(work.mark, partition))
    else:
        work.mark(partition)


def _forget_state(partition: Partition, known: LeaderAndIsr) -> None:
    """Clears the known state after the state znode was deleted. The next state gets a higher leader
    epoch, because brokers ignore lower epochs."""
    partition.known = None
    partition.least_epoch = known.leader_epoch + 1
    if partition.state is PartitionState.ONLINE:
        partition.transition_to(PartitionState.OFFLINE)
    if partition.state is PartitionState.OFFLINE:
        partition.transition_to(PartitionState.NON_EXISTENT)
        partition.transition_to(PartitionState.NEW)


def _learn(work: Work, partition: Partition, found: LeaderAndIsr) -> None:
    partition.known = found
    partition.lost = tuple({*partition.lost, *work.cluster.lost_since(found)})
    partition.show = True
    led = found.leader != NO_LEADER
    partition.transition_to(PartitionState.ONLINE if led else PartitionState.OFFLINE)


def adopt(partition: Partition, found: LeaderAndIsr) -> None:
    """Adopts the content of a state znode that was read when this controller was elected."""
    partition.known = found
    led = found.leader != NO_LEADER
    partition.transition_to(PartitionState.ONLINE if led else PartitionState.OFFLINE)


def _written(work: Work, partition: Partition, change: Change, version: int) -> None:
    """Adopts a state after it was written, and records the brokers that must get the state."""
    before = partition.known
    known = change.state._replace(partition_epoch=version)
    partition.flight, partition.known = None, known
    partition.lost = tuple(each for each in partition.lost if each not in change.lost)
    partition.show = True
    if known.leader == NO_LEADER:
        partition.transition_to(PartitionState.OFFLINE)
        work.report(NoLeader(*partition.key, known.isr, partition.replicas))
    else:
        partition.transition_to(PartitionState.ONLINE)
    leader_before = NO_LEADER if before is None else before.leader
    work.report(
        StateWritten(
            *partition.key, partition.state, change.cause, known.leader, leader_before,
            known.leader_epoch, known.isr, () if before is None else before.isr,
        )
    )  # fmt: skip
    if change.cause is Cause.CREATED:
        partition.is_new = known.isr
        partition.owed = (*known.isr, *(each for each in partition.owed if each not in known.isr))
    elif change.cause is not Cause.ISR:
        partition.owed = tuple(
            each for each in partition.replicas if each not in partition.failed_on
        )
    if change.cause is Cause.SHUTDOWN and leader_before in partition.replicas:
        # The old leader follows the new leader until its broker stops, so it gets no StopReplica.
        partition.begin_replica(leader_before)
        partition.move_replica(leader_before, ReplicaState.OFFLINE)
    if change.cause is Cause.REASSIGNED:
        granting.moved(work, partition, change)
    if change.pending is not None:
        granting.granted(work, partition, change.pending)
    is_led_anew = known.leader != leader_before or leader_before in change.lost
    work.mark(partition, leaderless=is_led_anew)


def _pay(work: Work, partition: Partition) -> None:
    """Updates the states of the partition's replicas. Then adds the outstanding requests about the
    partition to the current batch of requests to brokers."""
    _review_replicas(work, partition)
    if partition.known is not None:
        stopped = partition.stopping or {}
        owed = [each for each in partition.replicas if each in partition.owed]
        owed = [each for each in owed if each not in stopped]
        if owed:
            work.batch.send_state(partition, owed, partition.is_new)
        elif partition.show:
            work.batch.show(partition)
        partition.owed = partition.is_new = ()
        partition.show = False
    if partition.stopping:
        for broker_id, delete in partition.stopping.items():
            work.batch.stop(broker_id, partition, delete=delete)
        partition.stopping = None


def _review_replicas(work: Work, partition: Partition) -> None:
    """Moves replicas to ONLINE or OFFLINE. If a replica becomes OFFLINE while its broker is live,
    the controller sends a StopReplica to this broker."""
    cluster = work.cluster
    known = partition.known
    for broker_id in partition.replicas:
        state = partition.begin_replica(broker_id)
        if cluster.lives(partition, broker_id):
            caught_up = broker_id not in partition.adding
            if state is not ReplicaState.ONLINE and (caught_up or state is not ReplicaState.NEW):
                partition.move_replica(broker_id, ReplicaState.ONLINE)
        elif state is not ReplicaState.OFFLINE:
            leads = known is not None and known.leader == broker_id
            if leads and broker_id in cluster.brokers:
                continue
            partition.move_replica(broker_id, ReplicaState.OFFLINE)
            if broker_id in cluster.brokers and known is not None:
                partition.stop(broker_id, delete=False)
