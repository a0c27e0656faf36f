"""Tests that each setting of `__transaction_state` and of the transaction coordinator has an
effect."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from broker.topics.registry import TRANSACTION_TOPIC
from log.files.filesystem import OsFileSystem
from log.files.os_file import OsFile
from log.segment import LOCATE_CHUNK_BYTES
from tests.broker.mock_time import MockTime
from tests.broker.partitions import log_of
from tests.broker.serving import asked, eventually, serving
from tests.broker.transactions import (
    TOPIC,
    Producer,
    added,
    ended,
    initialised,
    served,
    state_now,
    told,
)
from transactions.calls import TV1, InitProducerId

ONE = {"transaction.state.log.num.partitions": "1"}


async def test_changed_transaction_topic_num_partitions_is_ignored_and_logged(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, {"transaction.state.log.num.partitions": "2"}) as broker:
        await served(broker)
    with capture_logs() as lines:
        async with serving(tmp_path, {"transaction.state.log.num.partitions": "3"}) as broker:
            assert len(broker.transactions.hosted_shards) == 2
    (warning,) = [line for line in lines if "transaction.state.log.num" in line["event"]]
    assert (warning["log_level"], warning["wanted"], warning["partitions"]) == ("warning", 3, 2)


async def test_transaction_replication_factor_is_lowered_to_the_broker_count(
    tmp_path: Path,
) -> None:
    with capture_logs() as lines:
        async with serving(tmp_path, {"transaction.state.log.replication.factor": "3"}) as broker:
            await served(broker)
    (line,) = [line for line in lines if "transaction.state.log.replication" in line["event"]]
    assert line["wanted"] == 3


async def test_segment_of_the_transaction_topic_rolls_at_segment_bytes(tmp_path: Path) -> None:
    settings = {
        **ONE,
        "transaction.state.log.segment.bytes": "1000",
        "log.cleaner.enable": "false",
    }
    async with serving(tmp_path, settings) as broker:
        await served(broker)
        for number in range(40):
            await initialised(broker, f"t{number}")
        sizes = [segment.size for segment in log_of(broker, TRANSACTION_TOPIC).segments]
        assert len(sizes) > 2
        assert max(sizes) <= 1000
    async with serving(tmp_path, settings) as broker:
        await eventually("the load", lambda: not broker.loading)
        assert broker.transactions.hosted_shards[0].core.view.known() == 40


async def test_transaction_load_buffer_size_limits_each_read_of_the_log(tmp_path: Path) -> None:
    reads: list[int] = []

    class Counted(OsFile):
        def read(self, position: int, length: int) -> bytes:
            reads.append(length)
            return super().read(position, length)

    class Files(OsFileSystem):
        def open(self, path: str, create: bool = False) -> OsFile:
            counted = TRANSACTION_TOPIC in path and path.endswith(".log")
            return Counted(path, create) if counted else OsFile(path, create)

    async with serving(tmp_path, ONE) as broker:
        await served(broker)
        for number in range(40):
            await initialised(broker, f"t{number}")
        size = log_of(broker, TRANSACTION_TOPIC).size_bytes
    settings = {**ONE, "transaction.state.log.load.buffer.size": "600"}
    async with serving(tmp_path, settings, fs=Files()) as broker:
        reads.clear()
        await eventually("the load", lambda: not broker.loading)
        loads = [length for length in reads if length != LOCATE_CHUNK_BYTES]
        assert max(loads) <= 600
        assert sum(loads) >= size


async def test_transaction_timeout_above_the_maximum_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path, {**ONE, "transaction.max.timeout.ms": "5000"}) as broker:
        await served(broker)
        request = {
            "transactional_id": "t",
            "transaction_timeout_ms": 5001,
            "producer_id": -1,
            "producer_epoch": -1,
        }
        answer = await asked(broker, lambda wire: wire.call("InitProducerId", 4, request))
        assert answer["error_code"] == 50


@pytest.mark.parametrize("interval_ms", [10_000, 50_000])
async def test_timed_out_transaction_is_aborted_at_the_configured_interval(
    tmp_path: Path, interval_ms: int
) -> None:
    time = MockTime()
    name = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
    async with serving(tmp_path, {**ONE, name: str(interval_ms)}, time=time) as broker:
        await served(broker)
        await broker.topics.create(TOPIC, 3, {})
        producer = await initialised(broker, "t", timeout_ms=1000)
        assert await added(broker, producer) == 0
        time.move(interval_ms - 1)
        broker.transactions.tick()
        assert state_now(broker, "t") == "Ongoing"
        time.move(1)
        broker.transactions.tick()
        await eventually("its abort", lambda: state_now(broker, "t") == "CompleteAbort")


async def test_unused_transactional_id_expires(tmp_path: Path) -> None:
    time = MockTime()
    settings = {
        **ONE,
        "transactional.id.expiration.ms": "60000",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
    }
    async with serving(tmp_path, settings, time=time) as broker:
        await served(broker)
        await initialised(broker, "t")
        time.move(59_000)
        broker.transactions.tick()
        assert state_now(broker, "t") == "Empty"
        time.move(1_000)
        broker.transactions.tick()
        await eventually("it is gone", lambda: state_now(broker, "t") == "")


@pytest.mark.parametrize(("level", "version"), [("0", 0), ("1", 1), ("2", 1)])
async def test_transaction_version_sets_the_version_of_state_records(
    tmp_path: Path, level: str, version: int
) -> None:
    async with serving(tmp_path, {**ONE, "transaction.version": level}) as broker:
        await served(broker)
        producer = await initialised(broker, "t")
        await broker.topics.create(TOPIC, 3, {})
        assert await added(broker, producer, rules=TV1) == 0
        await ended(broker, producer, committed=True, rules=TV1)
        await eventually("commit", lambda: state_now(broker, "t") == "CompleteCommit")
        log = log_of(broker, TRANSACTION_TOPIC)
        from protocol.records.batch import records_of

        found = {
            int.from_bytes(record.value[:2], "big")
            for data, header in log.scan()
            for record in records_of(data, header)
            if record.value is not None
        }
        assert found == {version}
        fresh: Producer = await initialised(broker, "t")
        assert fresh.epoch == 1
        reply = await told(broker, lambda ticket: InitProducerId(ticket, "t", 1000, -1, -1))
        assert reply.producer_epoch == 2
