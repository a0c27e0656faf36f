"""Tests that Produce requests whose records take long to check do not delay other clients.

The worker pool has one thread, so that a test can block it with one job.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from broker.broker import Broker
from broker.loop.slices import SLICE_NS
from protocol.errors import (
    MESSAGE_TOO_LARGE,
    NONE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from protocol.messages.produce import API as PRODUCE
from protocol.records.batch import LOG_APPEND_TIME, assemble_batch, read_header
from protocol.records.budget import Budget
from protocol.records.compression import GZIP
from protocol.records.produce import SMALL_BUDGET
from protocol.records.varint import encode_varint
from tests.broker.counting import counted
from tests.broker.edge import Client
from tests.broker.serving import asked, eventually, serving
from tests.broker.topic_calls import create_topic, fetch, list_offset, produce_request
from tests.wire import Wire, batch, values_of

MIB = 1024 * 1024
LARGE = bytes(2 * MIB)
"""A value that is too large to be checked in the event loop. Compressed with gzip it has about 2
kB."""


def gzip_batch(*values: bytes) -> bytes:
    return batch(*values, compression=GZIP)


def batch_of_large_records(mebibytes: int) -> bytes:
    """Returns a gzip batch of ``mebibytes`` records. Each record has a value of 1 MiB minus 1
    KiB."""
    value = bytes(MIB - 1024)
    section = bytearray()
    for index in range(mebibytes):
        body = b"\0" + encode_varint(0) + encode_varint(index) + b"\x01"
        body += encode_varint(len(value)) + value + b"\0"
        section += encode_varint(len(body)) + body
    return bytes(assemble_batch(section, mebibytes, 0, 1_000, 1_000, compression=GZIP))


@asynccontextmanager
async def blocked_worker(broker: Broker) -> AsyncIterator[Callable[[], None]]:
    """Blocks the worker thread until the caller calls the yielded function or the context ends."""
    release = threading.Event()
    holding = asyncio.ensure_future(broker.worker.run("the test", release.wait))
    try:
        yield release.set
    finally:
        release.set()
        await asyncio.wait([holding])


def waiting(broker: Broker) -> bool:
    """Returns True if the records of a request wait for the worker thread."""
    return any(queue for queue in broker.worker._queues.values())


async def test_other_requests_are_served_while_a_large_produce_is_checked(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker, blocked_worker(broker) as release:
        await asked(broker, lambda wire: create_topic(wire, "orders"))
        records = gzip_batch(LARGE)
        large = asyncio.ensure_future(
            asked(broker, lambda w: w.call("Produce", 9, produce_request("orders", records)))
        )
        await eventually("the large one waits", lambda: waiting(broker))

        small = await asked(
            broker, lambda w: w.call("Produce", 9, produce_request("orders", gzip_batch(b"small")))
        )

        assert small["responses"][0]["partition_responses"][0]["base_offset"] == 0
        assert not large.done()
        release()
        answer = await large
        assert answer["responses"][0]["partition_responses"][0]["base_offset"] == 1


@pytest.mark.parametrize("acks", [0, 1])
async def test_later_produce_is_appended_after_a_large_produce_of_its_connection(
    tmp_path: Path, acks: int
) -> None:
    async with serving(tmp_path) as broker:
        await asked(broker, lambda wire: create_topic(wire, "orders"))
        async with blocked_worker(broker) as release:
            client = await Client.connect(broker.sockets.addresses()[0][1])
            client.send(PRODUCE.key, 9, **produce_request("orders", gzip_batch(LARGE), acks=acks))
            last = client.send(PRODUCE.key, 9, **produce_request("orders", batch(b"last")))
            await eventually("the large one waits", lambda: waiting(broker))
            release()
            if acks:
                await client.receive_raw()
            await client.receive(last)
            client.close()

        read = await asked(broker, lambda wire: values_of(fetch(wire, "orders")["records"]))
        assert read == [LARGE, b"last"]


async def test_large_produce_is_refused_when_its_topic_was_deleted(tmp_path: Path) -> None:
    """The records are not appended to a recreated topic of the same name."""
    async with serving(tmp_path) as broker:
        await asked(broker, lambda wire: create_topic(wire, "orders"))
        async with blocked_worker(broker) as release:
            large = asyncio.ensure_future(
                asked(
                    broker,
                    lambda w: w.call("Produce", 9, produce_request("orders", gzip_batch(LARGE))),
                )
            )
            await eventually("it waits", lambda: waiting(broker))
            delete = {"topic_names": ["orders"], "timeout_ms": 10_000}
            await asked(broker, lambda wire: wire.call("DeleteTopics", 5, delete))
            await asked(broker, lambda wire: create_topic(wire, "orders"))
            release()
            answer = await large

        entry = answer["responses"][0]["partition_responses"][0]
        assert entry["error_code"] == UNKNOWN_TOPIC_OR_PARTITION
        assert await asked(broker, lambda wire: list_offset(wire, "orders", -1)["offset"]) == 0


async def test_queued_large_produce_follows_changed_topic_settings(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        await asked(broker, lambda wire: create_topic(wire, "orders"))
        async with blocked_worker(broker) as release:
            large = asyncio.ensure_future(
                asked(
                    broker,
                    lambda w: w.call("Produce", 9, produce_request("orders", gzip_batch(LARGE))),
                )
            )
            await eventually("it waits", lambda: waiting(broker))
            change = {
                "resource_type": 2,
                "resource_name": "orders",
                "configs": [{"name": "message.timestamp.type", "value": "LogAppendTime"}],
            }
            await asked(
                broker,
                lambda w: w.call(
                    "AlterConfigs", 1, {"resources": [change], "validate_only": False}
                ),
            )
            release()
            answer = await large

        entry = answer["responses"][0]["partition_responses"][0]
        assert entry["error_code"] == NONE
        assert entry["log_append_time_ms"] > 1_000
        stored = await asked(broker, lambda wire: fetch(wire, "orders")["records"])
        assert read_header(stored).timestamp_type == LOG_APPEND_TIME


@pytest.mark.parametrize("acks", [0, 1])
async def test_large_produce_after_a_disconnect_is_appended_only_with_acks_0(
    tmp_path: Path, acks: int
) -> None:
    """A producer that waits for a response may send the records again. A producer with acks=0 does
    not."""
    async with serving(tmp_path) as broker:
        await asked(broker, lambda wire: create_topic(wire, "orders"))
        async with blocked_worker(broker) as release:
            client = await Client.connect(broker.sockets.addresses()[0][1])
            client.send(PRODUCE.key, 9, **produce_request("orders", gzip_batch(LARGE), acks=acks))
            await eventually("it waits", lambda: waiting(broker))
            client.close()
            await eventually("it has gone", lambda: not broker.server.connections)
            release()
        await eventually("all is done", lambda: not broker.background.tasks)

        end = await asked(broker, lambda wire: list_offset(wire, "orders", -1)["offset"])
        assert end == (1 if acks == 0 else 0)


@pytest.mark.campaign
async def test_stopping_broker_does_not_append_a_queued_large_produce(tmp_path: Path) -> None:
    release = threading.Event()
    async with serving(tmp_path) as broker:
        await asked(broker, lambda wire: create_topic(wire, "orders"))
        log = broker.logs.topics["orders"].partitions[0].log
        client = await Client.connect(broker.sockets.addresses()[0][1])
        holding = asyncio.ensure_future(broker.worker.run("the test", release.wait))
        client.send(PRODUCE.key, 9, **produce_request("orders", gzip_batch(LARGE), acks=0))
        await eventually("it waits", lambda: waiting(broker))
    release.set()
    client.close()

    assert holding.cancelled()
    assert not broker.background.tasks
    assert log.log_end_offset == 0


async def test_decompressed_bytes_of_a_produce_are_bounded(tmp_path: Path) -> None:
    """Three batches of 50 MiB are compressed to 150 kB. The broker refuses the third batch and
    accepts a small fourth batch."""
    async with serving(tmp_path) as broker:
        await asked(broker, lambda wire: create_topic(wire, "orders", partitions=4))
        bomb = batch_of_large_records(50)
        partitions = [(0, bomb), (1, bomb), (2, bomb), (3, gzip_batch(b"small"))]

        answer = await asked(broker, lambda wire: wire.call("Produce", 9, request(partitions)))

        entries = answer["responses"][0]["partition_responses"]
        assert [entry["error_code"] for entry in entries] == [NONE, NONE, MESSAGE_TOO_LARGE, NONE]
        assert entries[2]["error_message"].endswith("send smaller requests.")


async def test_record_with_ten_million_headers_is_refused(
    tmp_path: Path,
) -> None:
    count = 10_000_000
    body = b"\0\0\0\x01\x01" + encode_varint(count) + b"\0\x01" * count
    section = encode_varint(len(body)) + body
    records = bytes(assemble_batch(section, 1, 0, 1_000, 1_000, compression=GZIP))
    async with serving(tmp_path) as broker:
        await asked(broker, lambda wire: create_topic(wire, "orders"))

        answer = await asked(broker, lambda w: w.call("Produce", 9, request([(0, records)])))

        entry = answer["responses"][0]["partition_responses"][0]
        assert entry["error_code"] == MESSAGE_TOO_LARGE


@pytest.mark.parametrize("version", [2, 8, 9, 13])
async def test_produce_of_18_000_partitions_is_handled_in_slices(
    tmp_path: Path, version: int
) -> None:
    async with serving(tmp_path) as broker:
        topic_id = (await asked(broker, lambda wire: create_topic(wire, "orders")))["topic_id"]
        many = request([(0, None), (1, None)] * 9_000, topic_id)
        turns = counted(broker.slicer, "turn")
        jobs = counted(broker.worker, "run")

        answer = await asked(broker, lambda wire: wire.call("Produce", version, many))

        entries = answer["responses"][0]["partition_responses"]
        assert len(entries) == 18_000
        assert entries[1]["error_code"] == UNKNOWN_TOPIC_OR_PARTITION
        assert len(turns) > 2
        assert len(jobs) == 2, "it was decoded, and its answer made, by the worker"


async def test_long_malformed_produce_closes_the_connection(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:

        def send(wire: Wire) -> bool:
            wire.send_body("Produce", 9, b"\0\0\0\0\0\0\0\x02\x02a" + bytes(100_000))
            return wire.is_closed()

        assert await asked(broker, send)
        assert broker.server.protocol_errors == 1


def test_batch_of_default_max_message_bytes_is_checked_in_one_slice() -> None:
    budget = Budget(*SMALL_BUDGET)
    budget.open(0, bytes(1048588 - 61), 100 * MIB)
    budget.take(1000)
    assert SLICE_NS < 10_000_000


def request(
    partitions: Sequence[tuple[int, bytes | None]], topic_id: bytes = b""
) -> dict[str, Any]:
    data = [{"index": index, "records": records} for index, records in partitions]
    topics = [{"name": "orders", "topic_id": topic_id or bytes(16), "partition_data": data}]
    return {"transactional_id": None, "acks": -1, "timeout_ms": 30_000, "topic_data": topics}
