"""A broker with data in memory behaves for clients like a broker with data on disk."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from broker.broker import Broker
from broker.topics.cleaner import cleaning
from broker.topics.registry import OFFSETS_TOPIC
from tests.broker.partitions import log_of
from tests.broker.serving import asked, eventually
from tests.broker.test_mode.in_memory import (
    DATA,
    MemoryDisk,
    address,
    client,
    commit,
    committed,
    consume,
    produce,
)
from tests.broker.topic_calls import create_topic

pytestmark = pytest.mark.interop

TXN = {"transactional.id": "t", "transaction.timeout.ms": 20_000}


@pytest.mark.parametrize("end", ["stop", "kill"])
async def test_acknowledged_data_in_memory_survive_a_stop_and_a_kill(end: str) -> None:
    disk = MemoryDisk()
    first = disk.broker() if end == "stop" else disk.broker_to_kill()
    async with first as broker:
        assert await client(lambda: produce(broker, "orders", b"a", b"b", b"c")) == [""] * 3
        assert await client(lambda: commit(broker, "g", "orders", 2)) == ""
        topic_id = broker.registry.topics["orders"].topic_id
    async with disk.broker() as again:
        assert again.registry.topics["orders"].topic_id == topic_id
        assert await client(lambda: consume(again, "orders", 3)) == [b"a", b"b", b"c"]
        assert await client(lambda: committed(again, "g", "orders")) == 2
        assert await client(lambda: produce(again, "orders", b"d")) == [""]
        assert log_of(again, "orders").log_end_offset == 4


async def test_killed_broker_does_not_change_the_files_in_memory() -> None:
    disk = MemoryDisk()
    async with disk.broker() as broker:
        await client(lambda: produce(broker, "orders", b"a", b"b"))
        assert disk.files.exists(f"{DATA}/.lock")
        disk.of_this_run.kill()
        before = all_files(disk)
    assert all_files(disk) == before, "not a byte by its stop"
    async with disk.broker() as again:
        assert await client(lambda: consume(again, "orders", 2)) == [b"a", b"b"]


def all_files(disk: MemoryDisk, path: str = "/") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in disk.files.list(path):
        inside = f"{path.rstrip('/')}/{name}"
        try:
            found[name] = all_files(disk, inside)
        except NotADirectoryError:
            found[name] = disk.files.open(inside).read(0, 1 << 30)
    return found


async def test_broker_in_memory_commits_and_aborts_transactions() -> None:
    disk = MemoryDisk()
    async with disk.broker() as broker:

        def transact() -> None:
            producer = Producer({"bootstrap.servers": address(broker), **TXN})
            producer.init_transactions(30)
            for value, ends_well in ((b"kept", True), (b"dropped", False), (b"kept too", True)):
                producer.begin_transaction()
                producer.produce("orders", value)
                assert producer.flush(30) == 0
                (producer.commit_transaction if ends_well else producer.abort_transaction)(30)

        await client(transact)
        assert await client(lambda: consume(broker, "orders", 2)) == [b"kept", b"kept too"]
    async with disk.broker() as again:
        assert await client(lambda: consume(again, "orders", 2)) == [b"kept", b"kept too"]


async def test_compacted_topic_is_cleaned_in_memory() -> None:
    disk = MemoryDisk()
    settings = {"log.cleaner.backoff.ms": "20", "log.segment.bytes": "20000"}
    async with disk.broker(settings) as broker:
        await asked(
            broker,
            lambda wire: create_topic(wire, "table", 1, configs={"cleanup.policy": "compact"}),
        )

        def many() -> None:
            producer = Producer({"bootstrap.servers": address(broker), "batch.num.messages": 50})
            for number in range(5000):
                producer.produce("table", b"%d" % number, key=b"%d" % (number % 10))
            assert producer.flush(30) == 0

        await client(many)
        await eventually("it is cleaned", lambda: broker.cleaning.runs)
        assert broker.cleaning.failures == 0
        await eventually("it is small", lambda: log_of(broker, "table").size_bytes < 40_000)
        assert log_of(broker, "table").log_end_offset == 5000


async def test_offsets_topic_is_cleaned_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """For each group and partition, the cleaner keeps only the last commit."""
    monkeypatch.setattr(cleaning, "OWNED_WAIT_MS", 100)
    disk = MemoryDisk()
    async with disk.broker() as broker:
        await client(lambda: produce(broker, "orders", b"a"))
        await client(lambda: commit(broker, "g", "orders", 0))

        def many() -> None:
            consumer = Consumer({"bootstrap.servers": address(broker), "group.id": "g"})
            metadata = "x" * 4000
            for number in range(600):
                consumer.commit(
                    offsets=[TopicPartition("orders", 0, number, metadata=metadata)],
                    asynchronous=False,
                )
            consumer.close()

        await client(many)
        log = log_of(broker, OFFSETS_TOPIC)
        # The test writes 2.4 MB in all; a slow machine starts to clean before the last write.
        await eventually("it is cleaned", lambda: log.size_bytes < 1_000_000)
        assert broker.cleaning.runs
        assert broker.cleaning.failures == 0
        assert await client(lambda: committed(broker, "g", "orders")) == 599
    async with disk.broker() as again:
        assert await client(lambda: committed(again, "g", "orders")) == 599


# -- faults of the disk

ONCE = {"retries": 0, "message.timeout.ms": 5000}


async def test_records_and_commits_are_refused_only_while_the_disk_is_full() -> None:
    disk = MemoryDisk()
    async with disk.broker() as broker:
        await _live_through_a_full_disk(broker, disk)
    async with disk.broker() as again:
        assert await client(lambda: consume(again, "orders", 2)) == [b"before", b"after"]
        assert await client(lambda: committed(again, "g", "orders")) == 2


async def _live_through_a_full_disk(broker: Broker, disk: MemoryDisk) -> None:
    assert await client(lambda: produce(broker, "orders", b"before")) == [""]
    assert await client(lambda: commit(broker, "g", "orders", 1)) == ""

    full = disk.faults.disk_full()
    [refused] = await client(lambda: produce(broker, "orders", b"meanwhile", **ONCE))
    assert refused == "KAFKA_STORAGE_ERROR"
    assert await client(lambda: consume(broker, "orders", 1)) == [b"before"], "reads go on"
    assert await client(lambda: commit(broker, "g", "orders", 2)) != ""
    assert await client(lambda: committed(broker, "g", "orders")) == 1
    assert full.hits > 0
    assert broker.fatal is None

    full.finish()
    assert await client(lambda: produce(broker, "orders", b"after")) == [""]
    assert await client(lambda: commit(broker, "g", "orders", 2)) == ""


async def test_records_are_refused_when_the_disk_capacity_is_used_up() -> None:
    disk = MemoryDisk(capacity_bytes=200_000)
    async with disk.broker() as broker:
        names: list[str] = []
        while names[-1:] in ([], [""]):
            names += await client(lambda: produce(broker, "orders", bytes(20_000), **ONCE))
        assert names[-1] == "KAFKA_STORAGE_ERROR"
        assert 3 < len(names) < 11
        assert disk.files.capacity.taken_bytes <= 200_000
        assert broker.fatal is None


async def test_failed_fsync_stops_the_broker_with_the_reason() -> None:
    disk = MemoryDisk()
    async with disk.broker({"log.flush.interval.messages": "1"}) as broker:
        assert await client(lambda: produce(broker, "orders", b"before")) == [""]
        fault = disk.faults.fail_fsync(times=1)
        [refused] = await client(lambda: produce(broker, "orders", b"lost", **ONCE))
        assert refused != ""
        await eventually("it stops", broker.stopped.is_set)
        assert "orders-0 can no longer be written safely" in str(broker.fatal)
        assert "Input/output error" in str(broker.fatal)
        assert fault.hits == 1
    async with disk.broker() as again:
        assert (await client(lambda: consume(again, "orders", 1))) == [b"before"]
