"""Transactions in a partition: the last stable offset, and the waiting fetches that wake when it
advances."""

from __future__ import annotations

from typing import Any

import pytest

from broker.topics.long_poll import Waiter
from log.errors import LogPoisoned
from log.values import Marker
from tests.broker.topics.test_partition_queue import House, settled
from tests.log.log_tools import NOW_MS, batch


class Transactions(House):
    """A partition with transactional producers, and with one waiting consumer for each isolation
    level."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.sequences: dict[int, int] = {}
        self.woken: dict[str, int] = {"committed": 0, "uncommitted": 0}
        """How often the consumer of each isolation level was woken."""
        self._waiters = [self._waiter("committed", True), self._waiter("uncommitted", False)]
        for waiter in self._waiters:
            self.long_polls.wait(waiter)

    def _waiter(self, name: str, committed: bool) -> Waiter:
        def wake(_: bool) -> None:
            self.woken[name] += 1

        return Waiter([("t", 0)], self.time.mono_ms + 30_000, 1, wake, committed)

    def send(self, producer_id: int) -> None:
        sequence = self.sequences.get(producer_id, 0)
        self.sequences[producer_id] = sequence + 1
        data = batch(0, producer=(producer_id, 0, sequence), transactional=True)
        self.partition.append(data, NOW_MS)

    def end(self, producer_id: int, committed: bool = True) -> None:
        self.partition.append_marker(Marker(producer_id, 0, 0, committed), NOW_MS)

    async def wakes(self) -> tuple[int, int]:
        """Returns how often the read_committed consumer and the read_uncommitted consumer were
        woken since the last call of this method. Afterwards, each consumer waits until one more
        byte arrives."""
        await settled()
        counts = self.woken["committed"], self.woken["uncommitted"]
        self.woken = {"committed": 0, "uncommitted": 0}
        for waiter in self._waiters:
            waiter.missing_bytes = 1
        return counts

    @property
    def ends(self) -> tuple[int, int]:
        """Returns the last stable offset and the high watermark of the partition."""
        return self.partition.last_stable_offset, self.partition.high_watermark


@pytest.mark.proves("transactions 18")
async def test_transaction_end_wakes_waiting_read_committed_consumers() -> None:
    house = Transactions()
    house.append()
    assert await house.wakes() == (1, 1)
    house.send(7)
    house.send(7)
    assert (house.ends, await house.wakes()) == ((1, 3), (0, 1))
    house.append()
    assert (house.ends, await house.wakes()) == ((1, 4), (0, 1)), "it is behind the open one"
    house.end(7)
    assert (house.ends, await house.wakes()) == ((5, 5), (1, 1))
    house.append()
    assert (house.ends, await house.wakes()) == ((6, 6), (1, 1))


async def test_read_committed_consumer_wakes_when_the_oldest_transaction_ends() -> None:
    house = Transactions()
    for producer_id in (7, 8, 9):
        house.send(producer_id)
    assert (house.ends, await house.wakes()) == ((0, 3), (0, 1))
    house.end(8)
    assert (house.ends, await house.wakes()) == ((0, 4), (0, 1))
    house.end(7, committed=False)
    assert (house.ends, await house.wakes()) == ((2, 5), (1, 1))
    house.end(9)
    assert (house.ends, await house.wakes()) == ((6, 6), (1, 1))


async def test_marker_wakes_all_consumers_when_no_transaction_is_open() -> None:
    house = Transactions()
    house.end(7, committed=False)
    assert (house.ends, await house.wakes()) == ((1, 1), (1, 1))


@pytest.mark.proves("transactions 18")
async def test_last_stable_offset_advances_when_the_marker_is_flushed() -> None:
    """With flush settings, a power loss before the flush can remove the marker and the records of
    the transaction."""
    house = Transactions(flush_messages=4)
    house.time.disk.clear()
    house.append()
    house.send(7)
    assert house.ends == (1, 2)
    house.send(8)
    house.end(7)
    await settled()
    assert house.ends == (1, 3), "the marker waits for a flush"
    await house.wakes()
    house.time.disk.set()
    await settled()
    assert (house.ends, await house.wakes()) == ((2, 4), (1, 1))
    house.end(8)
    assert house.ends == (5, 5)


async def test_last_stable_offset_advances_only_when_every_marker_is_flushed() -> None:
    house = Transactions(flush_messages=2)
    house.time.disk.clear()
    house.send(7)
    house.send(8)
    house.end(8)
    house.end(7)
    assert house.ends == (0, 1)
    assert list(house.partition.log.producers.ended) == [(3, 0)]
    house.time.disk.set()
    await settled()
    assert house.ends == (4, 4)
    assert not house.partition.log.producers.ended


@pytest.mark.proves("transactions 36")
async def test_last_stable_offset_is_at_least_the_log_start_offset() -> None:
    house = Transactions()
    house.send(7)
    house.append(3)
    house.partition.log.delete_records(2, house.partition.high_watermark)
    assert house.ends == (2, 4)
    assert house.partition.log.producers.in_transaction(7, 0)
    house.end(7)
    assert house.ends == (5, 5)


@pytest.mark.parametrize("suffix", [".log", ".txnindex"])
async def test_failed_marker_write_leaves_the_transaction_open(suffix: str) -> None:
    house = Transactions()
    house.send(7)
    house.fs.fail("write", suffix)
    with pytest.raises(LogPoisoned):
        house.end(7, committed=False)
    assert house.ends == (0, 1)
    assert house.partition.log.producers.in_transaction(7, 0)
    assert house.partition.log.aborted_between(0, 10) == []
    assert house.partition.is_probing
    house.fs.heal()
    await settled()
    await house.time.wake()
    house.end(7, committed=False)
    assert house.ends == (2, 2)
    assert house.partition.log.aborted_between(0, 10) == [(7, 0)]
