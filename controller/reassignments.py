"""Reassignments that AlterPartitionReassignments or `/admin/reassign_partitions` request.

The state of a reassignment is in the topic's znode (KIP-455). Each step begins after the write of
the previous step:

- `Moving.NODE`: the topic's znode gets the old and the new replicas.
- `Moving.START`: all these replicas get a new leader epoch.
- `Moving.CATCHING_UP`: when all target replicas are in the ISR, a state whose leader is a
  target replica is written.
- `Moving.LEAVING`: each replica that is not a target replica is removed from the ISR,
  each with a leader epoch of its own.
- `Moving.FINISHED`: the removed replicas are stopped, and the topic's znode gets only the
  target replicas.

A new controller that finds adding or removing replicas in a topic's znode continues at START.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from controller import topic_nodes
from controller.calls import AlterReassignments, ListReassignments
from controller.change import Change
from controller.elections import led_by
from controller.events import ReassignmentDone, ReassignmentStarted
from controller.facts import Result, WriteResult
from controller.outcome import ListedReassignments, ReassignmentsReply, SetReassignments
from controller.partition import Deletion, Moving, Partition
from controller.pending_requests import MoveRequest, PendingReassignment
from controller.states import ReplicaState
from controller.values import Assignment, Replicas, TopicPartition
from controller.work import Work
from protocol import errors

_OK = (errors.NONE, "")
_NOT_UNDER_WAY = (errors.NO_REASSIGNMENT_IN_PROGRESS, "The partition is not being reassigned.")
_GONE = (
    errors.UNKNOWN_TOPIC_OR_PARTITION,
    "The partition does not exist, or its topic is being deleted.",
)


def alter_reassignments(work: Work, call: AlterReassignments) -> None:
    """Handles AlterPartitionReassignments. The call gets one reply for all its partitions, after
    the znodes of their topics are written."""
    if not call.targets:
        work.reply(call.ticket, ReassignmentsReply(errors.NONE, {}))
        return
    number = work.park(call.ticket, ReassignmentsReply(errors.NOT_CONTROLLER, {}))
    request = MoveRequest(number, len(call.targets))
    for key, target in call.targets.items():
        _ask(work, key, target, request)


def reassignments_seen(work: Work, targets: Mapping[TopicPartition, Replicas]) -> None:
    """Handles the reassignments that `/admin/reassign_partitions` requests. Each one is removed
    from the znode when it is done or rejected."""
    if work.moves_in_flight:
        work.moves_seen = targets
        return
    work.moves_asked = dict(targets)
    for key, target in targets.items():
        _ask(work, key, target, None)
    work.moves_node = dict(targets) or None
    shrink_node(work)


def _ask(
    work: Work, key: TopicPartition, target: Sequence[int] | None, request: MoveRequest | None
) -> None:
    partition = work.cluster.partition(key)
    if partition is None or partition.topic.deletion is not Deletion.NO:
        _answer(work, key, request, _GONE if target is not None else _NOT_UNDER_WAY)
        return
    partition.pending(PendingReassignment(None if target is None else tuple(target), request))
    work.mark(partition)


def may_begin(partition: Partition) -> bool:
    """Returns True if a new reassignment of the partition may begin. Returns False while the
    current reassignment must still write a znode."""
    return partition.moving not in (Moving.NODE, Moving.LEAVING, Moving.FINISHED)


def checked(work: Work, partition: Partition, pending: PendingReassignment) -> Change | None:
    """Begins or rejects a reassignment. If the leader or the ISR must change first, does not begin
    it yet, and returns the change of the partition's state, which must be written first.

    Replicas that are not in the new assignment must leave the ISR before the new assignment is
    written to the topic's znode. Otherwise the ISR could shrink to these replicas during the write.
    """
    assignment = _wanted(partition, pending)
    refusal = _refusal(work, partition, pending)
    dropped = set(partition.replicas) - set(assignment.replicas)
    known = partition.known
    if refusal is None and known is not None and dropped & {known.leader, *known.isr}:
        change = led_by(work.cluster, partition, known, assignment.replicas)
        if change is not None and set(change.state.isr) <= set(assignment.replicas):
            return replace(change, pending=pending)
        text = "All live brokers of the ISR would be removed: records could be lost."
        refusal = errors.INVALID_REPLICA_ASSIGNMENT, text
    if refusal is None:
        begin(work, partition, pending)
    else:
        _answer(work, partition.key, pending.request, refusal)
    return None


def begin(work: Work, partition: Partition, pending: PendingReassignment) -> None:
    """Begins a reassignment: requests a write of the new assignment to the topic's znode."""
    assignment = _wanted(partition, pending)
    if pending.request is not None:
        work.moves_asked.pop(partition.key, None)
    partition.moving = Moving.NODE
    partition.movers = [*partition.movers, pending]
    topic_nodes.want(
        work, partition, assignment, partial(_node_written, work, partition, assignment)
    )


def _wanted(partition: Partition, pending: PendingReassignment) -> Assignment:
    now = partition.assignment
    target = now.origin if pending.target is None else pending.target
    return Assignment(target) if partition.known is None else now.reassigned_to(target)


def _refusal(
    work: Work, partition: Partition, pending: PendingReassignment
) -> tuple[int, str] | None:
    """Returns the error code and message of an invalid reassignment; None for a valid one. The
    order of the checks is Kafka's."""
    now, target = partition.assignment, pending.target
    if target is None:
        if now.adding or now.removing:
            return None
        return _NOT_UNDER_WAY
    alive = {*work.cluster.brokers, *now.replicas}
    if not target:
        text = "The list of replicas is empty."
    elif len(set(target)) < len(target):
        text = f"The list of replicas {list(target)} names a broker twice."
    elif min(target) < 0:
        text = f"The list of replicas {list(target)} has a negative id."
    elif dead := [each for each in target if each not in alive]:
        text = f"The brokers {dead} are down or unknown."
    else:
        return None
    return errors.INVALID_REPLICA_ASSIGNMENT, text


