"""A worker whose members use aiokafka."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from aiokafka import (
    AIOKafkaConsumer,
    AIOKafkaProducer,
    ConsumerRebalanceListener,
    TopicPartition,
)
from worker import Key, Member, Producer, Record, name_of, serve

T = TypeVar("T")
LOOP = asyncio.new_event_loop()
GIVES_UP_MS = 1500
"""The request timeout in ms of a producer that must soon report an error. aiokafka does not limit
the number of retries."""


def wait_for(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine on the background event loop, and returns its result. The client's
    heartbeats run on the same loop."""
    return asyncio.run_coroutine_threadsafe(coroutine, LOOP).result()


class Listener(ConsumerRebalanceListener):
    """Records rebalance events. aiokafka awaits each method of the listener before the member
    rejoins."""

    def __init__(self, member: AiokafkaMember) -> None:
        self.member = member

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        done = self.member.gave_up("revoked", revoked)
        if done and self.member.is_careful:
            await self.member.commit_async(done)

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self.member.was_given(assigned)


class AiokafkaMember(Member):
    """A member that uses one `AIOKafkaConsumer`."""

    def __init__(self, asked: dict[str, Any]) -> None:
        super().__init__(asked)
        wait_for(self.start())

    async def start(self) -> None:
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=self.asked["bootstrap"],
            group_id=self.asked["group"],
            client_id=self.asked["name"],
            enable_auto_commit=False,
            auto_offset_reset=self.asked["reset"],
            heartbeat_interval_ms=self.asked["heartbeat_ms"],
            session_timeout_ms=self.asked["session_ms"],
            fetch_max_wait_ms=50,
            isolation_level=self.asked.get("isolation", "read_uncommitted"),
            retry_backoff_ms=10,
        )
        self.consumer.subscribe(topics=[self.asked["topic"]], listener=Listener(self))
        await self.consumer.start()

    def poll(self, within_s: float) -> list[Record]:
        return wait_for(self.poll_async(within_s))

    async def poll_async(self, within_s: float) -> list[Record]:
        polled = await self.consumer.getmany(
            timeout_ms=round(within_s * 1000), max_records=self.asked["batch"]
        )
        return [
            Record(each.topic, each.partition, each.offset, each.value.decode())
            for records in polled.values()
            for each in records
        ]

    def commit(self, offsets: dict[Key, int]) -> None:
        if offsets:
            wait_for(self.commit_async(offsets))

    async def commit_async(self, offsets: dict[Key, int]) -> None:
        await self.consumer.commit({TopicPartition(*key): at for key, at in offsets.items()})

    def send(self, topic: str, value: str) -> None:
        producer = AiokafkaProducer({"bootstrap": self.asked["bootstrap"]})
        producer.produce(topic, [value], 10)
        assert producer.acknowledged == [value]
        producer.close()

    def close(self) -> None:
        wait_for(self.consumer.stop())


class AiokafkaProducer(Producer):
    """A producer that uses one `AIOKafkaProducer`."""

    def __init__(self, asked: dict[str, Any]) -> None:
        super().__init__(asked)
        self.on_their_way: set[asyncio.Future[Any]] = set()
        wait_for(self.start())

    async def start(self) -> None:
        self.producer = AIOKafkaProducer(
            bootstrap_servers=self.asked["bootstrap"],
            acks=self.asked["acks"],
            enable_idempotence=self.asked["idempotent"],
            transactional_id=self.asked["transactional_id"],
            request_timeout_ms=GIVES_UP_MS if self.asked["gives_up"] else 40_000,
            retry_backoff_ms=10,
        )
        await self.producer.start()

    def close(self) -> None:
        wait_for(self.producer.stop())

    def produce(self, topic: str, values: list[str], within_s: float) -> None:
        wait_for(self.produce_async(topic, values, within_s))

    async def produce_async(self, topic: str, values: list[str], within_s: float) -> None:
        for value in values:
            sent = await self.producer.send(topic, value.encode())
            sent.add_done_callback(functools.partial(self._delivered, value))
            self.on_their_way.add(sent)
        if self.on_their_way:
            _, self.on_their_way = await asyncio.wait(self.on_their_way, timeout=within_s)

    def begin(self) -> None:
        wait_for(self.producer.begin_transaction())

    def commit(self) -> None:
        wait_for(self.producer.commit_transaction())

    def abort(self) -> None:
        wait_for(self.producer.abort_transaction())

    def _delivered(self, value: str, sent: asyncio.Future[Any]) -> None:
        error = sent.exception()
        if error is None:
            self.acknowledged.append(value)
        else:
            self.failed.append((value, name_of(error)))


if __name__ == "__main__":
    threading.Thread(target=LOOP.run_forever, daemon=True).start()
    serve(AiokafkaMember, AiokafkaProducer)
