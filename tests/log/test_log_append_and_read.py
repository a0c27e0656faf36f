"""Tests of appends and reads: offsets, timestamps, rolls, and the results of fetches."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from log.config import LogConfig
from log.errors import AppendRefused, OffsetOutOfRange
from log.files.filesystem import OsFileSystem
from log.partition_log import PartitionLog
from protocol.errors import MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE
from protocol.records.batch import CREATE_TIME, LOG_APPEND_TIME, encode_batch, records_of
from protocol.records.section import Record
from protocol.records.stored import iter_stored
from tests.log.log_tools import NOW_MS, append_values, batch, open_log, values
from tests.simulated_files import SimulatedFiles


def bases(log: PartitionLog) -> list[int]:
    return [segment.base_offset for segment in log.segments]


# -- appending


def test_batches_get_the_next_offsets_and_the_leader_epoch() -> None:
    log = open_log(SimulatedFiles())
    append_values(log, b"before")

    info = log.append(batch(0, b"a", b"b") + batch(0, b"c"), 3, NOW_MS)

    assert info == (1, 3, -1, 0, False)
    headers = [header for _, header in log.scan(1)]
    assert [(header.base_offset, header.last_offset) for header in headers] == [(1, 2), (3, 3)]
    assert [header.partition_leader_epoch for header in headers] == [3, 3]
    assert values(log) == [(0, b"before"), (1, b"a"), (2, b"b"), (3, b"c")]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_append_accepts_any_buffer_and_does_not_change_it(kind: type) -> None:
    log = open_log(SimulatedFiles())
    append_values(log, b"before")
    data = batch(0, b"a")
    log.append(kind(data), 0, NOW_MS)
    assert data == batch(0, b"a")
    assert values(log)[-1] == (1, b"a")


def test_append_without_batches_writes_no_bytes() -> None:
    fs = SimulatedFiles()
    log = open_log(fs)
    fs.calls.clear()
    assert log.append(b"", 0, NOW_MS)[:2] == (0, -1)
    assert fs.calls == []


def test_log_append_time_replaces_the_producers_timestamps() -> None:
    log = open_log(SimulatedFiles(), message_timestamp_type="LogAppendTime")

    info = log.append(batch(0, b"a", b"b", timestamp_ms=1), 0, NOW_MS)

    assert info.log_append_time_ms == NOW_MS
    [(buffer, header)] = log.scan()  # the scan verifies the new checksum
    assert header.timestamp_type == LOG_APPEND_TIME
    assert [record.timestamp for record in records_of(buffer, header)] == [NOW_MS, NOW_MS]
    assert log.active.max_timestamp_ms == NOW_MS


def test_record_timestamps_of_the_producer_are_kept_with_create_time() -> None:
    log = open_log(SimulatedFiles())
    assert log.append(batch(0, timestamp_ms=1), 0, NOW_MS).log_append_time_ms == -1
    [(_, header)] = log.scan()
    assert (header.timestamp_type, header.max_timestamp) == (CREATE_TIME, 1)


def test_batch_above_max_message_bytes_is_refused() -> None:
    log = open_log(SimulatedFiles(), max_message_bytes=68)
    with pytest.raises(AppendRefused) as caught:
        append_values(log, b"0")
    assert caught.value.error_code == MESSAGE_TOO_LARGE
    assert log.size_bytes == 0
    append_values(log, b"")


def test_batches_too_large_for_a_segment_are_refused() -> None:
    log = open_log(SimulatedFiles(), segment_bytes=100)
    with pytest.raises(AppendRefused) as caught:
        log.append(batch(0) + batch(0), 0, NOW_MS)
    assert caught.value.error_code == RECORD_LIST_TOO_LARGE


def test_method_append_encoded_writes_the_batches_unchanged() -> None:
    fs = SimulatedFiles()
    log = open_log(fs)
    data = batch(0, b"a", b"b") + batch(2, b"c")
    log.append_encoded(data, 0, 2, NOW_MS)

    assert log.log_end_offset == 3
    assert log.read(0, 1000).data == data
    assert fs.written("/data/t-0/00000000000000000000.log") == data


# -- rolling


def test_segment_rolls_before_segment_bytes() -> None:
    log = open_log(SimulatedFiles(), segment_bytes=138)
    append_values(log, *(b"%d" % offset for offset in range(5)))
    assert bases(log) == [0, 2, 4]


def test_segment_rolls_when_its_timestamps_span_segment_ms() -> None:
    log = open_log(SimulatedFiles(), segment_ms=1000)
    for time in (5000, 6000, 6001, 7001, 7002):
        append_values(log, b"v", timestamp_ms=time)
    assert bases(log) == [0, 2, 4]


def test_segment_without_timestamps_rolls_by_wall_time() -> None:
    log = open_log(SimulatedFiles(), segment_ms=1000)
    for now_ms in (5000, 6000, 6001):
        log.append(batch(0, timestamp_ms=-1), 0, now_ms)
    assert bases(log) == [0, 2]


def test_segment_jitter_only_makes_rolls_earlier() -> None:
    fs = SimulatedFiles()
    log = open_log(fs, segment_ms=1000, segment_jitter_ms=1000)
    for time in range(0, 100_000, 100):
        append_values(log, b"v", timestamp_ms=time)
    lengths = {later - earlier for earlier, later in zip(bases(log), bases(log)[1:], strict=False)}
    assert max(lengths) <= 11
    assert len(lengths) > 3


def test_jitter_makes_logs_opened_together_roll_at_different_times() -> None:
    def ends_after() -> int:
        fs = SimulatedFiles()
        append_values(open_log(fs), b"v", timestamp_ms=0)
        log = open_log(fs, segment_ms=1000, segment_jitter_ms=1000)
        while len(log.segments) == 1:
            append_values(log, b"v", timestamp_ms=100 * log.log_end_offset)
        return log.log_end_offset

    ends = {ends_after() for _ in range(20)}
    assert max(ends) <= 12
    assert len(ends) > 2


def test_segment_rolls_when_an_index_is_full() -> None:
    log = open_log(SimulatedFiles(), segment_index_bytes=36, index_interval_bytes=0)
    for time in range(1, 9):  # the roll needs the last time entry of three
        append_values(log, b"v", timestamp_ms=time)
    assert bases(log) == [0, 3, 6]


def test_segment_rolls_when_the_relative_offset_would_overflow() -> None:
    log = open_log(SimulatedFiles())
    log.append_encoded(batch(0), 0, 0, 1)
    log.log_end_offset = 2**31 - 1
    log.append_encoded(batch(2**31 - 1), 2**31 - 1, 2**31 - 1, 1)
    assert bases(log) == [0]
    log.append_encoded(batch(2**31), 2**31, 2**31, 1)
    assert bases(log) == [0, 2**31]


def test_roll_of_an_empty_segment_has_no_effect() -> None:
    log = open_log(SimulatedFiles())
    assert log.roll() is log.active
    append_values(log, b"0")
    assert log.roll().base_offset == 1
    assert log.roll().base_offset == 1
    assert bases(log) == [0, 1]


# -- reading


@pytest.fixture
def log() -> PartitionLog:
    """Returns a log with batches of 77 bytes: offsets 0-1 and 2-3 in the first segment, offsets 4-5
    in the second segment. The index has an entry for every batch."""
    log = open_log(SimulatedFiles(), segment_bytes=154, index_interval_bytes=0)
    for first in (0, 2, 4):
        log.append(batch(0, b"%d" % first, b"%d" % (first + 1)), 0, NOW_MS)
    return log


def offsets(data: bytes) -> list[tuple[int, int]]:
    return [
        (header.base_offset, header.last_offset) for header, _ in iter_stored(data, partial=True)
    ]


@pytest.mark.parametrize(
    ("offset", "max_bytes", "found", "size"),
    [
        (0, 1000, [(0, 1), (2, 3)], 154),  # up to the end of the segment, as in Kafka
        (1, 1000, [(0, 1), (2, 3)], 154),  # the whole batch that contains the offset
        (2, 1000, [(2, 3)], 77),
        (3, 1000, [(2, 3)], 77),
        (4, 1000, [(4, 5)], 77),
        (5, 1000, [(4, 5)], 77),
        (6, 1000, [], 0),  # the log end offset, without a record yet
        (0, 77, [(0, 1)], 77),
        (0, 100, [(0, 1)], 100),  # the last 23 bytes are the beginning of the next batch
        (0, 1, [(0, 1)], 77),  # one whole batch, however small the limit
        (0, 0, [(0, 1)], 77),
    ],
)
def test_read_returns_whole_batches_up_to_max_bytes(
    log: PartitionLog, offset: int, max_bytes: int, found: list[tuple[int, int]], size: int
) -> None:
    info = log.read(offset, max_bytes)
    assert offsets(info.data) == found
    assert len(info.data) == info.size_bytes == size
    assert not info.first_entry_incomplete
    assert (info.log_start_offset, info.log_end_offset) == (0, 6)


def test_read_cuts_the_first_batch_at_max_bytes_when_min_one_batch_is_false(
    log: PartitionLog,
) -> None:
    info = log.read(0, 50, min_one_batch=False)
    assert len(info.data) == 50
    assert info.first_entry_incomplete
    assert log.read(0, 0, min_one_batch=False).slices == ()


@pytest.mark.parametrize(
    ("max_offset", "offset", "found"),
    [
        (6, 0, [(0, 1), (2, 3)]),
        (4, 0, [(0, 1), (2, 3)]),
        (4, 4, []),
        (2, 0, [(0, 1)]),
        (2, 2, []),
        (0, 0, []),
    ],
)
def test_read_returns_no_batch_at_or_after_max_offset(
    log: PartitionLog, max_offset: int, offset: int, found: list[tuple[int, int]]
) -> None:
    assert offsets(log.read(offset, 1000, max_offset=max_offset).data) == found
    assert offsets(log.read(offset, 1000, max_offset=max_offset).data) == found


@pytest.mark.parametrize("offset", [-1, 7, 2**62])
def test_read_outside_the_log_raises_offset_out_of_range(log: PartitionLog, offset: int) -> None:
    with pytest.raises(OffsetOutOfRange) as caught:
        log.read(offset, 1000)
    assert (caught.value.log_start_offset, caught.value.log_end_offset) == (0, 6)


def test_read_skips_the_offsets_that_a_cleaning_removed() -> None:
    fs = SimulatedFiles()
    fs.put("/data/t-0/00000000000000000000.log", batch(0) + batch(5))
    fs.put("/data/t-0/00000000000000000010.log", batch(12))
    log = open_log(fs)
    for offset, base in ((0, 0), (1, 5), (5, 5), (6, 12), (10, 12), (12, 12)):
        assert offsets(log.read(offset, 69).data) == [(base, base)]
    assert [offset for offset, _ in values(log, 3)] == [5, 12]


@pytest.mark.parametrize("chunk_bytes", [61, 100, 4096, 1 << 20])
def test_scan_finds_every_batch_for_any_chunk_size(chunk_bytes: int) -> None:
    log = open_log(SimulatedFiles(), segment_bytes=4000)
    wanted = [os.urandom(size) for size in (0, 1, 60, 500, 3000, 7, 100, 2)]
    append_values(log, *wanted)

    found = [
        (header.base_offset, record.value)
        for buffer, header in log.scan(chunk_bytes=chunk_bytes)
        for record in records_of(buffer, header)
    ]
    assert found == list(enumerate(wanted))


def test_scan_begins_at_the_batch_that_contains_the_offset(log: PartitionLog) -> None:
    assert [header.base_offset for _, header in log.scan(3)] == [2, 4]
    assert list(log.scan(6)) == []


# -- real files


def test_read_returns_byte_ranges_of_the_segment_file(tmp_path: Path) -> None:
    log = PartitionLog.open(OsFileSystem(), str(tmp_path / "t-0"), "t", 0, LogConfig())
    data = b"".join(batch(offset, b"x" * offset) for offset in range(100))
    log.append_encoded(data, 0, 99, NOW_MS)

    [piece] = log.read(50, 1000).slices

    whole = Path(piece.file.path).read_bytes()
    assert whole[piece.position : piece.position + piece.length] == log.read(50, 1000).data
    assert next(iter_stored(log.read(50, 1000).data, partial=True))[0].base_offset == 50


@pytest.mark.campaign
def test_reader_threads_are_not_affected_by_rolls_and_deletions(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=600, retention_bytes=1500, file_delete_delay_ms=0)
    log = PartitionLog.open(OsFileSystem(), str(tmp_path / "t-0"), "t", 0, config)
    stop = threading.Event()
    reads: list[int] = []
    failures: list[BaseException] = []

    def reader() -> None:
        try:
            while not stop.is_set():
                offset = (log.log_start_offset + log.log_end_offset) // 2
                try:
                    info = log.read(offset, 300)
                except OffsetOutOfRange:
                    continue  # the offset has been deleted
                for header, position in iter_stored(info.data, partial=True):
                    [record] = records_of(info.data, header)
                    assert record.value == b"%d" % record.offset
                    reads.append(position)
        except BaseException as failure:
            failures.append(failure)
            raise

    threads = [threading.Thread(target=reader) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        offset = 0
        while offset < 400 or (len(reads) < 200 and not failures and offset < 1_000_000):
            log.append(encode_batch([Record(0, NOW_MS, None, b"%d" % offset)]), 0, NOW_MS)
            offset += 1
            if offset % 10 == 0:
                log.apply_retention(NOW_MS)
            if offset % 50 == 0:
                log.flush()
    finally:
        stop.set()
        for thread in threads:
            thread.join(timeout=30)
    assert failures == []
    assert len(reads) >= 200
    assert log.log_start_offset > 300
    assert len(list((tmp_path / "t-0").glob("*.log"))) == len(log.segments)
