"""A worker whose members use kafka-python."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from kafka import (
    AsyncConsumerRebalanceListener,
    KafkaConsumer,
    KafkaProducer,
    OffsetAndMetadata,
    TopicPartition,
)
from kafka.errors import KafkaError
from worker import Key, Member, Producer, Record, serve

QUICK = {"reconnect_backoff_ms": 10, "retry_backoff_ms": 10}


def as_asked(offsets: dict[Key, int]) -> dict[TopicPartition, OffsetAndMetadata]:
    return {
        TopicPartition(*key): OffsetAndMetadata(offset, "", -1) for key, offset in offsets.items()
    }


class Listener(AsyncConsumerRebalanceListener):
    """Records rebalance events. It runs in the event loop of the client, and must not block this
    loop."""

    def __init__(self, member: KafkaPythonMember) -> None:
        self.member = member

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        done = self.member.gave_up("revoked", revoked)
        if done and self.member.is_careful:
            await self.member.consumer.commit_async(as_asked(done))

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self.member.was_given(assigned)

    async def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
        self.member.gave_up("lost", lost)


class KafkaPythonMember(Member):
    """A member that uses one `KafkaConsumer`."""

    def __init__(self, asked: dict[str, Any]) -> None:
        super().__init__(asked)
        self.consumer = KafkaConsumer(
            bootstrap_servers=asked["bootstrap"],
            group_id=asked["group"],
            client_id=asked["name"],
            enable_auto_commit=False,
            auto_offset_reset=asked["reset"],
            heartbeat_interval_ms=self.asked["heartbeat_ms"],
            session_timeout_ms=self.asked["session_ms"],
            fetch_max_wait_ms=50,
            max_poll_records=asked["batch"],
            **QUICK,
        )
        self.consumer.subscribe(topics=[asked["topic"]], listener=Listener(self))
        self.consumer.topics()  # loading metadata after the join would cause a rebalance

    def poll(self, within_s: float) -> list[Record]:
        polled = self.consumer.poll(timeout_ms=round(within_s * 1000))
        return [
            Record(each.topic, each.partition, each.offset, each.value.decode())
            for records in polled.values()
            for each in records
        ]

    def commit(self, offsets: dict[Key, int]) -> None:
        if offsets:
            self.consumer.commit(as_asked(offsets))

    def send(self, topic: str, value: str) -> None:
        producer = KafkaPythonProducer({"bootstrap": self.asked["bootstrap"]})
        producer.produce(topic, [value], 10)
        assert producer.acknowledged == [value]
        producer.close()

    def close(self) -> None:
        self.consumer.close(autocommit=False)


class KafkaPythonProducer(Producer):
    """A producer that uses one `KafkaProducer`, without transactions."""

    def __init__(self, asked: dict[str, Any]) -> None:
        super().__init__(asked)
        self.producer = KafkaProducer(
            bootstrap_servers=self.asked["bootstrap"],
            acks=self.asked["acks"],
            enable_idempotence=self.asked["idempotent"],
            **QUICK,
        )

    def produce(self, topic: str, values: list[str], within_s: float) -> None:
        for value in values:
            sent = self.producer.send(topic, value.encode())
            sent.add_callback(lambda _, value=value: self.acknowledged.append(value))
        with suppress(KafkaError):  # raised if records are unacknowledged after within_s
            self.producer.flush(timeout=within_s)

    def close(self) -> None:
        self.producer.close(timeout=0)


if __name__ == "__main__":
    serve(KafkaPythonMember, KafkaPythonProducer)
