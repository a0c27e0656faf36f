"""Tests of the reader that finds the timestamp of the first unread record of a group.

The timestamp is exact if the record is cheap to find, and otherwise the base timestamp of its
batch.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log import record_time
from log.errors import CorruptLog
from log.partition_log import PartitionLog
from log.record_time import RecordTime, TimeReader
from protocol.records.batch import LOG_APPEND_TIME, encode_batch
from protocol.records.message_set import encode as encode_set
from protocol.records.section import Record
from protocol.records.section import Record as OldRecord
from tests.log.log_tools import NOW_MS, append_values, open_log
from tests.simulated_files import SimulatedFiles

GZIP = 1


def records(count: int) -> list[Record]:
    return [Record(index, NOW_MS + 1000 * index, None, b"v" * 10) for index in range(count)]


def first_record_time(log: PartitionLog, offset: int) -> tuple[int, bool] | None:
    """Returns what a new `TimeReader` finds for ``offset``: a timestamp, and whether it is
    approximate."""
    return shown(TimeReader(log.segments).first_at(offset))


def shown(found: RecordTime | None) -> tuple[int, bool] | None:
    """Returns the fields of a result except those that only metrics use."""
    return None if found is None else (found.timestamp_ms, found.approximate)


def test_time_reader_finds_the_timestamp_of_every_record() -> None:
    log = open_log(SimulatedFiles(), segment_bytes=300)
    for start in range(0, 40, 4):
        log.append(encode_batch(records(40)[start : start + 4], base_offset=start), 0, NOW_MS)
    assert len(log.segments) > 3

    for offset in range(40):
        assert first_record_time(log, offset) == (NOW_MS + 1000 * offset, False)
    assert first_record_time(log, 40) is None, "nothing is unread"


def test_time_of_a_removed_record_is_the_timestamp_of_the_next_record() -> None:
    log = open_log(SimulatedFiles())
    kept = [records(10)[index] for index in (2, 7)]
    log.append_encoded(encode_batch(kept, base_offset=0, last_offset=9), 0, 9, NOW_MS)
    log.append_encoded(encode_batch([], base_offset=10, last_offset=19), 10, 19, NOW_MS)
    last = Record(20, NOW_MS + 99, None, b"v")
    log.append_encoded(encode_batch([last]), 20, 20, NOW_MS)

    assert first_record_time(log, 0) == (NOW_MS + 2000, False)
    assert first_record_time(log, 3) == (NOW_MS + 7000, False)
    assert first_record_time(log, 8) == (NOW_MS + 99, False)


def test_first_record_time_does_not_return_the_delete_horizon_of_the_batch() -> None:
    log = open_log(SimulatedFiles())
    horizon = encode_batch(records(3), delete_horizon_ms=NOW_MS + 86_400_000)
    log.append_encoded(horizon, 0, 2, NOW_MS)

    assert first_record_time(log, 0) == (NOW_MS, False)


def test_time_reader_skips_transaction_markers() -> None:
    log = open_log(SimulatedFiles())
    marker = encode_batch(records(1), is_control=True)
    log.append_encoded(marker, 0, 0, NOW_MS)
    assert first_record_time(log, 0) is None
    reader = TimeReader(log.segments)
    reader.first_at(0)
    assert reader.saw_end

    log.append_encoded(encode_batch([Record(1, NOW_MS + 5, None, b"v")]), 1, 1, NOW_MS)
    assert first_record_time(log, 0) == (NOW_MS + 5, False)


def test_time_reader_returns_the_log_append_time_of_the_batch() -> None:
    log = open_log(SimulatedFiles())
    stamped = encode_batch(
        records(5), timestamp_type=LOG_APPEND_TIME, max_timestamp=NOW_MS + 77_000
    )
    log.append_encoded(stamped, 0, 4, NOW_MS)

    assert first_record_time(log, 3) == (NOW_MS + 77_000, False)


@pytest.mark.parametrize("limit", ["COMPRESSED_BYTES_MAX", "OPENED_BYTES_MAX", "RECORDS_MAX"])
def test_time_reader_returns_the_base_timestamp_of_a_large_compressed_batch(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(SimulatedFiles())
    log.append(encode_batch(records(50), compression=GZIP), 0, NOW_MS)
    assert first_record_time(log, 49) == (NOW_MS + 49_000, False)

    monkeypatch.setattr(record_time, limit, 40)
    assert first_record_time(log, 49) == (NOW_MS, True)
    assert first_record_time(log, 0) == (NOW_MS, False), "the first one is exact all the same"


def test_first_record_time_is_known_for_magic_1_but_not_for_magic_0() -> None:
    log = open_log(SimulatedFiles())
    old = [OldRecord(index, NOW_MS + index, None, b"v") for index in range(3)]
    log.append_encoded(encode_set(old, 1), 0, 2, NOW_MS)
    assert first_record_time(log, 2) == (NOW_MS + 2, False)

    oldest = [OldRecord(index, -1, None, b"v") for index in range(3, 5)]
    log.append_encoded(encode_set(oldest, 0), 3, 4, NOW_MS)
    assert first_record_time(log, 3) is None, "magic 0 has no timestamps"


def test_time_reader_finds_the_timestamp_of_a_record_in_a_log_of_small_batches() -> None:
    log = open_log(SimulatedFiles(), index_interval_bytes=100)
    for index in range(50):
        append_values(log, b"v", timestamp_ms=NOW_MS + index)
    assert first_record_time(log, 31) == (NOW_MS + 31, False)


def mixed_log() -> PartitionLog:
    log = open_log(SimulatedFiles(), segment_bytes=700, index_interval_bytes=100)
    for turn in range(12):
        base = log.log_end_offset
        made = [Record(base + n, NOW_MS + 1000 * (base + n), None, b"v" * 9) for n in range(9)]
        kinds = [
            encode_batch(made, base_offset=base),
            encode_batch(made, base_offset=base, compression=GZIP),
            encode_batch(made[::3], base_offset=base, last_offset=base + 8),
            encode_batch(made, base_offset=base, timestamp_type=LOG_APPEND_TIME),
            encode_batch(made, base_offset=base, delete_horizon_ms=NOW_MS),
        ]
        log.append_encoded(kinds[turn % len(kinds)], base, base + 8, NOW_MS)
        append_values(log, b"v", timestamp_ms=NOW_MS + turn)
    assert len(log.segments) > 2
    return log


@given(wanted=st.lists(st.integers(0, 125), max_size=40))
def test_reused_time_reader_returns_correct_times_for_offsets_in_any_order(
    wanted: list[int],
) -> None:
    reader = TimeReader(LOG.segments)
    assert [shown(reader.first_at(each)) for each in wanted] == [ALONE[each] for each in wanted]


def test_time_reader_can_be_used_after_it_has_read_a_damaged_batch() -> None:
    files = SimulatedFiles()
    log = open_log(files)
    whole = encode_batch(records(9))
    cut = bytearray(whole)
    cut[61 + 40 :] = b"\xfe" * (len(whole) - 61 - 40)  # each record length exceeds the batch
    log.append_encoded(bytes(cut), 0, 8, NOW_MS)
    append_values(log, b"v", timestamp_ms=NOW_MS + 77)
    reader = TimeReader(log.segments)

    assert reader.first_at(1) == RecordTime(NOW_MS + 1000, False)
    for _ in range(2):
        with pytest.raises(CorruptLog, match="records are truncated"):
            reader.first_at(8)
    assert reader.first_at(9) == RecordTime(NOW_MS + 77, False)


LOG = mixed_log()
ALONE = {offset: first_record_time(LOG, offset) for offset in range(126)}
