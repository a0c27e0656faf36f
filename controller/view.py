"""Figures about the controller for metrics and diagnostics: counts of partitions, and work that
waits for brokers.

`counts` and `waits` visit all partitions, one topic at a time, so that the caller can work in
slices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from controller.cluster import Cluster
from controller.partition import Deletion, Moving, Topic
from controller.states import ReplicaState
from controller.values import NO_LEADER, Replicas
from controller.work import Work


@dataclass(slots=True)
class Counts:
    """The figures of Kafka's metrics `kafka.controller:type=KafkaController`."""

    active_brokers: int = 0
    topics: int = 0
    partitions: int = 0
    offline_partitions: int = 0
    """The number of partitions without a live leader, except partitions that are being deleted."""
    preferred_replica_imbalance: int = 0
    """The number of partitions that are not led by their preferred replica. A partition whose
    preferred replica is still being added by a reassignment does not count."""
    topics_to_delete: int = 0
    topics_ineligible_to_delete: int = 0
    replicas_to_delete: int = 0
    replicas_ineligible_to_delete: int = 0
    reassigning: int = 0


class Doing(NamedTuple):
    """The controller's operations in progress."""

    partitions: int
    """The number of partitions whose state may still have to be written or sent to brokers."""
    writes: int
    """The number of writes that wait for a response of ZooKeeper."""
    retries: int
    """The number of failed writes and reads that will be retried shortly."""
    calls: int
    """The number of parked requests of brokers and clients."""
    shutdowns: Mapping[int, int]
    """By id of a broker that requested a controlled shutdown: the number of partitions that delay
    it. Such a partition has no other leader yet, or `settle` must check it again."""


def doing(work: Work) -> Doing:
    return Doing(
        len(work.leaderless) + len(work.backlog),
        work.writing,
        len(work.retries),
        work.waiting,
        {broker: len(each.waits_for) for broker, each in work.shutdowns.items()},
    )


class Waits(NamedTuple):
    """A deletion, a reassignment or a leader election that can't proceed until brokers return,
    catch up or respond."""

    what: str
    """The kind of operation: "deletion", "reassignment" or "leader"."""
    topic: str
    partition: int
    """The partition; -1 if the operation concerns the whole topic."""
    brokers: Replicas


def counts(cluster: Cluster) -> Iterator[Counts]:
    """Counts partitions topic by topic. Yields the same `Counts` object after each topic; its
    figures are complete at the end."""
    found = Counts(active_brokers=len(cluster.brokers))
    yield found
    for topic in [*cluster.topics.values()]:
        _count_topic(cluster, topic, found)
        yield found


def _count_topic(cluster: Cluster, topic: Topic, found: Counts) -> None:
    found.topics += 1
    found.partitions += len(topic.partitions)
    deleting = topic.deletion is not Deletion.NO
    if deleting:
        found.topics_to_delete += 1
        found.topics_ineligible_to_delete += bool(cluster.missing(topic))
    for partition in topic.partitions.values():
        if deleting:
            states = partition.replica_states.values()
            found.replicas_to_delete += len(partition.replicas)
            found.replicas_ineligible_to_delete += sum(
                each is ReplicaState.DELETION_INELIGIBLE for each in states
            )
            continue
        leader = NO_LEADER if partition.known is None else partition.known.leader
        found.offline_partitions += leader not in cluster.brokers
        preferred = partition.replicas[:1]
        if preferred != (leader,) and not set(preferred) & set(partition.adding):
            found.preferred_replica_imbalance += 1
        found.reassigning += partition.moving is not Moving.NO


def waits(cluster: Cluster, only: str | None = None) -> Iterator[list[Waits]]:
    """Yields for each topic, or only for the topic ``only``, the list of its operations that can't
    proceed. Topics without such operations are skipped."""
    for topic in [*cluster.topics.values()] if only is None else _one(cluster, only):
        found = [*_waits_of(cluster, topic)]
        if found:
            yield found


def _one(cluster: Cluster, name: str) -> list[Topic]:
    topic = cluster.topics.get(name)
    return [] if topic is None else [topic]


def _unanswered(topic: Topic) -> set[int]:
    """Returns the brokers that have not confirmed the deletion of their replicas of a topic."""
    return {
        broker_id
        for partition in topic.partitions.values()
        for broker_id, state in partition.replica_states.items()
        if state in (ReplicaState.DELETION_STARTED, ReplicaState.DELETION_INELIGIBLE)
    }


def _waits_of(cluster: Cluster, topic: Topic) -> Iterator[Waits]:
    if topic.deletion is not Deletion.NO:
        missing = cluster.missing(topic) or _unanswered(topic)
        if missing:
            yield Waits("deletion", topic.name, -1, tuple(sorted(missing)))
        return
    for partition in topic.partitions.values():
        known = partition.known
        if known is None or known.leader not in cluster.brokers:
            members = partition.replicas if known is None else known.isr
            yield Waits("leader", *partition.key, members)
        elif partition.moving is Moving.CATCHING_UP:
            behind = tuple(each for each in partition.target if each not in known.isr)
            yield Waits("reassignment", *partition.key, behind)
