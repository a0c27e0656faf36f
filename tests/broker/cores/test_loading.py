"""Tests the state that a shard loads from its log: transactions, records of other programs, and
damaged records."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

import broker.cores.groups.records
from broker.cores.hosted_shard import Phase
from log.partition_log import PartitionLog
from offsets.columns import TopicColumns
from offsets.record_codec import run_records
from offsets.runs import OffsetRun, OffsetTombstones, Run
from protocol.errors import COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR
from protocol.records.batch import assemble_batch, encode_batch
from protocol.records.markers import encode_end_transaction
from protocol.records.section import Record
from tests.broker.edge import EdgeBroker, eventually
from tests.broker.said import said

ABORT, COMMIT = 0, 1
TRANSACTIONAL = 1 << 4


@pytest.fixture(autouse=True)
def logs() -> Iterator[list[Any]]:
    structlog.reset_defaults()
    with capture_logs() as lines:
        yield lines


class Writer:
    """Writes batches as Kafka's coordinator does: one batch for each run."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log

    def runs(self, runs: Sequence[Run], producer_id: int = -1) -> None:
        section, count = b"", 0
        for run in runs:
            section += run_records(run, count)
            count += len(run)
        first = self.log.log_end_offset
        batch = assemble_batch(
            section,
            count,
            first,
            1,
            1,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            attributes=TRANSACTIONAL if producer_id >= 0 else 0,
        )
        self.log.append_encoded(batch, first, first + count - 1, 1)

    def commit(self, offset: int, topic: str = "orders", producer_id: int = -1) -> None:
        self.runs([OffsetRun("g", topic, [0], [offset], [-1], None, 1)], producer_id)

    def marker(self, outcome: int, producer_id: int) -> None:
        first = self.log.log_end_offset
        batch = encode_end_transaction(
            outcome,
            base_offset=first,
            timestamp=1,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
        )
        self.log.append_encoded(batch, first, first, 1)

    def record(self, key: bytes | None, value: bytes | None) -> None:
        first = self.log.log_end_offset
        batch = encode_batch([Record(first, 1, key, value)])
        self.log.append_encoded(batch, first, first, 1)


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(EdgeBroker(tmp_path, partitions=1).open_partitions()[0].log)


async def test_transactional_offsets_are_loaded_when_their_transaction_committed(
    tmp_path: Path, writer: Writer
) -> None:
    writer.commit(1, "orders")
    writer.commit(1, "payments")
    writer.commit(10, "orders", producer_id=7)
    writer.commit(20, "payments", producer_id=8)
    writer.marker(COMMIT, 7)
    writer.marker(ABORT, 8)
    writer.commit(30, "payments", producer_id=9)  # This transaction has not ended.
    async with EdgeBroker(tmp_path, partitions=1) as broker:
        await eventually(lambda: not broker.groups.life.loading)
        client = await broker.client()
        assert await client.fetch("g", "orders") == 10
        assert await client.fetch("g", "payments") == 1


@pytest.mark.proves("transactions 26")
async def test_commit_wins_over_an_earlier_transactional_commit_although_its_marker_is_later(
    tmp_path: Path, writer: Writer
) -> None:
    """The committed offset is that of the last commit in the log. It does not matter that an
    earlier transactional commit has its marker after this commit."""
    writer.commit(10, producer_id=7)
    writer.commit(99)
    writer.marker(COMMIT, 7)
    async with EdgeBroker(tmp_path, partitions=1) as broker:
        await eventually(lambda: not broker.groups.life.loading)
        assert await (await broker.client()).fetch("g") == 99


def transactions_always_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(broker.cores.groups.records, "transaction_end", lambda *_: (True, 0))


def transactions_never_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(broker.cores.groups.records, "transaction_end", lambda *_: (False, 0))


def the_place_of_the_marker_decides(patch: pytest.MonkeyPatch) -> None:
    def take(self: TopicColumns, other: TopicColumns) -> int:
        [partition] = other.partitions()
        offset = other.fetch([partition])[0]
        return self.store(OffsetRun("g", "orders", [partition], offset, [-1], None, 1), 1 << 40)

    patch.setattr(TopicColumns, "take_newer", take)


ENDS = test_transactional_offsets_are_loaded_when_their_transaction_committed
ORDER = test_commit_wins_over_an_earlier_transactional_commit_although_its_marker_is_later


