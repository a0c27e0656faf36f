"""A whole broker in the event loop of the test, with data in memory. The clients run in threads."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from broker.broker import Broker
from broker.test_mode.cleaner_thread import CleanerThread
from broker.test_mode.files.disk_faults import DiskFaults
from broker.test_mode.files.faulty_files import FaultyFiles
from broker.test_mode.files.memory_files import MemoryFiles
from broker.time import Time
from tests.broker.serving import serving

T = TypeVar("T")

DATA = "/no/such/directory/data"
"""A path that cannot exist on disk, because /no does not exist and tests can run without root
rights."""
SETTINGS = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}

_CLIENTS = ThreadPoolExecutor(8)


class MemoryDisk:
    """Files and disk faults in memory. They remain when a broker stops, so that another broker can
    use them."""

    def __init__(self, capacity_bytes: int | None = None) -> None:
        self.time = Time()
        self.files = MemoryFiles(self.time, capacity_bytes)
        self.faults = DiskFaults()
        self.of_this_run = FaultyFiles(self.files, self.faults)

    @asynccontextmanager
    async def broker(self, settings: Mapping[str, str] | None = None) -> AsyncIterator[Broker]:
        """Yields a broker on these files and stops it cleanly at the end."""
        files = self.of_this_run = FaultyFiles(self.files, self.faults)
        cleaner = partial(CleanerThread, self.time, files)
        async with serving(
            DATA,
            {**SETTINGS, **(settings or {})},
            fs=files,
            time=self.time,
            new_cleaner=cleaner,
        ) as broker:
            yield broker
        assert not os.path.exists("/no")

    @asynccontextmanager
    async def broker_to_kill(
        self, settings: Mapping[str, str] | None = None
    ) -> AsyncIterator[Broker]:
        """Yields a broker on these files and kills it at the end. The killed broker writes
        nothing."""
        async with self.broker(settings) as broker:
            yield broker
            self.of_this_run.kill()


async def client(work: Callable[[], T]) -> T:
    """Runs ``work`` in a thread, because a client call blocks, and returns the result of
    ``work``."""
    return await asyncio.get_running_loop().run_in_executor(_CLIENTS, work)


def address(broker: Broker) -> str:
    return f"127.0.0.1:{broker.sockets.addresses()[0][1]}"


def produce(broker: Broker, topic: str, *values: bytes, **settings: Any) -> list[str]:
    """Produces each value separately. Returns the error name for each value, or "" after
    success."""
    names: list[str] = []

    def delivered(error: KafkaError | None, _: object) -> None:
        names.append("" if error is None else error.name())

    producer = Producer({"bootstrap.servers": address(broker), "linger.ms": 0, **settings})
    for value in values:
        producer.produce(topic, value, key=settings.get("key", b"k"), on_delivery=delivered)
        assert producer.flush(30) == 0
    return names


def consume(broker: Broker, topic: str, count: int) -> list[bytes | None]:
    """Returns the first ``count`` values of partition 0."""
    consumer = Consumer({"bootstrap.servers": address(broker), "group.id": "reader"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return [each.value() for each in consumer.consume(count, 30)]
    finally:
        consumer.close()


def commit(broker: Broker, group: str, topic: str, offset: int) -> str:
    """Commits an offset of partition 0 and returns the error name, or "" after success."""
    consumer = Consumer({"bootstrap.servers": address(broker), "group.id": group})
    try:
        answer = consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        return "" if answer[0].error is None else answer[0].error.name()
    except KafkaException as error:
        return str(error.args[0].name())
    finally:
        consumer.close()


def committed(broker: Broker, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": address(broker), "group.id": group})
    try:
        [found] = consumer.committed([TopicPartition(topic, 0)], 30)
        return int(found.offset)
    finally:
        consumer.close()
