"""Tests that an altered topic setting takes effect immediately. Each test fails if the broker
ignores its setting.

Most tests first check the topic without the setting, and then alter the setting with
IncrementalAlterConfigs. The log stays open.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from protocol.errors import (
    INVALID_RECORD,
    INVALID_TIMESTAMP,
    MESSAGE_TOO_LARGE,
    NONE,
    UNSUPPORTED_VERSION,
)
from protocol.records.batch import records_of
from protocol.records.compression import GZIP
from tests.broker.config.orders import Orders, orders_of, records
from tests.broker.config.served import alters
from tests.broker.edge import eventually

GIB = 1 << 30

# -- accepted records


@alters("max.message.bytes")
async def test_batch_above_the_altered_max_message_bytes_is_refused(tmp_path: Path) -> None:
    async with orders_of(tmp_path) as orders:
        large = records(b"x" * 1000)
        assert (await orders.produce(large))["error_code"] == NONE
        await orders.alter({"max.message.bytes": "1000"})
        assert (await orders.produce(large))["error_code"] == MESSAGE_TOO_LARGE
        await orders.alter({"max.message.bytes": None})
        assert (await orders.produce(large))["error_code"] == NONE


@alters("compression.type")
async def test_batches_are_stored_with_the_altered_compression_type(tmp_path: Path) -> None:
    async with orders_of(tmp_path) as orders:
        await orders.fill(1)
        await orders.alter({"compression.type": "gzip"})
        await orders.fill(1)

        assert [header.compression for _, header in orders.log.scan()] == [0, GZIP]


@pytest.mark.parametrize(
    ("codec", "fast", "thorough"), [("gzip", "1", "9"), ("lz4", "9", "10"), ("zstd", "-50", "19")]
)
@alters("compression.gzip.level", "compression.lz4.level", "compression.zstd.level")
async def test_batches_are_compressed_at_the_altered_level_of_their_codec(
    tmp_path: Path, codec: str, fast: str, thorough: str
) -> None:
    """For lz4, level 9 is the default and selects the fast compressor, as in Kafka."""
    chance = random.Random(7)
    words = records(b" ".join(b"%d" % chance.randrange(500) for _ in range(5000)))
    async with orders_of(tmp_path) as orders:
        for level in (fast, thorough):
            await orders.alter({"compression.type": codec, f"compression.{codec}.level": level})
            assert (await orders.produce(words))["error_code"] == NONE
        loose, tight = (header.size_bytes for _, header in orders.log.scan())

    assert tight < 0.95 * loose


@alters("message.format.version")
async def test_records_are_stored_in_the_altered_message_format_version(tmp_path: Path) -> None:
    async with orders_of(tmp_path) as orders:
        for version, magic in ((None, 2), ("0.10.2", 1), ("0.9.0", 0)):
            await orders.alter({"message.format.version": version})
            position = orders.log.active.size
            await orders.fill(1)
            (stored,) = orders.log.active.file.read(position + 16, 1)
            assert stored == magic


@alters("cleanup.policy")
async def test_compacted_topic_refuses_a_record_without_a_key(tmp_path: Path) -> None:
    async with orders_of(tmp_path) as orders:
        assert await orders.error_of_produce() == NONE
        await orders.alter({"cleanup.policy": "compact"})
        assert await orders.error_of_produce() == INVALID_RECORD
        assert await orders.error_of_produce(key=b"k") == NONE


@pytest.mark.parametrize(
    ("setting", "distance_ms"),
    [
        ("message.timestamp.before.max.ms", -2_000),
        ("message.timestamp.after.max.ms", 2_000),
        ("message.timestamp.difference.max.ms", 2_000),
        ("message.timestamp.difference.max.ms", -2_000),
    ],
)
@alters(
    "message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms",
    "message.timestamp.difference.max.ms",
)
async def test_timestamp_outside_the_altered_bounds_is_refused(
    tmp_path: Path, setting: str, distance_ms: int
) -> None:
    async with orders_of(tmp_path) as orders:
        far, near = orders.now_ms + distance_ms, orders.now_ms + distance_ms // 4
        assert await orders.error_of_produce(timestamp_ms=far) == NONE
        await orders.alter({setting: "1000"})
        assert await orders.error_of_produce(timestamp_ms=far) == INVALID_TIMESTAMP
        assert await orders.error_of_produce(timestamp_ms=near) == NONE


@alters("message.timestamp.type")
async def test_record_timestamps_are_the_append_time_with_timestamp_type_log_append_time(
    tmp_path: Path,
) -> None:
    async with orders_of(tmp_path) as orders:
        early = records(b"v", timestamp_ms=5)
        assert (await orders.produce(early))["log_append_time_ms"] == -1
        await orders.alter({"message.timestamp.type": "LogAppendTime"})
        assert (await orders.produce(early))["log_append_time_ms"] == orders.now_ms
        assert [header.max_timestamp for _, header in orders.log.scan()] == [5, orders.now_ms]


@alters("message.downconversion.enable")
async def test_fetch_below_version_4_is_refused_when_downconversion_is_disabled(
    tmp_path: Path,
) -> None:
    async with orders_of(tmp_path) as orders:
        await orders.fill(1)
        assert (await orders.fetch(3))["error_code"] == NONE
        await orders.alter({"message.downconversion.enable": "false"})
        assert (await orders.fetch(3))["error_code"] == UNSUPPORTED_VERSION
        assert (await orders.fetch(4))["error_code"] == NONE


# -- segments


@alters("segment.bytes")
async def test_segment_rolls_at_segment_bytes(tmp_path: Path) -> None:
    async with orders_of(tmp_path) as orders:
        await orders.fill(3)
        assert len(orders.log.segments) == 1
        await orders.alter({"segment.bytes": "400"})
        await orders.fill(4)
        assert len(orders.log.segments) == 3


@alters("segment.ms")
async def test_segment_rolls_at_segment_ms(tmp_path: Path) -> None:
    async with orders_of(tmp_path) as orders:
        await orders.fill(1)
        orders.pass_ms(10_000)
        await orders.fill(1)
        assert len(orders.log.segments) == 1
        await orders.alter({"segment.ms": "9000"})
        await orders.fill(1)
        assert len(orders.log.segments) == 2


@alters("segment.jitter.ms")
async def test_segment_jitter_ms_shortens_segment_ms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(random.Random, "randrange", lambda _, most: most - 1)
    async with orders_of(tmp_path) as orders:
        await orders.alter({"segment.ms": "10000", "segment.jitter.ms": "3000"})
        await orders.fill(1)
        orders.log.roll()
        await orders.fill(1)
        orders.pass_ms(7_002)
        await orders.fill(1)
        assert len(orders.log.segments) == 3


@alters("segment.index.bytes")
async def test_segment_rolls_when_its_index_is_full(tmp_path: Path) -> None:
    async with orders_of(tmp_path) as orders:
        await orders.alter({"index.interval.bytes": "0", "segment.index.bytes": "36"})
        orders.log.roll()
        await orders.fill(9)
        assert len(orders.log.segments) == 1, "the segment there is keeps its index"
        orders.log.roll()
        await orders.fill(9)
        assert len(orders.log.segments) > 2


@alters("index.interval.bytes")
async def test_index_gets_an_entry_every_index_interval_bytes(tmp_path: Path) -> None:
    async with orders_of(tmp_path) as orders:
        await orders.fill(5)
        assert orders.log.active.index.count == 0
        await orders.alter({"index.interval.bytes": "100"})
        await orders.fill(5)
        assert orders.log.active.index.count == 5


@alters("preallocate")
async def test_preallocated_segment_returns_its_unused_space_when_it_rolls(
    tmp_path: Path,
) -> None:
    def taken() -> int:
        return os.stat(path).st_blocks * 512

    async with orders_of(tmp_path) as orders:
        await orders.alter({"preallocate": "true", "segment.bytes": str(1 << 20)})
        await orders.fill(1)
        path = orders.log.active.file.path
        assert taken() < 1 << 20
        orders.log.roll()
        path = orders.log.active.file.path
        assert taken() == 1 << 20
        assert os.path.getsize(path) == 0, "the length says what was written"
        await orders.fill(1)
        orders.log.roll()
        assert taken() < 1 << 20


# -- flushes


@alters("flush.messages")
async def test_records_are_flushed_after_flush_messages(tmp_path: Path) -> None:
    async with orders_of(tmp_path) as orders:
        await orders.fill(1)
        assert orders.log.recovery_point == 0
        await orders.alter({"flush.messages": "3"})
        await orders.fill(1)
        assert orders.log.recovery_point == 0
        await orders.fill(1)
        assert orders.log.recovery_point == 3


@alters("flush.ms")
async def test_records_are_flushed_after_flush_ms(tmp_path: Path) -> None:
    async with orders_of(tmp_path) as orders:
        await orders.fill(1)
        await orders.alter({"flush.ms": "1000"})
        for _ in range(2):
            await orders.broker.maintenance.flush_overdue()
            orders.pass_ms(999)
        assert orders.log.recovery_point == 0
        orders.pass_ms(2)
        await orders.broker.maintenance.flush_overdue()
        await eventually(lambda: orders.log.recovery_point == 1)


# -- retention


async def segments_of(orders: Orders, count: int) -> None:
    for _ in range(count):
        await orders.fill(1)
        orders.log.roll()


@alters("retention.ms")
async def test_retention_deletes_old_segments_after_retention_ms(tmp_path: Path) -> None:
    async with orders_of(tmp_path) as orders:
        await segments_of(orders, 2)
        orders.pass_ms(10_000)
        await segments_of(orders, 1)
        await orders.broker.maintenance.run_retention()
        assert orders.log.log_start_offset == 0
        await orders.alter({"retention.ms": "9000"})
        await orders.broker.maintenance.run_retention()
        assert orders.log.log_start_offset == 2


@alters("retention.bytes")
async def test_retention_deletes_oldest_segments_above_retention_bytes(tmp_path: Path) -> None:
    async with orders_of(tmp_path) as orders:
        await segments_of(orders, 5)
        await orders.broker.maintenance.run_retention()
        assert orders.log.log_start_offset == 0
        await orders.alter({"retention.bytes": str(2 * orders.log.segments[0].size)})
        await orders.broker.maintenance.run_retention()
        assert orders.log.log_start_offset == 3


@alters("cleanup.policy")
@pytest.mark.parametrize("policy", ["compact", ""])
async def test_old_segments_are_not_deleted_when_cleanup_policy_is_compact(
    tmp_path: Path, policy: str
) -> None:
    async with orders_of(tmp_path) as orders:
        await segments_of(orders, 2)
        orders.pass_ms(10_000)
        await orders.alter({"retention.ms": "1", "cleanup.policy": policy})
        await orders.broker.maintenance.run_retention()
        assert orders.log.log_start_offset == 0
        await orders.alter({"cleanup.policy": "compact,delete"})
        await orders.broker.maintenance.run_retention()
        assert orders.log.log_start_offset == 2


@alters("file.delete.delay.ms")
async def test_files_of_deleted_segments_stay_for_file_delete_delay_ms(tmp_path: Path) -> None:
    def there() -> int:
        return len(list(Path(orders.log.directory).glob("*.log.deleted")))

    async with orders_of(tmp_path) as orders:
        await segments_of(orders, 2)
        await orders.alter({"retention.bytes": "0", "file.delete.delay.ms": "5000"})
        await orders.broker.maintenance.run_retention()
        assert there() == 2
        for passed_ms, left in ((4_999, 2), (1, 0)):
            orders.pass_ms(passed_ms)
            await orders.broker.maintenance.run_retention()
            assert there() == left


# -- cleaning


async def dirty(orders: Orders, *values: bytes | None) -> None:
    """Appends values of one key and rolls the segment, so that the cleaner may clean it."""
    for value in values:
        batch = records(value, key=b"k", timestamp_ms=orders.now_ms)
        assert (await orders.produce(batch))["error_code"] == NONE
    orders.log.roll()


@alters("min.cleanable.dirty.ratio")
async def test_log_is_cleaned_above_min_cleanable_dirty_ratio(tmp_path: Path) -> None:
    async with orders_of(tmp_path) as orders:
        await orders.alter({"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1"})
        await dirty(orders, b"1", b"2", b"3")
        await orders.broker.cleaning.clean_dirtiest()
        assert orders.broker.cleaning.runs == 0
        await orders.alter({"min.cleanable.dirty.ratio": "0.4"})
        await orders.broker.cleaning.clean_dirtiest()
        assert orders.broker.cleaning.runs == 1
        left = [r.value for data, h in orders.log.scan() for r in records_of(data, h)]
        assert left == [b"3"]


@alters("min.compaction.lag.ms", "max.compaction.lag.ms")
async def test_min_and_max_compaction_lag_control_when_a_log_is_cleaned(tmp_path: Path) -> None:
    async with orders_of(tmp_path) as orders:
        await orders.alter({"cleanup.policy": "compact"})
        await dirty(orders, b"1")
        orders.pass_ms(10_000)

        def judged() -> tuple[bool, bool]:
            found = orders.broker.cleaning.checkpoint.judge(orders.log, orders.now_ms)
            return bool(found.dirty_bytes), found.overdue

        assert judged() == (True, False)
        await orders.alter({"max.compaction.lag.ms": "9999"})
        assert judged() == (True, True)
        await orders.alter({"max.compaction.lag.ms": None, "min.compaction.lag.ms": "10001"})
        assert judged() == (False, False)


@pytest.mark.parametrize(("retention_ms", "stays"), [(None, True), ("1000", False)])
@alters("delete.retention.ms")
async def test_tombstones_stay_for_delete_retention_ms(
    tmp_path: Path, retention_ms: str | None, stays: bool
) -> None:
    async with orders_of(tmp_path) as orders:
        await orders.alter({"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"})
        await orders.alter({"delete.retention.ms": retention_ms})
        await dirty(orders, b"1", None)
        await orders.broker.cleaning.clean_dirtiest()
        orders.pass_ms(2_000)
        batch = records(b"other", key=b"other", timestamp_ms=orders.now_ms)
        await orders.produce(batch)
        orders.log.roll()
        await orders.broker.cleaning.clean_dirtiest()

        assert orders.broker.cleaning.runs == 2
        keys = [r.key for data, h in orders.log.scan() for r in records_of(data, h)]
        assert (b"k" in keys) == stays
