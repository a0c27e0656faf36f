"""What readers see of a log whose records must be flushed first: nothing above what is stable."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from log.errors import LogPoisoned, OffsetOutOfRange
from log.partition_log import PartitionLog
from log.values import TimestampOffset
from tests.log.log_tools import NOW_MS, append_values, batch, open_log
from tests.simulated_files import SimulatedFiles


def flushed(log: PartitionLog) -> None:
    log.flush()
    log.advance_high_watermark()


def ends(log: PartitionLog) -> tuple[int, int]:
    return log.high_watermark, log.log_end_offset


def test_an_append_that_needs_a_flush_is_read_behind_it() -> None:
    log = open_log(SimulatedFiles(), flush_messages=1)
    append_values(log, b"0")

    assert ends(log) == (0, 1)
    assert log.read(0, 1000).data == b""
    log.flush()
    assert ends(log) == (0, 1), "only the thread that appends moves it"
    assert log.advance_high_watermark()
    assert ends(log) == (1, 1)
    assert log.read(0, 1000).data != b""
    assert not log.advance_high_watermark(), "there is no more"


def test_records_are_read_at_once_until_a_flush_is_due() -> None:
    log = open_log(SimulatedFiles(), flush_messages=3)
    append_values(log, b"0", b"1")
    assert ends(log) == (2, 2)
    append_values(log, b"2", b"3")
    assert ends(log) == (2, 4)
    flushed(log)
    assert ends(log) == (4, 4)


def test_what_came_during_a_flush_is_read_when_it_needs_none() -> None:
    log = open_log(SimulatedFiles(), flush_messages=3)
    append_values(log, b"0", b"1", b"2")
    log.flush()
    append_values(log, b"3")
    assert ends(log) == (4, 4), "one record above the recovery point"


def test_what_is_read_stays_so_when_flushes_are_asked_for_later() -> None:
    log = open_log(SimulatedFiles())
    append_values(log, b"0", b"1")
    log.config = dataclasses.replace(log.config, flush_messages=1)
    assert ends(log) == (2, 2)
    append_values(log, b"2")
    assert ends(log) == (2, 3)
    log.config = dataclasses.replace(log.config, flush_messages=1000)
    log.advance_high_watermark()
    assert ends(log) == (3, 3)


def test_a_failed_flush_shows_nothing() -> None:
    fs = SimulatedFiles()
    log = open_log(fs, flush_messages=1)
    append_values(log, b"0")
    flushed(log)
    append_values(log, b"1")
    fs.fail("fsync", ".log")
    with pytest.raises(LogPoisoned):
        log.flush()
    log.advance_high_watermark()
    assert ends(log) == (1, 2)


def test_opening_flushes_what_a_killed_process_had_only_written() -> None:
    fs = SimulatedFiles()
    log = open_log(fs, flush_messages=1)
    append_values(log, b"0", b"1")
    fs.kill()
    fs.calls.clear()

    again = open_log(fs, flush_messages=1)

    assert ends(again) == (2, 2)
    assert again.recovery_point == 2
    assert ("fsync", again.active.file.path) in fs.calls


def test_a_log_that_cannot_be_flushed_when_it_is_opened_is_not_opened() -> None:
    fs = SimulatedFiles()
    append_values(open_log(fs, flush_messages=1), b"0")
    fs.kill()
    fs.fail("fsync", ".log")
    with pytest.raises(OSError, match=r"flushing /data/t-0 failed"):
        open_log(fs, flush_messages=1)


def test_opening_flushes_nothing_where_no_flush_is_due() -> None:
    fs = SimulatedFiles()
    append_values(open_log(fs), b"0")
    fs.kill()
    fs.calls.clear()
    assert ends(open_log(fs)) == (1, 1)
    assert not [path for operation, path in fs.calls if operation == "fsync"]


def by_time(log: PartitionLog) -> object:
    return log.offset_for_timestamp(NOW_MS + 50)


def largest(log: PartitionLog) -> object:
    return log.offset_of_max_timestamp()


def old_style(log: PartitionLog) -> object:
    return log.segment_offsets_before(-1, 5, NOW_MS)


@pytest.mark.parametrize(
    ("look", "before", "after"),
    [
        (by_time, None, TimestampOffset(NOW_MS + 90, 1, 0)),
        (largest, TimestampOffset(NOW_MS, 0, 0), TimestampOffset(NOW_MS + 90, 1, 0)),
        (old_style, [1, 0], [2, 0]),
        (lambda log: log.last_stable_offset, 1, 2),
        (lambda log: log.delete_records(-1), 1, 2),
    ],
)
def test_no_reader_finds_what_is_not_stable(
    look: Callable[[PartitionLog], object], before: object, after: object
) -> None:
    log = open_log(SimulatedFiles(), flush_messages=1)
    append_values(log, b"0")
    flushed(log)
    append_values(log, b"1", timestamp_ms=NOW_MS + 90)

    assert look(log) == before
    with pytest.raises(OffsetOutOfRange):
        log.delete_records(2)
    flushed(log)
    assert look(log) == after


def test_an_open_transaction_that_is_not_stable_ends_nobodys_reading_before_it_began() -> None:
    log = open_log(SimulatedFiles(), flush_messages=1)
    append_values(log, b"0")
    flushed(log)
    append_values(log, b"1")
    log.producers.open_transactions[7] = 1
    assert log.last_stable_offset == 1
    log.producers.open_transactions[7] = 0
    assert log.last_stable_offset == 0
    del log.producers.open_transactions[7]
    assert log.last_stable_offset == 1


@pytest.mark.parametrize("stable", range(1, 41))
def test_the_largest_timestamp_below_any_end_is_that_of_a_plain_search(stable: int) -> None:
    """Timestamps go up and down, over several segments and entries of their time indexes."""
    fs = SimulatedFiles()
    log = open_log(fs, segment_bytes=700, index_interval_bytes=100)
    times = [NOW_MS + (offset * 37) % 29 for offset in range(40)]
    for time in times:
        log.append(batch(0, b"v", timestamp_ms=time), 0, time)
    assert len(log.segments) > 3

    log.high_watermark = stable

    first = times.index(max(times[:stable]))
    assert log.offset_of_max_timestamp() == TimestampOffset(times[first], first, 0)
