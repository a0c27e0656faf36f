"""The brokers, topics and partitions of a cluster, as the controller knows them."""

from __future__ import annotations

from collections.abc import Iterable

from controller.config import ControllerConfig
from controller.partition import Partition, Topic
from controller.values import NO_LEADER, BrokerFact, LeaderAndIsr, Replicas, TopicPartition


class Cluster:
    """The topics and partitions, and the live brokers."""

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
        """The partitions of which each broker has a replica."""
        self.unclean = config.unclean_leader_election_enable

    def lives(self, partition: Partition, broker_id: int) -> bool:
        """Whether a replica may lead and be in the ISR."""
        return self.is_back(partition, broker_id) and broker_id not in partition.lost

    def is_back(self, partition: Partition, broker_id: int) -> bool:
        """The same of one whose session ended since the last decision."""
        return (
            broker_id in self.brokers
            and broker_id not in self.shutting_down
            and broker_id not in partition.failed_on
        )

    def is_there(self, partition: Partition, broker_id: int) -> bool:
        """Whether it leads until another can: its broker may be shutting down."""
        return (
            broker_id in self.brokers
            and broker_id not in partition.failed_on
            and broker_id not in partition.lost
        )

    def lost_since(self, known: LeaderAndIsr) -> Replicas:
        """The members of a state that was read which are gone, or registered after it was written.

        The state is about an earlier life of these, and so is its leader epoch: a broker that
        returned in a moment, unseen since the controller failed too, may have lost the end of its
        log with the power. This holds for states of leaders and of controllers.
        """
        members = dict.fromkeys((known.leader, *known.isr))
        members.pop(NO_LEADER, None)
        brokers = self.brokers
        return tuple(
            each for each in members if each not in brokers or brokers[each].epoch > known.written
        )

    def partition(self, key: TopicPartition) -> Partition | None:
        """A partition by its topic's name and its index."""
        topic = self.topics.get(key[0])
        return None if topic is None else topic.partitions.get(key[1])

    def place(self, partition: Partition, broker_ids: Iterable[int]) -> None:
        """These brokers have a replica."""
        for broker_id in broker_ids:
            self.of_broker.setdefault(broker_id, {})[partition] = None

    def displace(self, partition: Partition, broker_ids: Iterable[int]) -> None:
        """These brokers have no replica any more. Another one there has not failed yet."""
        gone = [*broker_ids]
        for broker_id in gone:
            self.of_broker.get(broker_id, {}).pop(partition, None)
        partition.works_on(gone)

    def add(self, topic: Topic) -> None:
        """There is this topic; or it has an id now."""
        self.topics[topic.name] = topic
        if topic.topic_id is not None:
            self.by_id[topic.topic_id] = topic

    def remove(self, topic: Topic) -> None:
        """The topic does not exist any more."""
        del self.topics[topic.name]
        if topic.topic_id is not None and self.by_id.get(topic.topic_id) is topic:
            del self.by_id[topic.topic_id]

    def partitions(self) -> Iterable[Partition]:
        """All partitions."""
        for topic in self.topics.values():
            yield from topic.partitions.values()

    def missing(self, topic: Topic) -> set[int]:
        """The brokers without which a topic can't be deleted."""
        return {
            broker_id
            for partition in topic.partitions.values()
            for broker_id in partition.replicas
            if not self.is_back(partition, broker_id)
        }

    def allows_unclean(self, topic: Topic) -> bool:
        """Whether its leader may be one that is not in the ISR."""
        return self.unclean if topic.unclean is None else topic.unclean
