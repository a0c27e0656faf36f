"""Deletion of topics: first their replicas, then their znodes.

A topic is queued until none of its partitions is being written or reassigned. Then all brokers get
leader -2, and the brokers with a replica get StopReplica with delete. A broker that is down gets
these requests when it returns.

The znodes are deleted after the last replica. Until then, no topic with the same name can be
created, because a remaining replica could be mistaken for a replica of the new topic. A new
controller starts the deletion again before it sends the topic to brokers. Source: Kafka 3.9
``TopicDeletionManager``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from controller import granting
from controller.events import DeletionQueued, DeletionStarted
from controller.facts import Result, WriteResult
from controller.forgetting import forget
from controller.outcome import DeleteTopic, ReadTopic
from controller.partition import Deletion, Moving, Partition, Topic
from controller.states import PartitionState, ReplicaState
from controller.work import Work
from protocol import errors
from protocol.znodes.admin import delete_path

_IN_DELETION = (
    ReplicaState.DELETION_STARTED,
    ReplicaState.DELETION_SUCCESSFUL,
    ReplicaState.DELETION_INELIGIBLE,
)


def deletions_seen(work: Work, names: Iterable[str]) -> None:
    """Queues the deletions that the nodes in `/admin/delete_topics` request."""
    for name in names:
        topic = work.cluster.topics.get(name)
        if topic is None:
            # The topic may have been created just now: read its node.
            work.unknown_deletions.add(name)
            work.read(ReadTopic(name))
        elif not work.cluster.config.delete_topic_enable:
            work.delete_nodes([delete_path(name)])
        elif topic.deletion is Deletion.NO:
            topic.deletion = Deletion.QUEUED
            work.queued[name] = topic
            work.look_at_queued = True
            work.report(DeletionQueued(name, tuple(sorted(work.cluster.missing(topic)))))


def look_at_queued(work: Work) -> None:
    """Begins each queued deletion that no longer needs to wait."""
    work.look_at_queued = False
    for topic in [*work.queued.values()]:
        if topic.deletion is Deletion.QUEUED and _may_begin(topic):
            topic.deletion = Deletion.STARTED
            work.batch.drop(topic)
            topic.replicas_left = sum(len(each.replicas) for each in topic.partitions.values())
            work.report(DeletionStarted(topic.name))
            work.sweeps.append(_begin(work, topic))


def _may_begin(topic: Topic) -> bool:
    return not topic.flight and not any(
        each.flight or each.reading or each.moving is not Moving.NO
        for each in topic.partitions.values()
    )


def _begin(work: Work, topic: Topic) -> Iterator[None]:
    for partition in topic.partitions.values():
        yield
        if topic.deletion is not Deletion.STARTED:
            return
        granting.refuse_all(work, partition)
        if partition.state is not PartitionState.OFFLINE:
            partition.transition_to(PartitionState.OFFLINE)
        partition.transition_to(PartitionState.NON_EXISTENT)
        work.batch.show_deleted(partition)
        for broker_id in partition.replicas:
            if partition.begin_replica(broker_id) is not ReplicaState.OFFLINE:
                partition.move_replica(broker_id, ReplicaState.OFFLINE)
            _delete_replica(work, partition, broker_id)
    _erase_if_done(work, topic)


def _delete_replica(work: Work, partition: Partition, broker_id: int) -> None:
    if broker_id in work.cluster.brokers:
        partition.move_replica(broker_id, ReplicaState.DELETION_STARTED)
        work.batch.stop(broker_id, partition, delete=True)
    else:
        partition.move_replica(broker_id, ReplicaState.DELETION_INELIGIBLE)


def stop_answered(work: Work, partition: Partition, broker_id: int, error: int) -> None:
    topic = partition.topic
    if (
        topic.deletion is not Deletion.STARTED
        or partition.replica_state(broker_id) is not ReplicaState.DELETION_STARTED
    ):
        return
    if error != errors.NONE:
        partition.move_replica(broker_id, ReplicaState.DELETION_INELIGIBLE)
        return
    partition.move_replica(broker_id, ReplicaState.DELETION_SUCCESSFUL)
    topic.replicas_left -= 1
    _erase_if_done(work, topic)


def broker_lost(partition: Partition, broker_id: int) -> None:
    """If the replica is being deleted, sets its state to DELETION_INELIGIBLE, because its broker is
    lost."""
    if partition.replica_state(broker_id) is ReplicaState.DELETION_STARTED:
        partition.move_replica(broker_id, ReplicaState.DELETION_INELIGIBLE)


def introduce(work: Work, broker_id: int) -> None:
    """Sends the deletions in progress to a newly registered broker. If the broker started before a
    deletion, it would otherwise continue to return the deleted topic to clients."""
    for topic in work.queued.values():
        if topic.is_being_deleted:
            for partition in topic.partitions.values():
                work.batch.show_deleted_to(broker_id, partition)


def broker_back(work: Work, partition: Partition, broker_id: int) -> None:
    """Retries the deletion of a replica after its broker has returned."""
    if partition.replica_state(broker_id) is ReplicaState.DELETION_INELIGIBLE:
        partition.move_replica(broker_id, ReplicaState.OFFLINE)
        _delete_replica(work, partition, broker_id)


def _erase_if_done(work: Work, topic: Topic) -> None:
    if topic.replicas_left or topic.deletion is not Deletion.STARTED:
        return
    if all(each.state is PartitionState.NON_EXISTENT for each in topic.partitions.values()):
        topic.deletion = Deletion.ERASING
        _erase(work, topic)


def _erase(work: Work, topic: Topic) -> None:
    work.write(DeleteTopic(work.number(), topic.name), partial(_erased, work, topic))


def _erased(work: Work, topic: Topic, result: WriteResult) -> None:
    if result.result is Result.OK:
        forget(work, topic)
        # A topic of the same name may have been created after the deletion.
        work.read(ReadTopic(topic.name))
    else:
        work.retry(partial(_erase, work, topic))
