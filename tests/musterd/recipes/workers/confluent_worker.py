"""A worker whose members use confluent-kafka (librdkafka)."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from worker import Key, Member, Record, serve

QUICK = {"reconnect.backoff.ms": 10, "retry.backoff.ms": 10, "retry.backoff.max.ms": 50}


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
        producer = ConfluentProducer(self.asked["bootstrap"])
        assert producer.produce(topic, [value], 10) == 1
        producer.close()

    def close(self) -> None:
        self.consumer.close()


class ConfluentProducer:
    """A producer that uses one idempotent `Producer`."""

    def __init__(self, bootstrap: str) -> None:
        self.producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0, **QUICK}
        )
        self.acknowledged = 0

    def produce(self, topic: str, values: list[str], within_s: float) -> int:
        before = self.acknowledged
        for value in values:
            self.producer.produce(topic, value.encode(), on_delivery=self._delivered)
        self.producer.flush(within_s)
        return self.acknowledged - before

    def close(self) -> None:
        self.producer.purge()
        self.producer.close()

    def _delivered(self, error: Any, _: object) -> None:
        self.acknowledged += error is None


if __name__ == "__main__":
    serve(ConfluentMember, ConfluentProducer)
