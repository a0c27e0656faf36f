"""Tests of lookups of the first record whose timestamp is at least a given time, with and without
indexes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log.partition_log import PartitionLog
from log.values import TimestampOffset
from protocol.records.batch import encode_batch, records_of
from protocol.records.section import Record
from tests.log.log_tools import batch, open_log
from tests.simulated_files import SimulatedFiles

batches_of_times = st.lists(
    st.lists(st.integers(0, 60), min_size=1, max_size=4), min_size=1, max_size=25
)


def log_of(times: list[list[int]], codec: int = 0) -> tuple[SimulatedFiles, PartitionLog]:
    fs = SimulatedFiles()
    log = open_log(fs, segment_bytes=500, index_interval_bytes=100)
    for batch_times in times:
        records = [Record(index, time, None, b"v") for index, time in enumerate(batch_times)]
        log.append(encode_batch(records, compression=codec), 0, 0)
    return fs, log


def slow_search(log: PartitionLog, timestamp_ms: int) -> TimestampOffset | None:
    for buffer, header in log.scan():
        for record in records_of(buffer, header):
            if record.timestamp >= timestamp_ms and record.offset >= log.log_start_offset:
                return TimestampOffset(record.timestamp, record.offset, 0)
    return None


@settings(max_examples=60, deadline=None)
@given(batches_of_times, st.integers(0, 4))
def test_offset_by_time_equals_a_search_of_every_record(times: list[list[int]], codec: int) -> None:
    fs, log = log_of(times, codec)
    expected = [slow_search(log, time) for time in range(62)]
    largest = max(max(batch_times) for batch_times in times)
    for opened in (log, open_log(fs, segment_bytes=500, index_interval_bytes=100)):
        assert [opened.offset_for_timestamp(time) for time in range(62)] == expected
        assert opened.offset_of_max_timestamp() == slow_search(opened, largest)
    log.close()
    closed = open_log(fs, clean=True, segment_bytes=500)
    assert [closed.offset_for_timestamp(time) for time in range(62)] == expected
    assert closed.offset_of_max_timestamp() == slow_search(closed, largest)


@settings(max_examples=30, deadline=None)
@given(batches_of_times, st.data())
def test_offset_by_time_is_not_below_the_log_start_offset(
    times: list[list[int]], data: st.DataObject
) -> None:
    _, log = log_of(times)
    log.delete_records(data.draw(st.integers(0, log.log_end_offset)))
    for time in range(62):
        assert log.offset_for_timestamp(time) == slow_search(log, time)


def test_log_without_timestamps_has_no_max_timestamp() -> None:
    log = open_log(SimulatedFiles())
    assert log.offset_of_max_timestamp() is None
    log.append(batch(0, b"v", timestamp_ms=-1), 0, 5)
    assert log.offset_of_max_timestamp() is None
    assert log.offset_for_timestamp(0) is None


def segment_log() -> PartitionLog:
    """Returns a log of segments with the base offsets 0, 1 and 2, written at the times 100, 200 and
    300."""
    fs = SimulatedFiles()
    log = open_log(fs, segment_bytes=100)
    for time in (100, 200, 300):
        fs.now_ms = time
        log.append(batch(0), 0, time)
    return log


@pytest.mark.parametrize(
    ("timestamp_ms", "max_offsets", "answer"),
    [
        (-1, 1, [3]),
        (-1, 10, [3, 2, 1, 0]),
        (-1, 2, [3, 2]),
        (-2, 1, [0]),
        (-2, 10, [0]),
        (99, 10, []),
        (100, 10, [0]),
        (250, 10, [1, 0]),
        (250, 1, [1]),
        (300, 10, [2, 1, 0]),
        (1000, 10, [3, 2, 1, 0]),
        (1000, 0, []),
    ],
)
def test_list_offsets_version_0_returns_the_base_offsets_of_segments(
    timestamp_ms: int, max_offsets: int, answer: list[int]
) -> None:
    assert segment_log().segment_offsets_before(timestamp_ms, max_offsets, 1000) == answer


def test_list_offsets_version_0_returns_offsets_between_log_start_and_high_watermark() -> None:
    log = segment_log()
    assert log.segment_offsets_before(-1, 10, 1000, max_offset=1) == [1, 1, 0]
    log.delete_records(1)
    assert log.segment_offsets_before(-2, 10, 1000, max_offset=3) == [1]


def test_list_offsets_version_0_returns_the_start_of_an_empty_log() -> None:
    log = open_log(SimulatedFiles(), log_start_offset=4)
    assert log.segment_offsets_before(-1, 10, 1000) == [4]
    assert log.segment_offsets_before(-2, 10, 1000) == [4]
