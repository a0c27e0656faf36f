"""The requests of one step, collected and sent in Kafka's order.

Brokers receive a topic as a whole. The topic's UpdateMetadata is delayed, over many steps if
necessary, until every partition of the topic has been settled once. Otherwise a producer that knows
only some partitions would compute the partitions of keys from too small a number. The same rule
applies to partitions that are added to a topic, and to a newly registered broker. LeaderAndIsr is
never delayed.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import TypeVar

from controller.cluster import Cluster
from controller.partition import Partition, Topic
from controller.requests import (
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    LeaderAndIsrTopic,
    Send,
    ShownPartition,
    ShownTopic,
    StoppedPartition,
    StoppedTopic,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from controller.values import LEADER_OF_DELETED, BrokerFact, LeaderAndIsr

Said = TypeVar("Said")

_Gathered = dict[Topic, dict[int, Said]]
"""Parts of a request, by topic and partition. A later part for a partition replaces the earlier
part."""
_Shown = _Gathered[ShownPartition]


class Batch:
    """Collects the requests to brokers that a step of the controller causes."""

    __slots__ = ("_awaited", "_cluster", "_greeted", "_shown", "_shown_to", "_stopped", "_told")

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._told: dict[int, _Gathered[LeaderAndIsrPartition]] = {}
        self._shown: _Shown = {}
        self._shown_to: dict[int, _Shown] = {}
        self._awaited: dict[int, set[Topic]] = {}
        """For each newly registered broker: the topics whose UpdateMetadata is delayed."""
        self._greeted = False
        self._stopped: dict[int, _Gathered[StoppedPartition]] = {}

    def send_state(self, partition: Partition, brokers: Iterable[int], new: Iterable[int]) -> None:
        """Adds a partition to the LeaderAndIsr of ``brokers``, and to the UpdateMetadata of all
        brokers."""
        known = partition.known
        if known is None:
            return
        told = LeaderAndIsrPartition(
            partition.index, known.controller_epoch, known.leader, known.leader_epoch, known.isr,
            known.partition_epoch, partition.replicas, partition.adding, partition.removing,
            known.recovering, False,
        )  # fmt: skip
        for broker_id in brokers:
            if broker_id in self._cluster.brokers:
                value = told._replace(is_new=True) if broker_id in new else told
                _gather(self._told.setdefault(broker_id, {}), partition, value)
        self.show(partition)

    def greet(self) -> None:
        """Makes sure that all brokers get an UpdateMetadata, even without partitions."""
        self._greeted = True

    def await_topics(self, broker_id: int, topics: Iterable[Topic]) -> set[Topic]:
        """Delays the UpdateMetadata of the topics for a new broker, until the caller removes the
        topics from the returned set."""
        awaited = self._awaited[broker_id] = set(topics)
        return awaited

    def broker_gone(self, broker_id: int) -> None:
        """Drops the delayed requests for a broker, and empties the set that `await_topics`
        returned."""
        self._shown_to.pop(broker_id, None)
        if awaited := self._awaited.pop(broker_id, None):
            awaited.clear()

    def show(self, partition: Partition) -> None:
        """Adds a partition to the UpdateMetadata of all brokers."""
        if partition.known is not None:
            _gather(self._shown, partition, self._shown_as(partition, partition.known))

    def show_to(self, broker_id: int, partition: Partition) -> None:
        """Adds a partition to the UpdateMetadata of one new broker."""
        if partition.known is not None and broker_id in self._cluster.brokers:
            shown = self._shown_as(partition, partition.known)
            _gather(self._shown_to.setdefault(broker_id, {}), partition, shown)

    def show_deleted(self, partition: Partition) -> None:
        """Adds the deletion of a partition to the UpdateMetadata of all brokers."""
        _gather(self._shown, partition, self._shown_as_deleted(partition))

    def show_deleted_to(self, broker_id: int, partition: Partition) -> None:
        """Adds the deletion of a partition to the UpdateMetadata of one broker that has
        returned."""
        shown = self._shown_as_deleted(partition)
        _gather(self._shown_to.setdefault(broker_id, {}), partition, shown)

    def drop(self, topic: Topic) -> None:
        """Drops the collected UpdateMetadata entries of a topic that has been removed."""
        topic.unsettled.clear()
        for awaited in self._awaited.values():
            awaited.discard(topic)
        for shown in (self._shown, *self._shown_to.values()):
            shown.pop(topic, None)

    def stop(self, broker_id: int, partition: Partition, *, delete: bool) -> None:
        """Adds a replica to the StopReplica of a broker."""
        if broker_id not in self._cluster.brokers:
            return
        if partition.topic.is_being_deleted:
            epoch = LEADER_OF_DELETED
        else:
            epoch = -1 if partition.known is None else partition.known.leader_epoch
        stopped = StoppedPartition(partition.index, epoch, delete)
        _gather(self._stopped.setdefault(broker_id, {}), partition, stopped)

    def _shown_as_deleted(self, partition: Partition) -> ShownPartition:
        isr = () if partition.known is None else partition.known.isr
        deleted = LeaderAndIsr(LEADER_OF_DELETED, 0, isr, self._cluster.epoch)
        return self._shown_as(partition, deleted)

    def _shown_as(self, partition: Partition, known: LeaderAndIsr) -> ShownPartition:
        brokers = self._cluster.brokers
        return ShownPartition(
            partition.index, known.controller_epoch, known.leader, known.leader_epoch, known.isr,
            known.partition_epoch, partition.replicas,
            tuple(
                each for each in partition.replicas
                if each not in brokers or each in partition.failed_on
            ),
        )  # fmt: skip

    def take(self) -> list[Send]:
        """Returns and removes the requests to all brokers. The requests to each broker are in the
        order in which they must be sent."""
        cluster, sends = self._cluster, list[Send]()
        if not (self._told or self._shown or self._shown_to or self._greeted or self._stopped):
            return sends
        live = tuple(cluster.brokers.values())
        shown, held = _whole_and_held(self._shown)
        held_to: dict[int, _Shown] = {}
        to_all = _shown_topics(shown)
        for broker in live:
            head = broker.broker_id, broker.epoch, cluster.config.broker_id, cluster.epoch
            if told := self._told.get(broker.broker_id):
                topics = [
                    LeaderAndIsrTopic(topic.name, topic.topic_id, list(states.values()))
                    for topic, states in told.items()
                ]
                sends.append(LeaderAndIsrRequest(*head, topics, self._leaders(topics)))
            topics_shown = to_all
            if broker.broker_id in self._shown_to or self._awaited.get(broker.broker_id):
                now, later = self._shown_and_held_alone(broker.broker_id, shown)
                topics_shown = _shown_topics(now)
                if later:
                    held_to[broker.broker_id] = later
            if topics_shown or self._greeted:
                sends.append(UpdateMetadataRequest(*head, live, topics_shown))
            if stopped := self._stopped.get(broker.broker_id):
                sends.append(
                    StopReplicaRequest(
                        *head,
                        [StoppedTopic(each.name, list(p.values())) for each, p in stopped.items()],
                    )
                )
        self._told, self._shown, self._shown_to, self._stopped = {}, held, held_to, {}
        self._greeted = False
        return sends

    def _shown_and_held_alone(self, broker_id: int, to_all: _Shown) -> tuple[_Shown, _Shown]:
        """Splits the partitions for one broker into those that can be sent now, and those that are
        delayed until all partitions of their topic are collected."""
        awaited = self._awaited.get(broker_id, set())
        now, later = _whole_and_held(self._shown_to.get(broker_id, {}), awaited)
        for topic, partitions in to_all.items():
            (later if topic in awaited else now).setdefault(topic, {}).update(partitions)
        return now, later

    def _leaders(self, topics: list[LeaderAndIsrTopic]) -> list[BrokerFact]:
        ids = {each.leader for topic in topics for each in topic.partitions}
        return [self._cluster.brokers[each] for each in sorted(ids & self._cluster.brokers.keys())]


def _gather(said: _Gathered[Said], partition: Partition, value: Said) -> None:
    said.setdefault(partition.topic, {})[partition.index] = value


def _whole_and_held(shown: _Shown, awaited: Container[Topic] = ()) -> tuple[_Shown, _Shown]:
    """Splits the topics in ``shown`` into topics that can be sent now, and topics that must wait:
    topics with unsettled partitions, and the topics in ``awaited``."""
    whole, held = _Shown(), _Shown()
    for topic, partitions in shown.items():
        (held if topic.unsettled or topic in awaited else whole)[topic] = partitions
    return whole, held


def _shown_topics(shown: Mapping[Topic, Mapping[int, ShownPartition]]) -> list[ShownTopic]:
    return [
        ShownTopic(topic.name, topic.topic_id, list(partitions.values()))
        for topic, partitions in shown.items()
    ]
