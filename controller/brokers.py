"""Registrations of brokers: they join, leave, restart and change; their disks fail.

The id and the czxid of its node identify a broker. The same id with a larger czxid is a restart
between two reads: it counts as a loss and then a registration, in that order. A restart that the
controller before this one did not see either shows in the states that it read
(`Cluster.lost_since`).
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
    """All registered brokers: handles the new, lost, restarted and changed ones since the last
    time.
    """
    before = work.cluster.brokers
    now = {each.broker_id: each for each in sorted(facts, key=lambda each: each[:2])}
    for broker_id, known in before.items():
        if broker_id in now and now[broker_id].epoch < known.epoch:
            now[broker_id] = known  # an old fact
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
    # Followers obey a leader only if they know it to be alive.
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
    # The topics of its own replicas come first.
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
    """A broker is to get a LeaderAndIsr."""
    if broker_id not in partition.owed:
        partition.owed = (*partition.owed, broker_id)


def _introduce(
    work: Work, broker_id: int, topics: Iterable[Topic], awaited: set[Topic]
) -> Iterator[None]:
    """A new broker gets all topics, each in one piece; topics that are removed in between are not
    awaited.
    """
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
    """The controller begins to act: all brokers hear who lives, then all partitions are settled."""
    work.batch.greet()
    work.flush()
    for partition in work.cluster.partitions():
        if partition.known is not None:
            partition.lost = work.cluster.lost_since(partition.known)
        partition.owed = partition.replicas
        partition.show = True
        work.mark(partition, leaderless=any(map(partition.is_led_by, partition.lost)))


def log_dirs_notified(work: Work, notice: LogDirsNotified) -> None:
    """Brokers lost a directory: which replicas were there, they answer to a LeaderAndIsr."""
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
    """A broker's answer; that of an earlier registration says nothing of this one."""
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
    """Only 56 and 0 say something: whether the replica's directory is there."""
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
            owe(partition, broker_id)  # the last state was not for it
            work.mark(partition)
    if failed:
        work.report(LogDirsFailed(broker_id, tuple(failed)))