def _node_written(work: Work, partition: Partition, assignment: Assignment) -> None:
    """Continues a reassignment after the topic's znode was written with the old and the new
    replicas."""
    before = partition.replicas
    partition.replicas, partition.adding, partition.removing = assignment
    partition.leaving = tuple(
        each for each in (*partition.leaving, *before) if each not in partition.replicas
    )
    work.cluster.place(partition, partition.replicas)
    nobody_has_it = partition.known is None and partition.flight is None
    partition.moving = Moving.NO if nobody_has_it else Moving.START
    origin = tuple(each for each in before if each in assignment.origin)
    work.report(ReassignmentStarted(*partition.key, assignment, origin))
    for pending in partition.movers:
        if pending.request is not None:
            _answer(work, partition.key, pending.request, _OK)
    partition.movers = ()
    if nobody_has_it:
        _let_go(work, partition)
        _finished(work, partition)
    work.mark(partition)


def _finished(work: Work, partition: Partition) -> None:
    """Ends a reassignment in the controller's state. The caller has already written the topic's
    znode with only the target replicas."""
    partition.moving = Moving.NO
    partition.show = True
    work.moves_asked.pop(partition.key, None)
    work.report(ReassignmentDone(*partition.key, partition.replicas))
    shrink_node(work)
    work.look_at_queued = True
    work.mark(partition)


def moved(work: Work, partition: Partition, change: Change) -> None:
    """Continues a reassignment after one of its steps was written to the partition's znode."""
    if change.finishes:
        partition.leaving = (*partition.leaving, *partition.removing)
        partition.replicas = partition.target
        partition.adding = partition.removing = ()
        partition.owed = partition.replicas
        partition.moving = Moving.LEAVING
    elif partition.moving is Moving.START:
        partition.moving = Moving.CATCHING_UP
        partition.is_new = partition.adding
    _let_go(work, partition)


def settled(work: Work, partition: Partition) -> None:
    """Called when all partition states of a reassignment are written. Starts the last write of the
    reassignment: the topic's znode with only the target replicas."""
    if partition.moving is Moving.LEAVING:
        partition.moving = Moving.FINISHED
        topic_nodes.want(work, partition, partition.assignment, partial(_finished, work, partition))


def _let_go(work: Work, partition: Partition) -> None:
    """Deletes the replicas that the reassignment has removed from the partition."""
    for broker_id in partition.leaving:
        _delete_replica(partition, broker_id)
    work.cluster.displace(partition, partition.leaving)
    partition.leaving = ()


def _delete_replica(partition: Partition, broker_id: int) -> None:
    """Deletes a replica that a reassignment has removed, without waiting for the broker's
    response."""
    state = partition.replica_state(broker_id)
    if state is ReplicaState.NON_EXISTENT:
        return
    if state is not ReplicaState.OFFLINE:
        partition.move_replica(broker_id, ReplicaState.OFFLINE)
    partition.stop(broker_id, delete=True)
    for after in (
        ReplicaState.DELETION_STARTED,
        ReplicaState.DELETION_SUCCESSFUL,
        ReplicaState.NON_EXISTENT,
    ):
        partition.move_replica(broker_id, after)


def list_reassignments(work: Work, call: ListReassignments) -> None:
    partitions: Iterable[Partition | None] = (
        work.cluster.partitions()
        if call.partitions is None
        else map(work.cluster.partition, call.partitions)
    )
    under_way = {
        each.key: each.assignment for each in partitions if each and (each.adding or each.removing)
    }
    work.reply(call.ticket, ListedReassignments(errors.NONE, under_way))


def refuse_gone(work: Work, partition: Partition, pending: PendingReassignment) -> None:
    """Rejects a reassignment because its topic is deleted or being deleted."""
    _answer(work, partition.key, pending.request, _GONE)


def forget(work: Work, partition: Partition) -> None:
    """Rejects the reassignments of a partition whose topic was deleted before the new assignments
    were written to the topic's znode."""
    for pending in partition.movers:
        _answer(work, partition.key, pending.request, _GONE)
    partition.movers = ()


def _answer(
    work: Work, key: TopicPartition, request: MoveRequest | None, result: tuple[int, str]
) -> None:
    if request is not None:
        request.results[key] = result
        request.left -= 1
        if not request.left:
            work.answer(request.number, ReassignmentsReply(errors.NONE, request.results))
    elif result is not _OK and work.moves_asked.pop(key, None) is not None:
        shrink_node(work)


def shrink_node(work: Work) -> None:
    """Removes the completed reassignments from the znode `/admin/reassign_partitions`."""
    if work.moves_node is None or work.moves_in_flight or work.moves_node == work.moves_asked:
        return
    work.moves_in_flight = True
    targets = dict(work.moves_asked)

    def landed(result: WriteResult) -> None:
        work.moves_in_flight = False
        if result.result not in (Result.OK, Result.NO_NODE):
            work.retry(partial(shrink_node, work))
            return
        # If the node was deleted, the reassignments in progress continue.
        work.moves_node = targets if targets and result.result is Result.OK else None
        if work.moves_seen is not None:
            seen, work.moves_seen = work.moves_seen, None
            reassignments_seen(work, seen)
        shrink_node(work)

    work.write(SetReassignments(work.number(), targets), landed)
