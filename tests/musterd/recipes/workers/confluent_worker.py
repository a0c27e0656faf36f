"""A worker whose members use confluent-kafka (librdkafka)."""

from __future__ import annotations

import functools
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka import Producer as Client
from worker import Key, Member, Producer, Record, serve

QUICK = {"reconnect.backoff.ms": 10, "retry.backoff.ms": 10, "retry.backoff.max.ms": 50}
TRANSACTION_S = 30
"""The time limit of a call about a transaction in seconds."""


class ConfluentMember(Member):
    """A member that uses one `Consumer`."""

    def __init__(self, asked: dict[str, Any]) -> None:
        super().__init__(asked)
        self.consumer = Consumer(
            {
                "bootstrap.servers": asked["bootstrap"],
                "group.id": asked["group"],
                "client.id": asked["name"],
                "enable.auto.commit": False,
                "auto.offset.reset": asked["reset"].replace("none", "error"),
                "heartbeat.interval.ms": asked["heartbeat_ms"],
                "session.timeout.ms": asked["session_ms"],
                "fetch.wait.max.ms": 50,
                "isolation.level": asked.get("isolation", "read_committed"),
                **QUICK,
            }
        )
        self.consumer.subscribe(
            [asked["topic"]],
            on_assign=lambda _, given: self.was_given(given),
            on_revoke=self.on_revoke,
            on_lost=lambda _, lost: self.gave_up("lost", lost),
        )

    def on_revoke(self, _: Consumer, revoked: list[TopicPartition]) -> None:
        done = self.gave_up("revoked", revoked)
        if done and self.is_careful:
            self.commit(done)

    def poll(self, within_s: float) -> list[Record]:
        records = []
        for message in self.consumer.consume(self.asked["batch"], within_s):
            if message.error():
                raise KafkaException(message.error())
            at = message.topic(), message.partition(), message.offset()
            records.append(Record(*at, message.value().decode()))
        return records

    def commit(self, offsets: dict[Key, int]) -> None:
        asked = [TopicPartition(*key, offset) for key, offset in offsets.items()]
        for each in self.consumer.commit(offsets=asked, asynchronous=False) if asked else []:
            if each.error:
                raise KafkaException(each.error)

    def send(self, topic: str, value: str) -> None:
        producer = ConfluentProducer({"bootstrap": self.asked["bootstrap"]})
        producer.produce(topic, [value], 10)
        assert producer.acknowledged == [value]
        producer.close()

    def close(self) -> None:
        self.consumer.close()


class ConfluentProducer(Producer):
    """A producer that uses one `confluent_kafka.Producer`."""

    def __init__(self, asked: dict[str, Any]) -> None:
        super().__init__(asked)
        settings = {
            "bootstrap.servers": self.asked["bootstrap"],
            "acks": self.asked["acks"],
            "enable.idempotence": self.asked["idempotent"],
            "linger.ms": 0,
            **QUICK,
        }
        if self.asked["transactional_id"]:
            settings["transactional.id"] = self.asked["transactional_id"]
        if self.asked["gives_up"]:
            settings["retries"] = 0
        self.producer = Client(settings)
        if self.asked["transactional_id"]:
            self.producer.init_transactions(TRANSACTION_S)

    def produce(self, topic: str, values: list[str], within_s: float) -> None:
        for value in values:
            delivered = functools.partial(self._delivered, value)
            self.producer.produce(topic, value.encode(), on_delivery=delivered)
        self.producer.flush(within_s)

    def begin(self) -> None:
        self.producer.begin_transaction()

    def commit(self) -> None:
        while True:
            try:
                return self.producer.commit_transaction(TRANSACTION_S)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise

    def abort(self) -> None:
        self.producer.abort_transaction(TRANSACTION_S)

    def close(self) -> None:
        self.producer.purge()
        self.producer.close()

    def _delivered(self, value: str, error: Any, _: object) -> None:
        if error is None:
            self.acknowledged.append(value)
        else:
            self.failed.append((value, error.name()))


if __name__ == "__main__":
    serve(ConfluentMember, ConfluentProducer)
