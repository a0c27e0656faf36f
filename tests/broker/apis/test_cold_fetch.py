"""Tests that a Fetch that reads from disk, or reads many partitions, does not delay other
clients."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from broker.broker import Broker
from protocol.errors import (
    KAFKA_STORAGE_ERROR,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    OFFSET_OUT_OF_RANGE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from protocol.records.compression import GZIP
from tests.broker.edge import Client
from tests.broker.serving import asked, eventually, serving
from tests.broker.topic_calls import create_topic, list_offset, produce
from tests.simulated_files import SimulatedFiles
from tests.wire import Wire, batch, values_of

DATA = "/data"


def fetching(
    partitions: int | list[tuple[int, int]] = 1, session: tuple[int, int] = (0, -1), **fields: Any
) -> dict[str, Any]:
    """Returns a Fetch request for the topic orders.

    ``partitions`` is a number of partitions, which are read from offset 0, or a list of pairs
    (partition, offset).
    """
    places = [(p, 0) for p in range(partitions)] if isinstance(partitions, int) else partitions
    wanted = [
        {"partition": p, "fetch_offset": offset, "partition_max_bytes": 1_000_000}
        for p, offset in places
    ]
    return {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": 50_000_000,
        "session_id": session[0],
        "session_epoch": session[1],
        "topics": [{"topic": "orders", "partitions": wanted}] if wanted else [],
        "rack_id": "",
        **fields,
    }


def partitions_of(answer: dict[str, Any]) -> list[dict[str, Any]]:
    return [entry for topic in answer["responses"] for entry in topic["partitions"]]


async def heartbeat(broker: Broker) -> int:
    beat = {"group_id": "g", "generation_id": 1, "member_id": "m"}
    answer = await asked(broker, lambda wire: wire.call("Heartbeat", 3, beat))
    code: int = answer["error_code"]
    return code


async def fill(broker: Broker, partitions: int = 1, **fields: Any) -> None:
    def work(wire: Wire) -> None:
        create_topic(wire, "orders", partitions)
        for partition in range(partitions):
            produce(wire, "orders", batch(b"%d" % partition, **fields), partition=partition)

    await asked(broker, work)


@pytest.mark.parametrize("version", [0, 3, 4, 9, 10, 12])
async def test_other_requests_are_served_while_a_fetch_waits_for_the_disk(version: int) -> None:
    fs = SimulatedFiles()
    async with serving(DATA, fs=fs) as broker:
        await fill(broker, 3)
        disk = fs.disk = threading.Event()

        reading = asyncio.ensure_future(
            asked(broker, lambda wire: wire.call("Fetch", version, fetching(3)))
        )
        await eventually("the disk is awaited", lambda: broker.server.disk_reads.done)
        assert await heartbeat(broker) != NONE, "it is in no group, and is told so"
        assert not reading.done()

        disk.set()
        entries = partitions_of(await reading)
        assert all(entry["error_code"] == NONE and entry["records"] for entry in entries)
        if version >= 4:
            assert [values_of(entry["records"]) for entry in entries] == [[b"0"], [b"1"], [b"2"]]
        fs.disk = None


async def test_fetch_reads_a_sealed_segment_whose_index_is_on_disk() -> None:
    fs = SimulatedFiles()
    async with serving(DATA, {"log.segment.bytes": "2000"}, fs=fs) as broker:
        await fill(broker)
        for number in range(20):
            await asked(broker, lambda w, n=number: produce(w, "orders", batch(b"%0500d" % n)))  # type: ignore[misc]
        fs.disk = threading.Event()
        fs.disk.set()

        answer = await asked(broker, lambda w: w.call("Fetch", 12, fetching([(0, 7)])))

        (entry,) = partitions_of(answer)
        assert values_of(entry["records"])[0] == b"%0500d" % 6
        assert broker.server.disk_reads.done > 0
        fs.disk = None


async def test_fetch_returns_unknown_topic_when_topic_is_deleted_during_disk_read() -> None:
    fs = SimulatedFiles()
    async with serving(DATA, fs=fs) as broker:
        await fill(broker)
        disk = fs.disk = threading.Event()
        reading = asyncio.ensure_future(asked(broker, lambda w: w.call("Fetch", 12, fetching())))
        await eventually("the disk is awaited", lambda: broker.server.disk_reads.done)
        entry = broker.logs.topics.pop("orders")
        broker.registry.hide("orders")

        disk.set()

        (found,) = partitions_of(await reading)
        assert found["error_code"] == UNKNOWN_TOPIC_OR_PARTITION
        broker.logs.topics["orders"] = entry
        broker.registry.show(entry.topic)
        fs.disk = None


async def test_fetch_returns_out_of_range_when_records_are_deleted_during_read() -> None:
    fs = SimulatedFiles()
    async with serving(DATA, fs=fs) as broker:
        await fill(broker)
        await asked(broker, lambda wire: produce(wire, "orders"))
        disk = fs.disk = threading.Event()
        reading = asyncio.ensure_future(asked(broker, lambda w: w.call("Fetch", 12, fetching())))
        await eventually("the disk is awaited", lambda: broker.server.disk_reads.done)
        broker.logs.topics["orders"].partitions[0].log.log_start_offset = 1

        disk.set()

        (found,) = partitions_of(await reading)
        assert found["error_code"] == OFFSET_OUT_OF_RANGE
        fs.disk = None


@pytest.mark.parametrize("version", [5, 6, 12])
async def test_error_code_of_a_disk_error_depends_on_the_fetch_version(version: int) -> None:
    """Clients of Fetch versions up to 5 may not know KAFKA_STORAGE_ERROR (KIP-112)."""
    fs = SimulatedFiles()
    async with serving(DATA, fs=fs) as broker:
        await fill(broker)
        fs.disk = threading.Event()
        fs.disk.set()
        fs.fail("read", ".log", count=100)

        (found,) = partitions_of(
            await asked(broker, lambda w: w.call("Fetch", version, fetching()))
        )

        assert found["error_code"] == (
            NOT_LEADER_OR_FOLLOWER if version < 6 else KAFKA_STORAGE_ERROR
        )
        fs.heal()
        fs.disk = None


async def test_fetch_returns_a_record_appended_during_the_disk_read() -> None:
    """The Fetch reaches the end of partition 0 and then waits for the disk read of partition 1."""
    fs = SimulatedFiles()
    async with serving(DATA, fs=fs) as broker:
        await fill(broker, 2)
        disk = fs.disk = threading.Event()
        wait = {"max_wait_ms": 20_000, "min_bytes": 80}
        client = await Client.connect(broker.sockets.addresses()[0][1])
        reading = client.send(1, 12, **fetching([(0, 1), (1, 0)], **wait))
        await eventually("the disk is awaited", lambda: broker.server.disk_reads.done)

        await asked(broker, lambda wire: produce(wire, "orders", batch(bytes(100))))
        disk.set()

        entries = partitions_of(await client.receive(reading))
        assert [values_of(entry["records"]) for entry in entries] == [[bytes(100)], [b"1"]]
        client.close()
        fs.disk = None


async def test_disconnect_during_the_disk_read_leaves_no_long_poll() -> None:
    fs = SimulatedFiles()
    async with serving(DATA, fs=fs) as broker:
        await fill(broker)
        disk = fs.disk = threading.Event()
        client = await Client.connect(broker.sockets.addresses()[0][1])
        client.send(1, 12, **fetching(max_wait_ms=20_000))
        await eventually("the disk is awaited", lambda: broker.server.disk_reads.done)
        client.close()
        await eventually("it has gone", lambda: not broker.server.connections)
        disk.set()
        await eventually("nobody waits", lambda: not len(broker.long_polls))
        fs.disk = None


async def test_incremental_fetch_of_1000_partitions_is_handled_in_slices(tmp_path: Path) -> None:
    partitions = 1000
    async with serving(tmp_path) as broker:
        await asked(broker, lambda wire: create_topic(wire, "orders", partitions))

        def fetch(wire: Wire) -> tuple[int, list[dict[str, Any]], list[dict[str, Any]]]:
            full = wire.call("Fetch", 12, fetching(partitions, (0, 0)))
            session = full["session_id"]
            empty = partitions_of(wire.call("Fetch", 12, fetching(0, (session, 1))))
            produce(wire, "orders", batch(b"news"), partition=777)
            return (
                len(partitions_of(full)),
                empty,
                partitions_of(wire.call("Fetch", 12, fetching(0, (session, 2)))),
            )

        turns: list[None] = []
        turn = broker.slicer.turn

        async def counted() -> None:
            turns.append(None)
            await turn()

        broker.slicer.turn = counted  # type: ignore[method-assign]
        full, empty, news = await asked(broker, fetch)

        assert full == partitions
        assert empty == []
        assert [(entry["partition_index"], values_of(entry["records"])) for entry in news] == [
            (777, [b"news"])
        ]
        assert len(turns) >= 3, "none of the three was done in one piece"


@pytest.mark.parametrize("version", [4, 12])
async def test_long_poll_over_many_partitions_ends_at_the_first_record(
    tmp_path: Path, version: int
) -> None:
    async with serving(tmp_path) as broker:
        await asked(broker, lambda wire: create_topic(wire, "orders", 300))
        client = await Client.connect(broker.sockets.addresses()[0][1])
        waiting = client.send(1, version, **fetching(300, max_wait_ms=20_000))
        await eventually("it waits", lambda: len(broker.long_polls))

        await asked(broker, lambda wire: produce(wire, "orders", batch(b"one"), partition=299))

        entries = partitions_of(await client.receive(waiting))
        assert values_of(entries[299]["records"]) == [b"one"]
        assert await asked(broker, lambda wire: list_offset(wire, "orders", -1)["offset"]) == 0
        client.close()


async def test_fetch_v1_gets_compressed_records_in_the_old_message_format() -> None:
    async with serving(DATA, fs=SimulatedFiles()) as broker:
        await fill(broker, compression=GZIP)

        (found,) = partitions_of(await asked(broker, lambda w: w.call("Fetch", 1, fetching())))

        assert found["records"]
        assert broker.metrics.fetch_conversions == 1
