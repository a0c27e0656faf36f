"""A Kafka Streams 4.3.1 application that counts words with ``group.protocol=streams``
(KIP-1071)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from tests import java, waiting
from tests.brokers import Broker
from tests.interop.cluster import Cluster
from tests.interop.programs import Program

JARS = "kafka-streams-4.3.1"
PROGRAM = Path(__file__).parent / "programs" / "WordCount.java"
PARTITIONS = 3
WORDS = ("apple", "banana", "cherry", "date", "elder", "fig", "grape")


class WordCount:
    """The application: its topics, its instances, and the words that it must have counted. The test
    creates the topics ``lines`` and ``counts``."""

    def __init__(self, bootstrap: str, name: str, folder: Path) -> None:
        self.bootstrap, self.name, self.folder = bootstrap, name, folder
        self.lines, self.counts = f"{name}-lines", f"{name}-counts"
        self.instances: dict[str, Program] = {}
        self.expected: Counter[str] = Counter()
        self._sent = 0

    def start(self, state: str, **given: str) -> Program:
        file = self.folder / f"{state}.properties"
        properties = {
            "application.id": self.name,
            "bootstrap.servers": self.bootstrap,
            "group.protocol": "streams",
            "state.dir": str(self.folder / state),
            "processing.guarantee": "exactly_once_v2",
            "commit.interval.ms": "100",
            "auto.offset.reset": "earliest",
            "num.stream.threads": "1",
            **given,
        }
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        command = java.source(JARS, PROGRAM, str(file), self.lines, self.counts)
        self.instances[state] = Program(f"word count {state}", command)
        return self.instances[state]

    def running(self, *states: str) -> None:
        for state in states:
            self.start(state)
        for state in states:
            self.instances[state].until_says("STATE RUNNING")

    def send(self, lines: int) -> None:
        """Produces lines of three words each."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all"})
        for _ in range(lines):
            words = [WORDS[(self._sent * 3 + each) % len(WORDS)] for each in range(3)]
            self.expected.update(words)
            producer.produce(
                self.lines, " ".join(words).encode(), partition=self._sent % PARTITIONS
            )
            self._sent += 1
        assert producer.flush(60) == 0

    def say(self, line: str) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        producer.produce(self.lines, line.encode(), partition=0)
        assert producer.flush(60) == 0

    def until_counted(self, within_s: float = 180.0) -> None:
        reader = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": f"{self.name}-reader",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        found: Counter[str] = Counter()
        try:
            reader.assign(
                [TopicPartition(self.counts, each, OFFSET_BEGINNING) for each in range(PARTITIONS)]
            )

            def counted() -> bool:
                for message in reader.consume(1000, 0.2):
                    if not message.error():
                        found[message.key().decode()] = int(message.value())
                return found == self.expected

            waiting.until(f"the counts are {self.expected}", counted, within_s)
        finally:
            reader.close()

    def kill(self) -> None:
        """Kills all instances."""
        for instance in self.instances.values():
            instance.kill()


class WordCountOnBroker(WordCount):
    """Runs the word-count application on one broker."""

    def __init__(self, broker: Broker, name: str, folder: Path) -> None:
        super().__init__(broker.bootstrap, name, folder)
        self.broker = broker
        self.cluster = Cluster(broker.bootstrap)
        for topic in (self.lines, self.counts):
            self.cluster.create_topic(topic, PARTITIONS)

    def described(self) -> dict[str, object]:
        asked = {"group_ids": [self.name], "include_authorized_operations": False}
        [group] = self.cluster.call("StreamsGroupDescribe", 0, **asked)["groups"]
        return dict(group)

    def committed(self) -> dict[int, int]:
        offsets = self.cluster.committed(self.name)
        return {
            partition: offset
            for (topic, partition), offset in offsets.items()
            if topic == self.lines and offset >= 0
        }
