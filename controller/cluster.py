"""The controller's view of the brokers, topics and partitions of a cluster."""

from __future__ import annotations

from collections.abc import Iterable

from controller.config import ControllerConfig
from controller.partition import Partition, Topic
from controller.values import NO_LEADER, BrokerFact, LeaderAndIsr, Replicas, TopicPartition


class Cluster:
    """The topics, their partitions, and the live brokers of a cluster."""

    __slots__ = (
        "brokers", "by_id", "config", "epoch", "of_broker", "shutting_down", "topics", "unclean",
    )  # fmt: skip

    def __init__(self, config: ControllerConfig, epoch: int) -> None:
        self.config = config
        self.epoch = epoch
        self.brokers: dict[int, BrokerFact] = {}
        self.shutting_down: set[int] = set()
        self.topics: dict[str, Topic] = {}
        self.by_id: dict[bytes, Topic] = {}
        self.of_broker: dict[int, dict[Partition, None]] = {}
        """The partitions that have a replica on a broker, by broker id."""
        self.unclean = config.unclean_leader_election_enable

    def lives(self, partition: Partition, broker_id: int) -> bool:
        """Returns True if the replica on this broker may be leader and may be in the ISR."""
        return self.is_back(partition, broker_id) and broker_id not in partition.lost

    def is_back(self, partition: Partition, broker_id: int) -> bool:
        """Returns True if the replica's broker is registered and not shutting down, and the
        replica's log directory has not failed.

        If the broker was lost and has registered again, this method returns True at once. `lives`
        returns True only after the controller has written a new state of the partition.
        """
        return (
            broker_id in self.brokers
            and broker_id not in self.shutting_down
            and broker_id not in partition.failed_on
        )

    def is_there(self, partition: Partition, broker_id: int) -> bool:
        """Returns True if the broker ``broker_id`` is live and its replica of the partition has not
        failed. Such a broker may remain the leader until another replica can become leader, even
        while the broker is shutting down."""
        return (
            broker_id in self.brokers
            and broker_id not in partition.failed_on
            and broker_id not in partition.lost
        )

    def lost_since(self, known: LeaderAndIsr) -> Replicas:
        """Returns those brokers among the leader and the ISR of ``known`` that are down, or that
        have registered again since ``known`` was written.

        A broker that registered again may have lost the end of its log in a power failure, and an
        earlier controller may not have handled its registration.
        """
        members = dict.fromkeys((known.leader, *known.isr))
        members.pop(NO_LEADER, None)
        brokers = self.brokers
        return tuple(
            each for each in members if each not in brokers or brokers[each].epoch > known.written
        )

    def partition(self, key: TopicPartition) -> Partition | None:
        """Returns the partition with this topic name and index; None if it does not exist."""
        topic = self.topics.get(key[0])
        return None if topic is None else topic.partitions.get(key[1])

    def place(self, partition: Partition, broker_ids: Iterable[int]) -> None:
        for broker_id in broker_ids:
            self.of_broker.setdefault(broker_id, {})[partition] = None

    def displace(self, partition: Partition, broker_ids: Iterable[int]) -> None:
        """Notes that the brokers no longer have a replica of the partition. Also forgets their
        failed directories, since a later replica on these brokers has not failed."""
        gone = [*broker_ids]
        for broker_id in gone:
            self.of_broker.get(broker_id, {}).pop(partition, None)
        partition.works_on(gone)

    def add(self, topic: Topic) -> None:
        self.topics[topic.name] = topic
        if topic.topic_id is not None:
            self.by_id[topic.topic_id] = topic

    def remove(self, topic: Topic) -> None:
        del self.topics[topic.name]
        if topic.topic_id is not None and self.by_id.get(topic.topic_id) is topic:
            del self.by_id[topic.topic_id]

    def partitions(self) -> Iterable[Partition]:
        for topic in self.topics.values():
            yield from topic.partitions.values()

    def missing(self, topic: Topic) -> set[int]:
        """Returns the brokers that must return before a topic can be deleted."""
        return {
            broker_id
            for partition in topic.partitions.values()
            for broker_id in partition.replicas
            if not self.is_back(partition, broker_id)
        }

    def allows_unclean(self, topic: Topic) -> bool:
        """Returns True if a replica outside the ISR may become leader."""
        return self.unclean if topic.unclean is None else topic.unclean
