"""AlterPartition requests of leaders: changes of the ISR are checked in the same order as in Kafka,
and then written."""

from __future__ import annotations

from controller.calls import AlterPartition, IsrChange
from controller.change import Change
from controller.events import Cause
from controller.outcome import AlteredPartition, AlterPartitionReply
from controller.partition import Partition
from controller.pending_requests import AlterRequest, PendingIsrChange
from controller.values import LeaderAndIsr
from controller.work import Work
from protocol import errors


def alter_partition(work: Work, call: AlterPartition) -> None:
    """Queues each ISR change of the call. A change is handled when no write of its partition is in
    flight. The call gets one reply, after all its changes."""
    broker = work.cluster.brokers.get(call.broker_id)
    if broker is None or broker.epoch != call.broker_epoch:
        work.reply(call.ticket, AlterPartitionReply(errors.STALE_BROKER_EPOCH))
        return
    if not call.changes:
        work.reply(call.ticket, AlterPartitionReply(errors.NONE))
        return
    number = work.park(call.ticket, AlterPartitionReply(errors.NOT_CONTROLLER))
    count = len(call.changes)
    request = AlterRequest(number, call.broker_id, [None] * count, count)
    for at, change in enumerate(call.changes):
        name = change.topic
        if change.topic_id is not None:
            topic = work.cluster.by_id.get(change.topic_id)
            if topic is None:
                _answer(work, request, at, _refused(change, errors.UNKNOWN_TOPIC_ID))
                continue
            name = topic.name
        named = change._replace(topic=name)
        partition = work.cluster.partition((name, change.partition))
        if partition is None or partition.topic.is_being_deleted:
            error = errors.UNKNOWN_TOPIC_OR_PARTITION
            _answer(work, request, at, _refused(named, error))
            continue
        partition.pending(PendingIsrChange(named, request, at))
        work.mark(partition)


def checked(work: Work, partition: Partition, pending: PendingIsrChange) -> Change | None:
    """Returns the ISR change to write. If the request is rejected, or if the ISR is already as
    requested, sends the reply and returns None."""
    known, change = partition.known, pending.change
    error = errors.UNKNOWN_TOPIC_OR_PARTITION
    if known is not None:
        error = _error(work, partition, known, pending)
        as_asked = known.isr == change.isr and known.recovering == change.recovering
        if error == errors.NONE and not as_asked:
            state = known._replace(
                isr=change.isr, recovering=change.recovering, controller_epoch=work.cluster.epoch
            )
            return Change(state, Cause.ISR, (), pending)
        if error == errors.NONE:
            _answer(work, pending.request, pending.at, _done(change, known))
            return None
    _answer(work, pending.request, pending.at, _refused(change, error))
    return None


def _error(work: Work, partition: Partition, known: LeaderAndIsr, pending: PendingIsrChange) -> int:
    """Returns the error code; 0 if the ISR may be written or is already as requested. The order of
    the checks is Kafka's."""
    change = pending.change
    if change.partition_epoch > known.partition_epoch or change.leader_epoch > known.leader_epoch:
        # A leader of an older Kafka writes the ISR itself, and notifies the controller later.
        work.read_state(partition)
        return errors.NOT_CONTROLLER
    if change.leader_epoch < known.leader_epoch:
        return errors.FENCED_LEADER_EPOCH
    if known.isr == change.isr and known.recovering == change.recovering:
        return errors.NONE
    if change.partition_epoch < known.partition_epoch:
        return errors.INVALID_UPDATE_VERSION
    if change.recovering and (len(change.isr) > 1 or not known.recovering):
        return errors.INVALID_REQUEST
    isr = set(change.isr)
    if (
        pending.request.broker_id != known.leader
        or known.leader not in isr
        or len(isr) < len(change.isr)
        or not isr <= set(partition.replicas)
    ):
        return errors.INVALID_REQUEST
    brokers = work.cluster.brokers
    epochs = change.broker_epochs or (-1,) * len(change.isr)
    wanted = partition.topic.wanted.get(partition.index)
    for broker_id, epoch in zip(change.isr, epochs, strict=False):
        joins = broker_id not in known.isr
        if not work.cluster.lives(partition, broker_id) and (joins or broker_id not in brokers):
            return errors.INELIGIBLE_REPLICA
        if joins and wanted is not None and broker_id not in wanted.assignment.replicas:
            return errors.INELIGIBLE_REPLICA
        if epoch not in (-1, brokers[broker_id].epoch):
            return errors.INELIGIBLE_REPLICA
    return errors.NONE


def granted(work: Work, partition: Partition, pending: PendingIsrChange) -> None:
    known = partition.known
    assert known is not None
    _answer(work, pending.request, pending.at, _done(pending.change, known))


def refuse_gone(work: Work, pending: PendingIsrChange) -> None:
    """Rejects an ISR change because its topic is deleted or being deleted."""
    answer = _refused(pending.change, errors.UNKNOWN_TOPIC_OR_PARTITION)
    _answer(work, pending.request, pending.at, answer)


def _answer(work: Work, request: AlterRequest, at: int, answer: AlteredPartition) -> None:
    request.answers[at] = answer
    request.left -= 1
    if not request.left:
        answers = [each for each in request.answers if each is not None]
        work.answer(request.number, AlterPartitionReply(errors.NONE, answers))


def _done(change: IsrChange, known: LeaderAndIsr) -> AlteredPartition:
    return AlteredPartition(
        change.topic, change.topic_id, change.partition, errors.NONE, known.leader,
        known.leader_epoch, known.isr, known.partition_epoch, known.recovering,
    )  # fmt: skip


def _refused(change: IsrChange, error: int) -> AlteredPartition:
    return AlteredPartition(change.topic, change.topic_id, change.partition, error)
