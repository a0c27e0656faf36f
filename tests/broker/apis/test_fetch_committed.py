"""Tests Fetch and ListOffsets with read_committed, during open transactions and after their end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker.broker import Broker
from log.values import Marker
from protocol.errors import NONE
from tests.broker.partitions import log_of, partition_of
from tests.broker.serving import asked, eventually, serving
from tests.broker.topic_calls import create_topic, fetch, list_offset
from tests.log import log_tools
from tests.log.log_tools import NOW_MS
from tests.wire import Wire, values_of

COMMITTED = 1


class Producers:
    """Appends records of transactional producers and their markers to partition 0 of a topic."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.partition = partition_of(broker, topic)
        self.sequences: dict[int, int] = {}

    def send(self, producer_id: int, value: bytes) -> None:
        sequence = self.sequences.get(producer_id, 0)
        self.sequences[producer_id] = sequence + 1
        producer = (producer_id, 0, sequence)
        data = log_tools.batch(0, value, producer=producer, transactional=True)
        self.partition.append(data, NOW_MS)

    def end(self, producer_id: int, committed: bool) -> None:
        self.partition.append_marker(Marker(producer_id, 0, 0, committed), NOW_MS)


async def created(broker: Broker, topic: str = "t") -> Producers:
    await asked(broker, lambda wire: create_topic(wire, topic))
    return Producers(broker, topic)


def starts(answer: dict[str, Any]) -> list[tuple[int, int]] | None:
    if answer["aborted_transactions"] is None:
        return None
    return [(each["producer_id"], each["first_offset"]) for each in answer["aborted_transactions"]]


@pytest.mark.parametrize("version", [*range(4, 13)])
async def test_read_committed_fetch_returns_aborted_transactions_in_each_version(
    tmp_path: Path, version: int
) -> None:
    async with serving(tmp_path) as broker:
        producers = await created(broker)
        for producer_id, value in ((7, b"a"), (8, b"b"), (7, b"c")):
            producers.send(producer_id, value)
        producers.end(7, False)
        producers.send(7, b"d")
        producers.end(8, True)

        def read(offset: int, level: int, size: int = 1 << 20) -> Any:
            def ask(wire: Wire) -> tuple[int, int, Any, list[bytes | None]]:
                answer = fetch(
                    wire, "t", offset, version, isolation_level=level, partition_max_bytes=size
                )
                assert answer["error_code"] == NONE
                assert answer["high_watermark"] == 6
                stable = answer["last_stable_offset"]
                values = [value for value in values_of(answer["records"]) if len(value or b"") == 1]
                return stable, len(answer["records"] or b""), starts(answer), values

            return asked(broker, ask)

        stable, size, aborted, values = await read(0, COMMITTED)
        assert (stable, aborted, values) == (4, [(7, 0)], [b"a", b"b", b"c"])
        assert (await read(0, COMMITTED, size // 8))[2:] == ([(7, 0)], [b"a"])
        assert (await read(3, COMMITTED))[2:] == ([(7, 0)], []), "its marker is there"
        assert (await read(4, COMMITTED))[1:] == (0, [], []), "at the last stable offset"
        assert (await read(6, COMMITTED))[1:] == (0, [], []), "behind it is no error"
        assert (await read(0, 0))[2:] == (None, [b"a", b"b", b"c", b"d"])
        producers.end(7, True)


@pytest.mark.proves("transactions 17")
async def test_fetch_omits_aborted_transactions_that_begin_after_the_returned_bytes(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as broker:
        producers = await created(broker)
        for number in range(40):
            producers.send(8, b"%d" % number)
        producers.end(8, True)
        producers.send(7, b"aborted")
        producers.end(7, False)
        size = log_of(broker, "t").size_bytes

        def ask(wire: Wire) -> list[Any]:
            return [
                starts(fetch(wire, "t", 0, isolation_level=COMMITTED, partition_max_bytes=most))
                for most in (1, size // 2, size)
            ]

        assert await asked(broker, ask) == [[], [], [(7, 41)]]


@pytest.mark.proves("transactions 19")
async def test_waiting_read_committed_fetch_is_answered_when_the_marker_is_written(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as broker:
        producers = await created(broker)
        polls = broker.long_polls
        times = asyncio.get_running_loop().time
        waits = asyncio.create_task(
            asked(
                broker,
                lambda wire: fetch(wire, "t", isolation_level=COMMITTED, max_wait_ms=30_000),
            )
        )
        await eventually("it waits", lambda: len(polls) == 1)
        began = times()
        for value in (b"a", b"b", b"c"):
            producers.send(7, value)
            await asyncio.sleep(0)
            assert not polls._woken
        producers.end(7, True)
        answer = await waits
        assert times() - began < 10, "long before its time is over"
        assert answer["last_stable_offset"] == 4
        assert values_of(answer["records"])[:3] == [b"a", b"b", b"c"]


@pytest.mark.proves("transactions 18")
async def test_log_end_offset_after_a_transaction_is_after_its_marker(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        producers = await created(broker)
        producers.send(7, b"a")

        def ends(wire: Wire) -> list[int]:
            levels = (0, COMMITTED)
            return [list_offset(wire, "t", -1, isolation_level=level)["offset"] for level in levels]

        assert await asked(broker, ends) == [1, 0]
        producers.end(7, True)
        assert await asked(broker, ends) == [2, 2]
        answer = await asked(broker, lambda wire: fetch(wire, "t", 2, isolation_level=COMMITTED))
        assert (answer["error_code"], answer["records"]) == (NONE, b"")
        producers.send(7, b"b")
        producers.end(7, True)
        answer = await asked(broker, lambda wire: fetch(wire, "t", 2, isolation_level=COMMITTED))
        assert values_of(answer["records"])[0] == b"b", "the next record, and none is passed over"


@pytest.mark.proves("transactions 29")
async def test_recreated_topic_has_no_producers_of_the_deleted_topic(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        (await created(broker)).send(7, b"a")
        assert partition_of(broker, "t").last_stable_offset == 0

        def delete(wire: Wire) -> Any:
            return wire.call("DeleteTopics", 5, {"topic_names": ["t"], "timeout_ms": 10_000})

        await asked(broker, delete)
        producers = await created(broker)
        assert len(producers.partition.log.producers) == 0
        producers.end(7, False)
        producers.send(7, b"a")
        assert producers.partition.last_stable_offset == 1
        producers.end(7, True)
        assert producers.partition.last_stable_offset == 3
        assert log_of(broker, "t").aborted_between(0, 9) == []
