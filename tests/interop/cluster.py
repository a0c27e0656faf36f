"""What a test asks of a cluster from outside, whatever client it tests: through librdkafka."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

from tests import waiting

Key = tuple[str, int]


@dataclass(frozen=True)
class Described:
    """A group as DescribeGroups shows it: its state's name and what each client id holds."""

    state: str
    held: dict[str, frozenset[Key]]

    def sizes(self) -> list[int]:
        """How many partitions each member holds, fewest first."""
        return sorted(len(keys) for keys in self.held.values())


class Cluster:
    """Questions and orders that a test has for the broker at `bootstrap`."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap})

    def create_topic(self, topic: str, partitions: int, **config: str) -> None:
        """Create a topic and wait until its partitions have a leader."""
        made = self.admin.create_topics([NewTopic(topic, partitions, 1, config=config)])
        made[topic].result(20)
        waiting.until(f"{topic} has leaders", lambda: self._has_leaders(topic, partitions))

    def grow_topic(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions: `partitions` in all."""
        self.admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(20)

    def _has_leaders(self, topic: str, partitions: int) -> bool:
        found = self.admin.list_topics(topic, timeout=5).topics[topic]
        return len(found.partitions) == partitions and all(
            p.leader >= 0 for p in found.partitions.values()
        )

    def describe(self, group: str) -> Described:
        """The group's state and who holds what."""
        found = self.admin.describe_consumer_groups([group], request_timeout=10)[group].result(10)
        return Described(
            found.state.name,
            {
                member.client_id: frozenset(
                    (p.topic, p.partition) for p in member.assignment.topic_partitions
                )
                for member in found.members
            },
        )

    def committed(self, group: str) -> dict[Key, int]:
        """The group's committed offsets, all of them."""
        asked = ConsumerGroupTopicPartitions(group)
        found = self.admin.list_consumer_group_offsets([asked])[group].result(10)
        return {(p.topic, p.partition): p.offset for p in found.topic_partitions if p.offset >= 0}

    def end_offsets(self, topic: str, partitions: int) -> dict[Key, int]:
        """The next offset of each partition."""
        asked = {TopicPartition(topic, p): OffsetSpec.latest() for p in range(partitions)}
        return {
            (p.topic, p.partition): future.result(10).offset
            for p, future in self.admin.list_offsets(asked).items()
        }


@dataclass(frozen=True)
class Sent:
    """A record that the broker acknowledged."""

    value: str
    partition: int
    offset: int


class Feed:
    """Produces records with values that are never used twice, and knows where each one went.

    `send` writes a number of records round robin over the partitions; `flow` goes on doing so in a
    thread until `stop`.
    """

    _numbers = itertools.count()

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.topic = topic
        self.partitions = partitions
        self.sent: dict[str, Sent] = {}
        self.failed: list[str] = []
        self._turn = itertools.count()
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def _delivered(self, error, message) -> None:
        if error:
            self.failed.append(str(error))
        else:
            value = message.value().decode()
            self.sent[value] = Sent(value, message.partition(), message.offset())

    def send(self, records: int, within_s: float = 20.0) -> list[str]:
        """Produce `records` records, wait until all are acknowledged, return their values."""
        values = [f"record-{next(self._numbers)}" for _ in range(records)]
        for value in values:
            self._producer.produce(
                self.topic,
                value.encode(),
                partition=next(self._turn) % self.partitions,
                on_delivery=self._delivered,
            )
        left = self._producer.flush(within_s)
        assert (left, self.failed) == (0, []), "records were not acknowledged"
        return values

    def flow(self) -> Feed:
        """Start to produce a few records again and again; `with feed.flow():` stops at the end."""
        self._stopped.clear()
        self._thread = threading.Thread(target=self._flow, daemon=True)
        self._thread.start()
        return self

    def _flow(self) -> None:
        while not self._stopped.wait(0.02):
            self.send(self.partitions)

    def __enter__(self) -> Feed:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        assert self._thread is not None
        self._thread.join(30)
        assert not self._thread.is_alive()


def read_topic(bootstrap: str, topic: str, ends: dict[Key, int]) -> list[Sent]:
    """Every record of a topic up to `ends`, read without a group."""
    from confluent_kafka import Consumer

    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        reader.assign([TopicPartition(t, p, 0) for (t, p), end in ends.items() if end])
        found: list[Sent] = []
        total = sum(ends.values())

        def read() -> bool:
            for message in reader.consume(1000, 0.2):
                if message.error():
                    raise KafkaException(message.error())
                found.append(Sent(message.value().decode(), message.partition(), message.offset()))
            return len(found) >= total

        waiting.until(f"{total} records of {topic} are read", read)
        return found
    finally:
        reader.close()


def next_offsets(records: Iterable[Sent]) -> dict[int, int]:
    """By partition, the offset after the last of `records`."""
    ends: dict[int, int] = {}
    for record in records:
        ends[record.partition] = max(ends.get(record.partition, 0), record.offset + 1)
    return ends
