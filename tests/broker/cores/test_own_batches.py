"""Tests the batches and offsets of transactional commits and markers that are written between
non-transactional commits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from broker.cores.groups.log_lines import observe
from coordinator.calls import EndOffsets, OffsetCommit, TopicOffsets, TxnOffsetCommit
from coordinator.events import TransactionalOffsets
from coordinator.outcome import CommitReply
from log.partition_log import PartitionLog
from protocol.records.batch import BatchHeader
from protocol.records.markers import transaction_end
from protocol.records.stored import stored_records
from tests.broker.cores.test_snapshots import Broker
from tests.broker.edge import EdgeBroker, Taker, eventually

TRANSACTIONAL, CONTROL = 16, 32


class Calls:
    """Submits calls of one group and one producer directly to the runtime, without a connection."""

    def __init__(self, broker: EdgeBroker) -> None:
        self.broker = broker
        self.replies: list[Any] = []

    def plain(self, offset: int, partition: int = 0) -> None:
        topics = [TopicOffsets("orders", [partition], [offset], [-1], None, None)]
        call = OffsetCommit(self._ticket(), "g", -1, "", None, -1, topics)
        self.broker.groups.submit("g", call)

    def transactional(self, offset: int, producer_id: int = 7, partition: int = 0) -> None:
        topics = [TopicOffsets("orders", [partition], [offset], [-1], None, None)]
        call = TxnOffsetCommit(self._ticket(), "g", producer_id, 3, -1, "", None, topics)
        self.broker.groups.submit("g", call)

    def end(self, *, committed: bool, producer_id: int = 7) -> None:
        [hosted] = self.broker.groups.hosted_shards
        call = EndOffsets(self._ticket(), producer_id, 3, 5, committed)
        self.broker.groups.submit(hosted, call)

    def _ticket(self) -> Taker:
        return Taker(self.replies.append)

    async def answered(self, count: int) -> list[Any]:
        await eventually(lambda: len(self.replies) == count)
        return self.replies


def batches(log: PartitionLog) -> list[tuple[bytes, BatchHeader]]:
    return [
        (bytes(data[header.position : header.end]), header) for data, header in log.scan(0, 1 << 20)
    ]


def shapes(log: PartitionLog) -> list[tuple[int, int, int, int]]:
    """Returns base offset, record count, producer id and attributes of each batch."""
    return [
        (header.base_offset, header.record_count, header.producer_id, header.attributes)
        for _, header in batches(log)
    ]


@pytest.mark.proves("transactions 38")
async def test_adjacent_non_transactional_runs_of_a_turn_are_merged_in_call_order(
    tmp_path: Path,
) -> None:
    async with EdgeBroker(tmp_path, partitions=1) as broker:
        await broker.ensure_offsets_topic()
        calls = Calls(broker)
        calls.plain(1)
        calls.plain(2, partition=1)
        calls.transactional(10)
        calls.transactional(20, producer_id=8, partition=1)
        calls.plain(3, partition=2)
        calls.end(committed=True)
        calls.plain(4, partition=2)
        calls.plain(5, partition=1)
        assert await calls.answered(8) == [*[CommitReply(0)] * 5, 0, *[CommitReply(0)] * 2]
        [log] = broker.logs
        assert shapes(log) == [
            (0, 2, -1, 0),
            (2, 1, 7, TRANSACTIONAL),
            (3, 1, 8, TRANSACTIONAL),
            (4, 1, -1, 0),
            (5, 1, 7, TRANSACTIONAL | CONTROL),
            (6, 2, -1, 0),
        ]
        assert log.log_end_offset == 8
        client = await broker.client()
        assert await client.fetch("g") == 10, "committed by its marker"


async def test_marker_has_the_producer_epoch_and_the_coordinator_epoch(tmp_path: Path) -> None:
    async with EdgeBroker(tmp_path, partitions=1) as broker:
        await broker.ensure_offsets_topic()
        calls = Calls(broker)
        calls.transactional(10)
        calls.end(committed=False)
        await calls.answered(2)
        (data, header), (marker_data, marker) = batches(broker.logs[0])
        assert (header.producer_epoch, header.base_sequence) == (3, 0)
        [record] = stored_records(data, header)
        assert record.offset == 0
        assert (marker.producer_epoch, marker.base_sequence) == (3, -1)
        marker.position = 0
        assert transaction_end(marker_data, marker) == (False, 5)
        assert await (await broker.client()).fetch("g") == -1, "dropped by its marker"


@pytest.mark.parametrize(
    ("committed", "line"),
    [
        (True, {"event": "transaction offsets committed", "log_level": "debug"}),
        (False, {"event": "transaction offsets dropped", "log_level": "debug"}),
    ],
)
def test_end_of_a_transaction_with_offsets_is_logged(committed: bool, line: dict[str, Any]) -> None:
    structlog.reset_defaults()
    with capture_logs() as lines:
        observe(TransactionalOffsets("g", 4001, 2, committed, 3))
    whose = {"group": "g", "producer_id": 4001, "producer_epoch": 2, "offsets": 3}
    assert lines == [line | whose]


@pytest.mark.proves("transactions 37")
async def test_first_unstable_offset_is_the_start_of_the_open_transaction(tmp_path: Path) -> None:
    """Consumers and the cleaner stop at the first open transaction."""
    async with EdgeBroker(tmp_path, partitions=1) as broker:
        await broker.ensure_offsets_topic()
        calls = Calls(broker)
        calls.plain(1)
        calls.transactional(10)
        await calls.answered(2)
        [log] = broker.logs
        assert log.first_unstable_offset == 1
        calls.end(committed=True)
        await calls.answered(3)
        assert log.first_unstable_offset >= log.log_end_offset


async def test_load_restores_the_pending_offsets_of_open_transactions(tmp_path: Path) -> None:
    async with EdgeBroker(tmp_path, partitions=1) as broker:
        await broker.ensure_offsets_topic()
        calls = Calls(broker)
        calls.plain(1)
        calls.transactional(10)
        calls.transactional(20, producer_id=8, partition=1)
        await calls.answered(3)
    async with EdgeBroker(tmp_path, partitions=1) as broker:
        await eventually(lambda: not broker.groups.life.loading)
        calls = Calls(broker)
        client = await broker.client()
        assert await client.fetch("g") == 1
        calls.end(committed=True)
        calls.end(committed=False, producer_id=8)
        await calls.answered(2)
        assert await client.fetch("g") == 10
        view = broker.groups.hosted_shards[0].core.view
        assert view.offsets.partitions("g", "orders") == [0]


@pytest.mark.proves("transactions 25")
async def test_log_with_transactions_is_loaded_from_its_snapshot(tmp_path: Path) -> None:
    async with Broker(tmp_path, partitions=1) as broker:
        await broker.ensure_offsets_topic()
        calls = Calls(broker)
        calls.plain(1)
        calls.transactional(10)
        calls.transactional(11, partition=1)
        calls.transactional(20, producer_id=8, partition=2)
        await calls.answered(4)
        assert await broker.write()
        calls.end(committed=True)
        calls.transactional(12, partition=3)  # This commit is in the producer's next transaction.
        calls.transactional(21, producer_id=9, partition=4)
        await calls.answered(7)
    async with Broker(tmp_path, partitions=1) as broker:
        await eventually(lambda: not broker.groups.life.loading)
        [hosted] = broker.groups.hosted_shards
        assert hosted.loaded_from == 4
        view = hosted.core.view
        offsets = {p: entry.offset for _, p, entry in view.offsets.entries("g")}
        assert offsets == {0: 10, 1: 11}
        assert view.pending("g") == [(7, 3, 1), (8, 3, 1), (9, 3, 1)]
        calls = Calls(broker)
        for producer_id in (7, 8, 9):
            calls.end(committed=producer_id != 9, producer_id=producer_id)
        await calls.answered(3)
        assert view.offsets.partitions("g", "orders") == [0, 1, 2, 3]
