"""The requests of one step, collected and sent in Kafka's order.

Brokers receive a topic as a whole. The topic's UpdateMetadata is delayed, over many steps if
necessary, until the controller has checked every partition of the topic once. Otherwise a producer
that knows only some partitions would compute the partitions of keys from too small a number. The
same rule applies to partitions that are added to a topic, and to a newly registered broker.
LeaderAndIsr is never delayed.
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
"""The collected contents of a request, by topic and partition. New content for a partition replaces
its earlier content."""
_Shown = _Gathered[ShownPartition]


class Batch:
    """Collects the requests to brokers that a step of the controller causes."""

    __slots__ = (
        "_awaited",
        "_cluster",
        "_greeted",
        "_leaders_sent",
        "_shown",
        "_shown_to",
        "_stopped",
    )

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._leaders_sent: dict[int, _Gathered[LeaderAndIsrPartition]] = {}
        self._shown: _Shown = {}
        self._shown_to: dict[int, _Shown] = {}
        self._awaited: dict[int, set[Topic]] = {}
        """By id of a newly registered broker: the topics that are not sent to this broker yet; see
        `await_topics`."""
        self._greeted = False
        self._stopped: dict[int, _Gathered[StoppedPartition]] = {}

    def send_state(self, partition: Partition, brokers: Iterable[int], new: Iterable[int]) -> None:
        """Adds the state of a partition to the LeaderAndIsr of each of ``brokers``, and to the
        UpdateMetadata of all brokers. For the brokers in ``new``, the replica is marked as new."""
        known = partition.known
        if known is None:
            return
        state = LeaderAndIsrPartition(
            partition.index, known.controller_epoch, known.leader, known.leader_epoch, known.isr,
            known.partition_epoch, partition.replicas, partition.adding, partition.removing,
            known.recovering, False,
        )  # fmt: skip
        for broker_id in brokers:
            if broker_id in self._cluster.brokers:
                value = state._replace(is_new=True) if broker_id in new else state
                _gather(self._leaders_sent.setdefault(broker_id, {}), partition, value)
        self.show(partition)

    def greet(self) -> None:
        """Makes sure that all brokers get an UpdateMetadata request, even if no partition has
        changed."""
        self._greeted = True

    def await_topics(self, broker_id: int, topics: Iterable[Topic]) -> set[Topic]:
        """Delays the UpdateMetadata about each of ``topics`` to a new broker. Returns the set of
        these topics. The delay of a topic ends when the caller removes the topic from this set."""
        awaited = self._awaited[broker_id] = set(topics)
        return awaited

    def broker_gone(self, broker_id: int) -> None:
        """Drops the delayed requests for a broker that is no longer registered, and empties the set
        of topics that `await_topics` returned for it."""
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
        """Adds the deletion of a partition to the UpdateMetadata of one broker that has registered
        again."""
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
        if not (
            self._leaders_sent or self._shown or self._shown_to or self._greeted or self._stopped
        ):
            return sends
        live = tuple(cluster.brokers.values())
        shown, held = _whole_and_held(self._shown)
        held_to: dict[int, _Shown] = {}
        to_all = _shown_topics(shown)
        for broker in live:
            head = broker.broker_id, broker.epoch, cluster.config.broker_id, cluster.epoch
            if state := self._leaders_sent.get(broker.broker_id):
                topics = [
                    LeaderAndIsrTopic(topic.name, topic.topic_id, list(states.values()))
                    for topic, states in state.items()
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
        self._leaders_sent, self._shown, self._shown_to, self._stopped = {}, held, held_to, {}
        self._greeted = False
        return sends

    def _shown_and_held_alone(self, broker_id: int, to_all: _Shown) -> tuple[_Shown, _Shown]:
        """Returns the partitions for UpdateMetadata to one broker, in two groups. The first group
        can be sent now. The second group must wait: it has the partitions of topics that
        `await_topics` has delayed for this broker."""
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
    """Splits the topics in ``shown`` into topics that can be sent to brokers now, and topics that
    must wait. A topic must wait if it has unsettled partitions or is in ``awaited``."""
    whole, held = _Shown(), _Shown()
    for topic, partitions in shown.items():
        (held if topic.unsettled or topic in awaited else whole)[topic] = partitions
    return whole, held


def _shown_topics(shown: Mapping[Topic, Mapping[int, ShownPartition]]) -> list[ShownTopic]:
    return [
        ShownTopic(topic.name, topic.topic_id, list(partitions.values()))
        for topic, partitions in shown.items()
    ]
