"""Tests that altered broker settings take effect on a running broker. test_every_topic_setting.py
tests the settings that are defaults of topics."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from broker.topics.cleaner.cleaner_worker import CleaningFailed
from broker.topics.registry import TRANSACTION_TOPIC
from log.cleaner.clean_job import CleanJob
from protocol.errors import INVALID_COMMIT_OFFSET_SIZE, NONE
from protocol.messages.produce import API as PRODUCE
from protocol.records.batch import CREATE_TIME, LOG_APPEND_TIME
from tests.broker.config.orders import Orders, orders_of, records
from tests.broker.config.served import GROUP, Test
from tests.broker.edge import Client, eventually
from tests.broker.topic_calls import produce_request
from verdicts.thresholds import SETTINGS, Thresholds

OFFSETS = "__consumer_offsets"


def reconfigures(*settings: str) -> Callable[[Test], Test]:
    """Declares the dynamic settings that a test alters."""
    assert settings

    def unchanged(test: Test) -> Test:
        return test

    return unchanged


async def admitted(orders: Orders) -> bool:
    """Opens one more connection. Returns True if the broker responds on it."""
    client = await Client.connect(orders.broker.sockets.addresses()[0][1])
    try:
        client.send(18, 0)
        return len(await client.receive_raw()) > 0
    except (EOFError, ConnectionError):
        return False
    finally:
        client.close()


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("max.connections", "1"),
        ("max.connections.per.ip", "1"),
        ("max.connections.per.ip.overrides", "127.0.0.1:1"),
    ],
)
@reconfigures("max.connections", "max.connections.per.ip", "max.connections.per.ip.overrides")
async def test_altered_connection_limit_applies_to_new_connections(
    tmp_path: Path, setting: str, text: str
) -> None:
    async with orders_of(tmp_path) as orders:
        assert await admitted(orders)
        await eventually(lambda: len(orders.broker.server.connections) == 1)
        await orders.alter_broker({setting: text})
        assert not await admitted(orders)
        await orders.alter_broker({setting: None})
        assert await admitted(orders)


@reconfigures("max.connection.creation.rate")
async def test_altered_max_connection_creation_rate_delays_new_connections(tmp_path: Path) -> None:
    async with orders_of(tmp_path) as orders:
        await orders.alter_broker({"max.connection.creation.rate": "0"})
        rates = orders.broker.server.listener_rates
        assert rates is not None
        waiting = await Client.connect(orders.broker.sockets.addresses()[0][1])
        waiting.send(18, 0)
        await eventually(lambda: rates.waiting == 1)
        await orders.alter_broker({"max.connection.creation.rate": None})
        orders.pass_ms(1000)
        assert await waiting.receive_raw()


@reconfigures("producer.id.expiration.ms")
async def test_idle_producers_expire_after_the_altered_producer_id_expiration(
    tmp_path: Path,
) -> None:
    async with orders_of(tmp_path) as orders:
        idempotent = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
        await orders.produce(records(b"v", timestamp_ms=orders.now_ms, **idempotent))
        orders.pass_ms(10_000)
        await orders.broker.maintenance.expire_producers()
        assert len(orders.log.producers) == 1
        await orders.alter_broker({"producer.id.expiration.ms": "9000"})
        await orders.broker.maintenance.expire_producers()
        assert len(orders.log.producers) == 0


@reconfigures("transaction.partition.verification.enable")
async def test_altered_setting_for_partition_verification_applies_to_the_next_produce(
    tmp_path: Path,
) -> None:
    """The Produce version is older than KIP-890, and the partition was not added to the
    transaction."""
    async with orders_of(tmp_path) as orders:
        await orders.broker.topics.ensure(TRANSACTION_TOPIC)
        looked_up = []
        for producer_id, text in ((7, None), (8, "false"), (9, "true")):
            await orders.alter_broker({"transaction.partition.verification.enable": text})
            header = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0}
            data = records(b"v", timestamp_ms=orders.now_ms, **header, is_transactional=True)
            request = produce_request("orders", data, transactional_id="payer")
            answer = await orders.served.client.call(PRODUCE.key, 9, **request)
            code = answer["responses"][0]["partition_responses"][0]["error_code"]
            looked_up.append(code != NONE)
        assert looked_up == [True, False, True]


@reconfigures(
    "group.verdict.abandoned.ms",
    "group.verdict.blocked.ms",
    "group.verdict.stuck.record.ms",
    "group.verdict.dead.letter.ms",
    "group.verdict.flapping.ms",
    "group.verdict.refused.ms",
    "group.verdict.flapping.rebalances",
    "group.verdict.flapping.returns",
    "group.verdict.held.back.ms",
    "group.verdict.lagging.ms",
    "group.verdict.locks.expire.ms",
    "group.verdict.not.ready.ms",
    "group.verdict.stalled.ms",
)
async def test_altered_verdict_thresholds_apply_to_groups(tmp_path: Path) -> None:
    async with orders_of(tmp_path) as orders:
        for name, field in SETTINGS.items():
            await orders.alter_broker({name: "7"})
            assert orders.broker.verdicts.thresholds() == Thresholds(**{field: 7})
            await orders.alter_broker({name: None})

        await orders.fill()
        await orders.served.client.commit(GROUP, 1)
        orders.pass_ms(10)
        for at_most, verdict in ((None, "OK"), ("9", "ABANDONED")):
            await orders.alter_broker({"group.verdict.abandoned.ms": at_most})
            await orders.broker.verdicts.judge_all()
            group = orders.served.hosted.core.view.groups[GROUP]
            assert orders.broker.verdicts.of(orders.served.hosted, group).verdict == verdict


@reconfigures(
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.io.buffer.load.factor",
    "log.cleaner.io.max.bytes.per.second",
)
async def test_altered_cleaner_memory_and_rate_apply_to_the_next_cleaning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: list[CleanJob] = []

    async def noted(self: Any, job: CleanJob, *rest: Any) -> None:
        jobs.append(job)
        raise CleaningFailed("it is the job alone that is looked at")

    monkeypatch.setattr("broker.topics.cleaner.cleaner_worker.CleanerWorker.clean", noted)
    async with orders_of(tmp_path) as orders:
        await orders.alter({"cleanup.policy": "compact"})
        await orders.produce(records(b"1", key=b"k"))
        orders.log.roll()
        await orders.broker.cleaning.clean_dirtiest()
        await orders.alter_broker(
            {
                "log.cleaner.dedupe.buffer.size": "10000000",
                "log.cleaner.io.buffer.load.factor": "0.5",
                "log.cleaner.io.max.bytes.per.second": "12345.0",
            }
        )
        orders.pass_ms(10_000_000)
        await orders.broker.cleaning.clean_dirtiest()

    assert [(job.map_bytes, job.bytes_per_second) for job in jobs] == [
        (int(134217728 * 0.9), 0.0),
        (5_000_000, 12345.0),
    ]


@reconfigures("log.cleaner.backoff.ms")
async def test_altered_cleaner_backoff_applies_immediately(tmp_path: Path) -> None:
    async with orders_of(tmp_path, log_cleaner_backoff_ms=3_600_000) as orders:
        await orders.alter({"cleanup.policy": "compact"})
        await orders.produce(records(b"1", key=b"k"))
        orders.log.roll()
        await orders.alter_broker({"log.cleaner.backoff.ms": "1"})
        await eventually(lambda: orders.broker.cleaning.runs)


@reconfigures("num.recovery.threads.per.data.dir")
async def test_altered_number_of_recovery_threads_applies_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pools: list[int] = []

    class Noted(ThreadPoolExecutor):
        def __init__(self, threads: int, thread_name_prefix: str) -> None:
            if thread_name_prefix == "recovery":
                pools.append(threads)
            super().__init__(threads, thread_name_prefix)

    async with orders_of(tmp_path) as orders:
        await orders.alter_broker({"num.recovery.threads.per.data.dir": "3"}, "1")
    monkeypatch.setattr("broker.time.ThreadPoolExecutor", Noted)
    async with orders_of(tmp_path):
        assert pools == [3]


# -- the offsets topic


async def test_commit_above_the_altered_max_message_bytes_is_refused(
    tmp_path: Path,
) -> None:
    async with orders_of(tmp_path) as orders:
        client = orders.served.client
        assert await client.commit(GROUP, 1) == NONE
        await orders.alter({"max.message.bytes": "100"}, OFFSETS)
        assert await client.commit(GROUP, 2) == INVALID_COMMIT_OFFSET_SIZE
        await orders.alter({"max.message.bytes": None}, OFFSETS)
        await orders.alter_broker({"message.max.bytes": "100"})
        assert await client.commit(GROUP, 3) == INVALID_COMMIT_OFFSET_SIZE
        await orders.alter_broker({"message.max.bytes": None})
        assert await client.commit(GROUP, 4) == NONE


async def test_commits_are_compressed_with_the_altered_compression_type(tmp_path: Path) -> None:
    async with orders_of(tmp_path, offsets_topic_compression_codec=1) as orders:
        client = orders.served.client
        assert await client.commit(GROUP, 1) == NONE
        await orders.alter({"compression.type": "lz4"}, OFFSETS)
        assert await client.commit(GROUP, 2) == NONE

        assert [header.compression for _, header in orders.served.hosted.log.scan()] == [1, 3]
    async with orders_of(tmp_path, offsets_topic_compression_codec=1) as orders:
        assert await orders.served.client.commit(GROUP, 3) == NONE
        *_, (_, last) = orders.served.hosted.log.scan()
        assert last.compression == 3, "it is kept"


async def test_commits_have_the_timestamps_of_the_altered_timestamp_type(
    tmp_path: Path,
) -> None:
    """As in Apache Kafka 4.3.1, the new type applies to later commits only. After a restart, the
    group is loaded from batches of both types."""
    async with orders_of(tmp_path) as orders:
        client = orders.served.client
        assert await client.commit(GROUP, 1) == NONE
        await orders.alter({"message.timestamp.type": "LogAppendTime"}, OFFSETS)
        assert await client.commit(GROUP, 2) == NONE

        log = orders.served.hosted.log
        assert [header.timestamp_type for _, header in log.scan()] == [CREATE_TIME, LOG_APPEND_TIME]
    async with orders_of(tmp_path) as orders:
        assert await orders.served.client.fetch(GROUP) == 2
