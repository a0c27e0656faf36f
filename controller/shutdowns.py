"""ControlledShutdown: other brokers become leaders of a broker's partitions before the broker
stops."""

from __future__ import annotations

from controller.calls import ControlledShutdown
from controller.events import ShutdownAsked
from controller.outcome import ControlledShutdownReply
from controller.partition import Partition
from controller.work import Shutdown, Work
from protocol import errors


def controlled_shutdown(work: Work, call: ControlledShutdown) -> None:
    """Queues the partitions of the stopping broker for `settle`, which moves their leaderships to
    other brokers. The reply is sent after `settle` has handled all these partitions. The reply
    lists the partitions that the stopping broker still leads."""
    cluster, broker_id = work.cluster, call.broker_id
    broker = cluster.brokers.get(broker_id)
    if broker is not None and -1 < call.broker_epoch < broker.epoch:
        work.reply(call.ticket, ControlledShutdownReply(errors.STALE_BROKER_EPOCH))
        return
    if broker is None:
        work.reply(call.ticket, ControlledShutdownReply(errors.BROKER_NOT_AVAILABLE))
        return
    cluster.shutting_down.add(broker_id)
    work.report(ShutdownAsked(broker_id))
    refusal = ControlledShutdownReply(errors.STALE_CONTROLLER_EPOCH)
    asked_before = work.shutdowns.pop(broker_id, None)
    if asked_before is not None:
        work.answer(asked_before.number, _reply(work, broker_id))
    shutdown = Shutdown(work.park(call.ticket, refusal))
    for partition in cluster.of_broker.get(broker_id, ()):
        if len(partition.replicas) > 1 and not partition.topic.is_being_deleted:
            shutdown.waits_for.add(partition)
            work.mark(partition, leaderless=partition.is_led_by(broker_id))
    work.shutdowns[broker_id] = shutdown
    _answer_if_done(work, broker_id)


def settled(work: Work, partition: Partition) -> None:
    """Called when a partition needs no further write (`settle`). Replies to each ControlledShutdown
    that waited only for this partition."""
    for broker_id in [*work.shutdowns]:
        work.shutdowns[broker_id].waits_for.discard(partition)
        _answer_if_done(work, broker_id)


def broker_gone(work: Work, broker_id: int) -> None:
    work.cluster.shutting_down.discard(broker_id)
    shutdown = work.shutdowns.pop(broker_id, None)
    if shutdown is not None:
        work.answer(shutdown.number, ControlledShutdownReply(errors.BROKER_NOT_AVAILABLE))


def _answer_if_done(work: Work, broker_id: int) -> None:
    shutdown = work.shutdowns[broker_id]
    if not shutdown.waits_for:
        del work.shutdowns[broker_id]
        work.answer(shutdown.number, _reply(work, broker_id))


def _reply(work: Work, broker_id: int) -> ControlledShutdownReply:
    remaining = [
        partition.key
        for partition in work.cluster.of_broker.get(broker_id, ())
        if partition.known is not None
        and partition.known.leader == broker_id
        and len(partition.replicas) > 1
        and not partition.topic.is_being_deleted
    ]
    return ControlledShutdownReply(errors.NONE, sorted(remaining))
