"""Brokers: registrations, losses, restarts, changes, and failed log directories.

The broker id and the czxid of the broker's znode identify a registration. If the same id has a
larger czxid, the broker has restarted between two reads; this is handled as a loss and then a
registration. A restart that no controller observed is detected from the partition states that are
read (`Cluster.lost_since`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from controller import deletions, shutdowns
from controller.events import BrokerJoined, BrokerLeft, LogDirsFailed, RequestRefused
from controller.facts import Answered, LogDirsNotified
from controller.partition import Partition, Topic
from controller.requests import LeaderAndIsrRequest, StopReplicaRequest
from controller.values import BrokerFact
from controller.work import Work
from protocol import errors


def brokers_seen(work: Work, facts: Iterable[BrokerFact]) -> None:
    """Handles the current list of registered brokers: the brokers that are new, lost, restarted or
    changed since the previous list."""
    before = work.cluster.brokers
    now = {each.broker_id: each for each in sorted(facts, key=lambda each: each[:2])}
    for broker_id, known in before.items():
        if broker_id in now and now[broker_id].epoch < known.epoch:
            now[broker_id] = known  # an outdated fact
    gone = [each for each in before if each not in now]
    bounced = [each for each in before if each in now and now[each].epoch > before[each].epoch]
    new = [each for each in now if each not in before]
    if now == before:
        return
    work.flush()
    work.cluster.brokers = now
    if not work.ready:
        return
    for broker_id in (*gone, *bounced):
        work.report(BrokerLeft(broker_id, before[broker_id].epoch))
        _lost(work, broker_id)
    # Followers accept a leader only if they know that the leader's broker is live.
    work.batch.greet()
    work.flush()
    for broker_id in (*bounced, *new):
        work.report(BrokerJoined(broker_id, now[broker_id].epoch, broker_id in bounced))
        _joined(work, broker_id)
    work.look_at_queued = True


def _lost(work: Work, broker_id: int) -> None:
    shutdowns.broker_gone(work, broker_id)
    work.batch.broker_gone(broker_id)
    for partition in work.cluster.of_broker.get(broker_id, ()):
        partition.works_on((broker_id,))
        if partition.topic.is_being_deleted:
            deletions.broker_lost(partition, broker_id)
            continue
        if broker_id not in partition.lost:
            partition.lost = (*partition.lost, broker_id)
        partition.owed = tuple(each for each in partition.owed if each != broker_id)
        partition.show = True
        work.mark(partition, leaderless=partition.is_led_by(broker_id))


def _joined(work: Work, broker_id: int) -> None:
    own = work.cluster.of_broker.get(broker_id, {})
    # The topics of the broker's own replicas are sent first.
    topics = dict.fromkeys((*(each.topic for each in own), *work.cluster.topics.values()))
    awaited = work.batch.await_topics(
        broker_id, (each for each in topics if not each.is_being_deleted)
    )
    deletions.introduce(work, broker_id)
    for partition in own:
        if partition.topic.is_being_deleted:
            deletions.broker_back(work, partition, broker_id)
            continue
        owe(partition, broker_id)
        work.mark(partition)
    work.sweeps.append(_introduce(work, broker_id, [*topics], awaited))


def owe(partition: Partition, broker_id: int) -> None:
    """Notes that a broker must still get a LeaderAndIsr for the partition."""
    if broker_id not in partition.owed:
        partition.owed = (*partition.owed, broker_id)


def _introduce(
    work: Work, broker_id: int, topics: Iterable[Topic], awaited: set[Topic]
) -> Iterator[None]:
    """Sends all topics to a new broker, each topic as a whole. A topic that is removed before it is
    sent is skipped."""
    for topic in topics:
        for partition in [*topic.partitions.values()]:
            yield
            if topic not in awaited:
                break
            work.batch.show_to(broker_id, partition)
        awaited.discard(topic)
        if not awaited:
            return


def begin(work: Work) -> None:
    """Begins to act as controller: sends the list of live brokers to all brokers, and queues all
    partitions for `settle`."""
    work.batch.greet()
    work.flush()
    for partition in work.cluster.partitions():
        if partition.known is not None:
            partition.lost = work.cluster.lost_since(partition.known)
        partition.owed = partition.replicas
        partition.show = True
        work.mark(partition, leaderless=any(map(partition.is_led_by, partition.lost)))


def log_dirs_notified(work: Work, notice: LogDirsNotified) -> None:
    """Handles a notice of failed log directories. Sends LeaderAndIsr requests to the brokers in the
    notice; the responses of these brokers name the failed replicas."""
    for broker_id in dict.fromkeys(notice.broker_ids):
        if broker_id in work.cluster.brokers:
            for partition in work.cluster.of_broker.get(broker_id, ()):
                if partition.topic.is_being_deleted:
                    deletions.broker_back(work, partition, broker_id)
                else:
                    owe(partition, broker_id)
                    work.mark(partition)
    if notice.paths:
        work.delete_nodes([*notice.paths])


def answered(work: Work, answer: Answered) -> None:
    """Handles a broker's response. Ignores a response from an earlier registration of the
    broker."""
    request = answer.request
    broker = work.cluster.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        return
    if answer.error != errors.NONE:
        name = type(request).__name__.removesuffix("Request")
        work.report(RequestRefused(request.broker_id, name, answer.error))
    if isinstance(request, LeaderAndIsrRequest):
        _replicas_answered(work, request.broker_id, answer)
    elif isinstance(request, StopReplicaRequest):
        for topic in request.topics:
            for stopped in topic.partitions:
                key = topic.name, stopped.partition
                partition = work.cluster.partition(key)
                if stopped.delete and partition is not None:
                    error = answer.error or answer.partitions.get(key, errors.NONE)
                    deletions.stop_answered(work, partition, request.broker_id, error)


def _replicas_answered(work: Work, broker_id: int, answer: Answered) -> None:
    """Stores the states of log directories from a response: a replica with error code 56 has a
    failed log directory, and a replica with error code 0 has a working one."""
    failed = []
    for key, error in answer.partitions.items():
        partition = work.cluster.partition(key)
        if partition is None or broker_id not in partition.replicas:
            continue
        if error == errors.KAFKA_STORAGE_ERROR and broker_id not in partition.failed_on:
            partition.failed_on = (*partition.failed_on, broker_id)
            partition.show = True
            failed.append(key)
            work.mark(partition)
        elif error == errors.NONE and broker_id in partition.failed_on:
            partition.works_on((broker_id,))
            owe(partition, broker_id)  # the last state was not sent to this broker
            work.mark(partition)
    if failed:
        work.report(LogDirsFailed(broker_id, tuple(failed)))
