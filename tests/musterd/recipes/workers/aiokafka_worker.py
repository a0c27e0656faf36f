"""A worker whose members use aiokafka."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from aiokafka import (
    AIOKafkaConsumer,
    AIOKafkaProducer,
    ConsumerRebalanceListener,
    TopicPartition,
)
from worker import Key, Member, Record, serve

T = TypeVar("T")
LOOP = asyncio.new_event_loop()


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
        producer = AiokafkaProducer(self.asked["bootstrap"])
        assert producer.produce(topic, [value], 10) == 1
        producer.close()

    def close(self) -> None:
        wait_for(self.consumer.stop())


class AiokafkaProducer:
    """A producer that uses one idempotent `AIOKafkaProducer`."""

    def __init__(self, bootstrap: str) -> None:
        self.on_their_way: set[asyncio.Future[Any]] = set()
        wait_for(self.start(bootstrap))

    async def start(self, bootstrap: str) -> None:
        self.producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, enable_idempotence=True, retry_backoff_ms=10
        )
        await self.producer.start()

    def close(self) -> None:
        wait_for(self.producer.stop())

    def produce(self, topic: str, values: list[str], within_s: float) -> int:
        return wait_for(self.produce_async(topic, values, within_s))

    async def produce_async(self, topic: str, values: list[str], within_s: float) -> int:
        for value in values:
            self.on_their_way.add(await self.producer.send(topic, value.encode()))
        if not self.on_their_way:
            return 0
        done, self.on_their_way = await asyncio.wait(self.on_their_way, timeout=within_s)
        return sum(each.exception() is None for each in done)


if __name__ == "__main__":
    threading.Thread(target=LOOP.run_forever, daemon=True).start()
    serve(AiokafkaMember, AiokafkaProducer)
