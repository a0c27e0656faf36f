"""Tests which records of a partition are visible to readers, and the flush when a partition is
opened. If flush settings require a flush, readers see only flushed records."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from broker.apis import list_offsets
from broker.topics.partition import Partition
from log.errors import LogPoisoned, OffsetOutOfRange
from log.values import TimestampOffset
from tests.broker.partitions import partition_for, services_with
from tests.log.log_tools import NOW_MS, batch, open_log
from tests.simulated_files import SimulatedFiles


def not_now(work: Coroutine[Any, Any, None], name: str) -> Any:
    """Replaces the function that starts background tasks. Closes the coroutine without running it,
    because the test flushes the log itself."""
    work.close()


def opened(fs: SimulatedFiles, **settings: Any) -> Partition:
    services = dataclasses.replace(services_with(), spawn=not_now)
    return partition_for(open_log(fs, **settings), services)


def append(partition: Partition, *values: bytes, timestamp_ms: int = NOW_MS) -> None:
    for value in values:
        partition.append(batch(0, value, timestamp_ms=timestamp_ms), timestamp_ms)


def flushed(partition: Partition) -> None:
    partition.log.flush()
    partition.advance()


def read(partition: Partition, offset: int = 0) -> bytes:
    """Returns the bytes that a Fetch from ``offset`` returns."""
    return partition.log.read(offset, 1000, max_offset=partition.high_watermark).data


def ends(partition: Partition) -> tuple[int, int]:
    return partition.high_watermark, partition.log.log_end_offset


def test_record_that_needs_a_flush_is_visible_after_the_flush() -> None:
    partition = opened(SimulatedFiles(), flush_messages=1)
    append(partition, b"0")

    assert ends(partition) == (0, 1)
    assert read(partition) == b""
    partition.log.flush()
    assert ends(partition) == (0, 1), "only the thread that appends moves it"
    partition.advance()
    assert ends(partition) == (1, 1)
    assert read(partition) != b""
    partition.advance()
    assert ends(partition) == (1, 1), "there is no more"


def test_records_are_visible_at_once_while_no_flush_is_due() -> None:
    partition = opened(SimulatedFiles(), flush_messages=3)
    append(partition, b"0", b"1")
    assert ends(partition) == (2, 2)
    append(partition, b"2", b"3")
    assert ends(partition) == (2, 4)
    flushed(partition)
    assert ends(partition) == (4, 4)


def test_unflushed_record_is_visible_when_fewer_than_flush_messages_are_unflushed() -> None:
    partition = opened(SimulatedFiles(), flush_messages=3)
    append(partition, b"0", b"1", b"2")
    partition.log.flush()
    append(partition, b"3")
    assert ends(partition) == (4, 4), "one record above the recovery point"


def test_visible_unflushed_records_stay_visible_when_flush_messages_is_set() -> None:
    partition = opened(SimulatedFiles())
    append(partition, b"0", b"1")
    partition.log.config = dataclasses.replace(partition.log.config, flush_messages=1)
    assert ends(partition) == (2, 2)
    append(partition, b"2")
    assert ends(partition) == (2, 3)
    partition.log.config = dataclasses.replace(partition.log.config, flush_messages=1000)
    partition.advance()
    assert ends(partition) == (3, 3)


def test_record_is_not_visible_after_its_flush_failed() -> None:
    fs = SimulatedFiles()
    partition = opened(fs, flush_messages=1)
    append(partition, b"0")
    flushed(partition)
    append(partition, b"1")
    fs.fail("fsync", ".log")
    with pytest.raises(LogPoisoned):
        partition.log.flush()
    partition.advance()
    assert ends(partition) == (1, 2)


def test_open_of_a_partition_flushes_records_that_a_killed_process_appended() -> None:
    fs = SimulatedFiles()
    partition = opened(fs, flush_messages=1)
    append(partition, b"0", b"1")
    fs.kill()
    fs.calls.clear()

    again = opened(fs, flush_messages=1)

    assert ends(again) == (2, 2)
    assert again.log.recovery_point == 2
    assert ("fsync", again.log.active.file.path) in fs.calls


def test_partition_cannot_be_opened_when_its_flush_fails() -> None:
    fs = SimulatedFiles()
    append(opened(fs, flush_messages=1), b"0")
    fs.kill()
    fs.fail("fsync", ".log")
    with pytest.raises(OSError, match=r"flushing /data/t-0 failed"):
        opened(fs, flush_messages=1)


def test_opened_partition_is_not_flushed_when_no_flush_setting_is_set() -> None:
    fs = SimulatedFiles()
    append(opened(fs), b"0")
    fs.kill()
    fs.calls.clear()
    assert ends(opened(fs)) == (1, 1)
    assert not [path for operation, path in fs.calls if operation == "fsync"]


def by_time(partition: Partition) -> object:
    return list_offsets.find(partition, NOW_MS + 50, partition.high_watermark)


def largest(partition: Partition) -> object:
    return list_offsets.find(partition, list_offsets.MAX_TIMESTAMP, partition.high_watermark)


def old_style(partition: Partition) -> object:
    return partition.log.segment_offsets_before(-1, 5, NOW_MS, partition.high_watermark)


def delete_all(partition: Partition) -> int:
    return partition.log.delete_records(-1, partition.high_watermark)


@pytest.mark.parametrize(
    ("look", "before", "after"),
    [
        (by_time, list_offsets.Found(), TimestampOffset(NOW_MS + 90, 1, 0)),
        (largest, TimestampOffset(NOW_MS, 0, 0), TimestampOffset(NOW_MS + 90, 1, 0)),
        (old_style, [1, 0], [2, 0]),
        (lambda partition: partition.last_stable_offset, 1, 2),
        (delete_all, 1, 2),
    ],
)
def test_offset_lookups_find_only_stable_records(
    look: Callable[[Partition], object], before: object, after: object
) -> None:
    partition = opened(SimulatedFiles(), flush_messages=1)
    append(partition, b"0")
    flushed(partition)
    append(partition, b"1", timestamp_ms=NOW_MS + 90)

    assert look(partition) == before
    with pytest.raises(OffsetOutOfRange):
        partition.log.delete_records(2, partition.high_watermark)
    flushed(partition)
    assert look(partition) == after


def test_last_stable_offset_is_not_lowered_by_a_transaction_of_unflushed_records() -> None:
    partition = opened(SimulatedFiles(), flush_messages=1)
    append(partition, b"0")
    flushed(partition)
    append(partition, b"1")
    partition.log.producers.open_transactions[7] = 1
    assert partition.last_stable_offset == 1
    partition.log.producers.open_transactions[7] = 0
    assert partition.last_stable_offset == 0
    del partition.log.producers.open_transactions[7]
    assert partition.last_stable_offset == 1


@pytest.mark.parametrize("stable", range(1, 41))
def test_lookup_of_the_maximum_timestamp_before_an_offset_equals_a_linear_search(
    stable: int,
) -> None:
    """The timestamps rise and fall over several segments and entries of the time index."""
    fs = SimulatedFiles()
    partition = opened(fs, segment_bytes=700, index_interval_bytes=100)
    times = [NOW_MS + (offset * 37) % 29 for offset in range(40)]
    for time in times:
        append(partition, b"v", timestamp_ms=time)
    assert len(partition.log.segments) > 3

    found = partition.log.offset_of_max_timestamp(max_offset=stable)

    first = times.index(max(times[:stable]))
    assert found == TimestampOffset(times[first], first, 0)
