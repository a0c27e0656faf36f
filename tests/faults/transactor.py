"""Copies records in transactions with confluent-kafka until it is killed; prints a line per
transaction.

A transaction reads records of one partition and writes each record to all partitions of another
topic, together with the offset that was read. Some transactions are aborted on purpose. A producer
with a fatal error is replaced by a new producer with the same transactional id. A producer whose
broker was down is replaced after its transaction, because send_offsets_to_transaction of librdkafka
2.16 hangs forever after the group's coordinator was down, with any broker.

python tests/faults/transactor.py BOOTSTRAP SOURCE TARGET PARTITIONS SEED
"""

from __future__ import annotations

import random
import sys

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

MOST_RECORDS = 20
CALL_S = 20.0
ABORTED = 0.15
"""The share of transactions that are aborted on purpose."""


class Transactor:
    """Copies records from partition 0 of ``source`` to all partitions of ``target``."""

    def __init__(
        self, bootstrap: str, source: str, target: str, partitions: int, seed: int
    ) -> None:
        self.shared = {"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 100}
        self.source = source
        self.target = target
        self.partitions = partitions
        self.chance = random.Random(seed)
        self.broken = False
        """True after the producer has lost its connection to the broker."""

    def live(self) -> None:
        """Runs transactions with one producer, until the producer has a fatal error."""
        print("producer", flush=True)
        self.broken = False
        producer = Producer(
            {
                **self.shared,
                "transactional.id": self.target,
                "linger.ms": 0,
                "transaction.timeout.ms": 20000,
                "retry.backoff.ms": 20,
                "error_cb": self.noted,
            }
        )
        consumer = Consumer(
            {
                **self.shared,
                "group.id": f"{self.target}-group",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        try:
            producer.init_transactions(CALL_S)
            self.seek(consumer)
            while not self.broken:
                self.transact(producer, consumer)
                producer.poll(0)
        except KafkaException as failure:
            error: KafkaError = failure.args[0]
            if not (error.fatal() or error.retriable() or error.txn_requires_abort()):
                raise
        finally:
            consumer.close()

    def noted(self, error: KafkaError) -> None:
        self.broken |= error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)

    def seek(self, consumer: Consumer) -> None:
        """Assigns the partition of the source topic to ``consumer``, from its committed offset on.
        The committed offset counts as 0 if none exists."""
        [committed] = consumer.committed([TopicPartition(self.source, 0)], CALL_S)
        consumer.assign([TopicPartition(self.source, 0, max(committed.offset, 0))])

    def transact(self, producer: Producer, consumer: Consumer) -> None:
        """Runs one transaction. If it is aborted, the next transaction reads the same records."""
        found = consumer.consume(self.chance.randint(1, MOST_RECORDS), 0.2)
        records = [each for each in found if each.error() is None]
        if not records:
            return
        end = TopicPartition(self.source, 0, records[-1].offset() + 1)
        try:
            producer.begin_transaction()
            self.write(producer, records)
            member = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction([end], member, CALL_S)
            if self.chance.random() >= ABORTED:
                self.commit(producer)
                print("committed", end.offset, flush=True)
                return
        except KafkaException as failure:
            if not failure.args[0].txn_requires_abort():
                raise
        producer.abort_transaction(CALL_S)
        self.seek(consumer)
        print("aborted", end.offset, flush=True)

    def write(self, producer: Producer, records: list[Message]) -> None:
        for record in records:
            for partition in range(self.partitions):
                producer.produce(self.target, record.value(), partition=partition)

    def commit(self, producer: Producer) -> None:
        """Commits the transaction. Retries while the broker is down."""
        while True:
            try:
                producer.commit_transaction(CALL_S)
            except KafkaException as failure:
                if not failure.args[0].retriable():
                    raise
            else:
                return


if __name__ == "__main__":
    transactor = Transactor(*sys.argv[1:4], int(sys.argv[4]), int(sys.argv[5]))
    while True:
        transactor.live()
