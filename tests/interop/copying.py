"""Runs Apache's TransactionalMessageCopier, and checks the copies.

A copier reads records of one topic and writes them to another topic in transactions. Each
transaction contains the written records and the offsets of the read records. Each record must
therefore be copied exactly once, even if copiers or brokers are killed, as in Kafka's own system
test.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections import Counter
from dataclasses import dataclass

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from tests import java
from tests.interop.programs import java_program
from tests.waiting import Watch

COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"
PROGRESS_WITHIN_S = 180.0


@dataclass(frozen=True)
class Copying:
    """The topics, the group and the transaction size of a copy."""

    source: str
    target: str
    group: str
    transaction_size: int
    timeout_ms: int = 40_000
    group_mode: bool = False
    """If true, the copiers join a group. Otherwise each copier has a fixed partition."""
    group_metadata: bool = False
    """If true, the copiers send generation and member id with the offsets (KIP-447)."""
    random_aborts: bool = False
    max_messages: int = -1
    """The number of records to copy. -1 means the records that exist at the start."""

    def arguments(self, bootstrap: str, number: int) -> list[str]:
        chosen = {
            "--group-mode": self.group_mode,
            "--use-group-metadata": self.group_metadata,
            "--enable-random-aborts": self.random_aborts,
        }
        given = {
            "--broker-list": bootstrap,
            "--input-topic": self.source,
            "--input-partition": str(number),
            "--output-topic": self.target,
            "--consumer-group": self.group,
            "--transactional-id": f"{self.group}-{number}",
            "--max-messages": str(self.max_messages),
            "--transaction-size": str(self.transaction_size),
            "--transaction-timeout": str(self.timeout_ms),
        }
        return [
            *(word for pair in given.items() for word in pair),
            *(k for k, v in chosen.items() if v),
        ]


class Copier:
    """A copier process. It can be started, killed, and restarted with the same transactional id."""

    def __init__(self, copying: Copying, bootstrap: str, number: int) -> None:
        self.arguments = copying.arguments(bootstrap, number)
        self.program = java_program(java.KAFKA_NEW, COPIER, *self.arguments)

    def start(self) -> None:
        assert not self.program.runs
        self.program = java_program(java.KAFKA_NEW, COPIER, *self.arguments)

    def kill(self) -> None:
        self.program.kill()

    def status(self) -> dict[str, int | str]:
        """Returns the last status line of the current process."""
        for line in reversed(list(self.program.lines)):
            with contextlib.suppress(json.JSONDecodeError):
                return dict(json.loads(line))
        return {}

    def until_copied(self, records: int, within_s: float = PROGRESS_WITHIN_S) -> None:
        """Waits until the current process has copied ``records`` records, or has copied all
        records."""
        self.program.until(
            f"{records} records are copied",
            lambda: int(self.status().get("totalProcessed", 0)) >= records or self.is_done(),
            within_s,
        )

    def is_done(self) -> bool:
        return self.status().get("stage") == "ShutdownComplete"

    def until_done(self, within_s: float = PROGRESS_WITHIN_S) -> None:
        """Waits until the copier process ends by itself."""
        self.program.ended(within_s)
        assert self.is_done(), self.program.story()


def seed(
    bootstrap: str, topic: str, partitions: int, records: int, first: int = 0
) -> list[list[str]]:
    """Produces records to all partitions, numbered from ``first`` on. Returns the values by
    partition."""
    failed: list[object] = []
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20}
    )
    sent: list[list[str]] = [[] for _ in range(partitions)]
    for number in range(first, first + records):
        place = number % partitions
        sent[place].append(str(number))
        producer.produce(
            topic,
            str(number),
            partition=place,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
        producer.poll(0)
    assert producer.flush(60) == 0
    assert not failed, failed[:3]
    return sent


class CommittedReader:
    """Reads a topic with read_committed in a thread. Continues when brokers restart."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.values: list[list[str]] = [[] for _ in range(partitions)]
        self.watch = Watch()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"{topic}-reader",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "reconnect.backoff.max.ms": 200,
            }
        )
        self._consumer.assign(
            [TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(partitions)]
        )
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> CommittedReader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(20)
        self._consumer.close()

    def _read(self) -> None:
        while not self._stopped.is_set():
            for message in self._consumer.consume(500, 0.1):
                if message.error() is None:
                    self.values[message.partition()].append(message.value().decode())
            self.watch.changed()

    def count(self) -> int:
        return sum(map(len, self.values))

    def until_read(self, records: int, within_s: float = 120.0) -> None:
        self.watch.until(
            f"{records} committed records are read",
            lambda: self.count() >= records,
            within_s,
            lambda: f"{self.count()} are read",
        )


def assert_once(sent: list[list[str]], read: list[list[str]], *, in_order: bool, who: str) -> None:
    """Checks that each record was copied exactly once. If ``in_order``, also checks the order."""
    everything = [value for values in sent for value in values]
    seen = Counter(value for values in read for value in values)
    doubled = [value for value, times in seen.items() if times > 1]
    assert not doubled, f"{who}: {len(doubled)} records came out twice: {doubled[:10]}"
    lost = [value for value in everything if value not in seen]
    assert not lost, f"{who}: {len(lost)} records did not come out: {lost[:10]}"
    assert len(seen) == len(everything), f"{who}: records that nobody sent"
    if in_order:
        assert read == sent, f"{who}: another order"