@pytest.mark.planted("transactions in a load")
@pytest.mark.parametrize(
    ("plant", "found_by"),
    [
        (transactions_always_commit, ENDS),
        (transactions_never_commit, ENDS),
        (the_place_of_the_marker_decides, ORDER),
    ],
)
async def test_each_planted_fault_in_loading_transactions_is_found_by_a_test(
    tmp_path: Path,
    writer: Writer,
    monkeypatch: pytest.MonkeyPatch,
    plant: Callable[[pytest.MonkeyPatch], None],
    found_by: Callable[[Path, Writer], Coroutine[None, None, None]],
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        await found_by(tmp_path, writer)


async def test_tombstones_are_replayed_in_log_order(tmp_path: Path, writer: Writer) -> None:
    writer.commit(1, "orders")
    writer.commit(2, "payments")
    writer.runs([OffsetTombstones("g", [("orders", 0), ("payments", 0)])])
    writer.commit(3, "payments")
    async with EdgeBroker(tmp_path, partitions=1) as broker:
        await eventually(lambda: not broker.groups.life.loading)
        client = await broker.client()
        assert await client.fetch("g", "orders") == -1
        assert await client.fetch("g", "payments") == 3


async def test_records_of_unknown_types_are_skipped_with_a_warning(
    tmp_path: Path, writer: Writer, logs: list[Any]
) -> None:
    writer.commit(5)
    writer.record(b"\x00\x18\x00\x01g", b"\x00\x00")  # Kafka 4.3 has no key of this type.
    writer.record(b"\x7f\xff", None)
    async with EdgeBroker(tmp_path, partitions=1) as broker:
        await eventually(lambda: not broker.groups.life.loading)
        assert await (await broker.client()).fetch("g") == 5
        assert broker.groups.hosted_shards[0].loaded_records == 1
    (warning,) = [line for line in said(logs) if line["log_level"] == "warning"]
    assert warning["kinds"] == {0x18: 1, 0x7FFF: 1}


async def test_load_of_a_partition_fails_when_a_value_has_an_unknown_version(
    tmp_path: Path, writer: Writer
) -> None:
    writer.commit(5)
    writer.record(b"\x00\x01\x00\x01g\x00\x06orders\x00\x00\x00\x00", b"\x00\x63later")
    async with EdgeBroker(tmp_path, partitions=1) as broker:
        await eventually(lambda: not broker.groups.life.loading)
        assert broker.groups.hosted_shards[0].phase is Phase.FAILED
        assert not broker.fatal
        assert await (await broker.client()).fetch("g") == -1000 - NOT_COORDINATOR


async def test_damage_in_the_middle_of_the_log_fails_the_load(
    tmp_path: Path, writer: Writer
) -> None:
    for offset in range(50):
        writer.commit(offset)
    segment = next((tmp_path / "__consumer_offsets-0").glob("*.log"))
    data = bytearray(segment.read_bytes())
    broker = EdgeBroker(tmp_path, partitions=1)
    opened = broker.open_partitions()
    data[len(data) // 2] ^= 0xFF  # The disk fails after recovery.
    segment.write_bytes(data)

    broker.groups.start(opened)

    await eventually(lambda: not broker.groups.life.loading)
    reason = broker.groups.life.unreadable()["__consumer_offsets-0"]
    assert "damaged at byte" in reason
    assert "log.recovery.truncate=__consumer_offsets-0 " in reason
    assert broker.groups.hosted_shards[0].phase is Phase.FAILED
    assert not broker.fatal
    await broker.groups.stop()


async def test_offset_deleted_during_a_transaction_stays_deleted_after_its_commit(
    tmp_path: Path, writer: Writer
) -> None:
    writer.runs([OffsetRun("g", "orders", [0, 1], [10, 11], [-1, -1], None, 1)], producer_id=7)
    writer.runs([OffsetTombstones("g", [("orders", 0)])])
    writer.marker(COMMIT, 7)
    async with EdgeBroker(tmp_path, partitions=1) as broker:
        await eventually(lambda: not broker.groups.life.loading)
        assert await (await broker.client()).fetch("g") == -1
        entry = broker.groups.hosted_shards[0].core.view.offsets.get("g", "orders", 1)
        assert entry is not None
        assert entry.offset == 11


async def test_loaded_shard_answers_requests_while_another_shard_is_loaded(tmp_path: Path) -> None:
    """The shards are loaded one after another."""
    async with EdgeBroker(tmp_path) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        assert await client.commit("group-a", 1) == 0
        assert await client.commit("group-b", 2) == 0
    again = EdgeBroker(tmp_path)
    async with again:
        one, two = again.groups.hosted_shards
        assert one.phase is two.phase is Phase.LOADING
        client = await again.client()
        await eventually(lambda: one.phase is Phase.ACTIVE)
        await eventually(lambda: two.phase is Phase.ACTIVE)
        two.phase = Phase.LOADING
        answers = {await client.fetch("group-a"), await client.fetch("group-b")}
        assert -1000 - COORDINATOR_LOAD_IN_PROGRESS in answers
        assert answers & {1, 2}
        two.phase = Phase.ACTIVE


async def test_load_reads_the_log_in_chunks_of_the_configured_size(
    tmp_path: Path, writer: Writer
) -> None:
    """The setting is offsets.load.buffer.size."""
    from broker.cores.runtime_settings import RuntimeSettings
    from tests.broker.edge import GROUPS

    for offset in range(200):
        writer.commit(offset)
    for size in (1, 1000, 5_000_000):
        settings = RuntimeSettings(GROUPS, load_buffer_bytes=size)
        broker = EdgeBroker(tmp_path, partitions=1, settings=settings)
        asked: list[int] = []
        (partition,) = broker.open_partitions()
        scan = partition.log.scan

        def spy(from_offset: int | None = None, chunk_bytes: int = 0, scan=scan) -> Any:  # type: ignore[no-untyped-def]
            asked.append(chunk_bytes)  # noqa: B023
            return scan(from_offset, chunk_bytes)

        partition.log.scan = spy  # type: ignore[method-assign]
        broker.groups.start([partition])
        await eventually(lambda broker=broker: not broker.groups.life.loading)
        assert asked == [max(size, 61)], "never less than a batch's header"
        assert broker.groups.hosted_shards[0].loaded_records == 200
        await broker.groups.stop()
