"""Muster opens the data directory of an Apache Kafka that was killed during transactions, and
continues these transactions."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pytest

from broker.broker import Broker
from coordinator.calls import OffsetFetch
from protocol.records.stored import iter_stored, stored_records
from tests.broker.edge import Taker
from tests.broker.mock_time import MockTime
from tests.broker.partitions import partition_of
from tests.broker.serving import asked, eventually, serving
from tests.broker.topic_calls import fetch
from tests.broker.transactions import (
    Producer,
    append,
    ended,
    initialised,
    markers,
    state_now,
    told,
)
from tests.wire import Wire
from transactions.calls import TV1, TV2, EndTransaction

SOURCE = Path(__file__).parents[2] / "data" / "kafka-transactions"
KILLED_MS = 1_795_377_321_000
TIMEOUT_MS = 600_000
IDS = ["empty", "committed", "aborted", "open-tv1", "open-tv2", "prepared-commit", "prepared-abort"]


@pytest.fixture
def kafkas(tmp_path: Path) -> Path:
    with tarfile.open(SOURCE / "data.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "data"


def time_after(seconds: int) -> MockTime:
    return MockTime(KILLED_MS + 1000 * seconds)


async def settled(broker: Broker) -> None:
    await eventually("the load", lambda: not broker.loading)
    await eventually("markers are written", lambda: not broker.markers.sendings)


def read_committed(wire: Wire, partition: int) -> list[str]:
    """Returns the values that a consumer with isolation level read_committed reads."""
    answer = fetch(wire, "orders", partition=partition, isolation_level=1)
    aborted = {
        (each["producer_id"], each["first_offset"]) for each in answer["aborted_transactions"]
    }
    ignored: set[int] = set()
    values = []
    for header, _ in iter_stored(answer["records"]):
        if header.is_control:
            ignored.discard(header.producer_id)
            continue
        if (header.producer_id, header.base_offset) in aborted:
            ignored.add(header.producer_id)
        if header.producer_id not in ignored:
            values += [
                record.value.decode() for record in stored_records(answer["records"], header)
            ]
    return values


async def committed_by(broker: Broker, partition: int) -> list[str]:
    return await asked(broker, lambda wire: read_committed(wire, partition))


async def test_start_completes_prepared_transactions_of_kafka_and_keeps_open_transactions(
    kafkas: Path,
) -> None:
    async with serving(kafkas, time=time_after(20)) as broker:
        await settled(broker)
        assert {name: state_now(broker, name) for name in IDS} == {
            "empty": "Empty",
            "committed": "CompleteCommit",
            "aborted": "CompleteAbort",
            "open-tv1": "Ongoing",
            "open-tv2": "Ongoing",
            "prepared-commit": "CompleteCommit",
            "prepared-abort": "CompleteAbort",
        }
        for place in range(3):
            found = markers(broker, place)
            assert [(each.epoch, each.committed) for each in found if each.producer_id == 5] == [
                (1, True)
            ]
            assert [(each.epoch, each.committed) for each in found if each.producer_id == 6] == [
                (1, False),
                (1, False),
            ], "Kafka's, and the one that was asked for again"
            assert found[-1].coordinator_epoch == 1, "above Kafka's, which was 0"
            assert partition_of(broker, "orders", place).last_stable_offset == 4, (
                "open-tv1 holds it"
            )

        await ended(broker, Producer("open-tv1", 3, 0), committed=True, rules=TV1)
        await ended(broker, Producer("open-tv2", 4, 0), committed=False, rules=TV2)
        await eventually("commit", lambda: state_now(broker, "open-tv1") == "CompleteCommit")
        await eventually("abort", lambda: state_now(broker, "open-tv2") == "CompleteAbort")
        for place in range(3):
            partition = partition_of(broker, "orders", place)
            assert partition.last_stable_offset == partition.high_watermark
            assert await committed_by(broker, place) == [
                f"{name}-{place}" for name in ("committed", "open-tv1", "prepared-commit")
            ]
        assert await offsets_of(broker, "g") == {0: 11, 1: 22}


async def offsets_of(broker: Broker, group_id: str) -> dict[int, int]:
    replies: list[Any] = []
    broker.groups.submit(group_id, OffsetFetch(Taker(replies.append), group_id, None))
    await eventually("an answer", lambda: replies)
    kept = broker.groups.view_of(group_id).offsets
    return {
        partition: kept.get(group_id, "orders", partition).offset
        for partition in kept.partitions(group_id, "orders")
    }


async def test_producer_ids_that_kafka_assigned_are_not_assigned_again(kafkas: Path) -> None:
    async with serving(kafkas, time=time_after(20)) as broker:
        await settled(broker)
        assert await broker.producer_ids.take() == 7
        fresh = await initialised(broker, "fresh")
        assert fresh.producer_id == 8


@pytest.mark.proves("transactions 24")
async def test_open_transaction_of_kafka_is_aborted_at_its_timeout(kafkas: Path) -> None:
    """The timeout passes while no broker runs. Muster then aborts the transaction after its own
    start."""
    time = time_after(TIMEOUT_MS // 1000 + 60)
    async with serving(kafkas, time=time) as broker:
        await eventually("the load", lambda: not broker.loading)
        time.move(10_000)
        broker.transactions.tick()
        await eventually("abort", lambda: state_now(broker, "open-tv1") == "CompleteAbort")
        await eventually("abort", lambda: state_now(broker, "open-tv2") == "CompleteAbort")
        assert await offsets_of(broker, "g") == {0: 11}
        for place in range(3):
            expected = [f"{name}-{place}" for name in ("committed", "prepared-commit")]
            assert await committed_by(broker, place) == expected
        late = await told(
            broker, lambda ticket: EndTransaction(ticket, "open-tv1", 3, 0, True, TV1)
        )
        assert late.error_code == 90, "the zombie is fenced"


async def test_init_producer_id_for_a_transactional_id_of_kafka_returns_the_next_epoch(
    kafkas: Path,
) -> None:
    async with serving(kafkas, time=time_after(20)) as broker:
        await settled(broker)
        fresh = await initialised(broker, "prepared-commit")
        assert (fresh.producer_id, fresh.epoch) == (5, 2)
        append(broker, fresh, 0)
        assert partition_of(broker, "orders", 0).last_stable_offset == 4
