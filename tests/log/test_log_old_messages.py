"""The log of an old Kafka, with messages of magic 0 and 1 before batches of magic 2."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log.errors import CorruptLog
from log.partition_log import PartitionLog
from log.segment import Place
from protocol.records.batch import LOG_APPEND_TIME
from protocol.records.message_set import encode
from protocol.records.section import Record
from protocol.records.stored import read_stored
from tests.log.log_tools import DIRECTORY, NOW_MS, append_values, batch, open_log, values
from tests.simulated_files import SimulatedFiles

FIRST = f"{DIRECTORY}/00000000000000000000.log"
GZIP = 1


def records(first: int, last: int, timestamp_ms: int = NOW_MS) -> list[Record]:
    """Returns one record per offset, at intervals of 10 ms. The value of a record is its offset."""
    return [
        Record(offset, timestamp_ms + 10 * offset, b"k", b"%d" % offset)
        for offset in range(first, last + 1)
    ]


PLAIN_0 = encode(records(0, 1), 0)  # two messages of 28 bytes
WRAPPER_0 = encode(records(2, 4), 0, GZIP)
PLAIN_1 = encode(records(5, 6), 1)
WRAPPER_1 = encode(records(7, 9), 1, GZIP)
NEW = batch(10, b"10", b"11", timestamp_ms=NOW_MS + 500)
MIXED = PLAIN_0 + WRAPPER_0 + PLAIN_1 + WRAPPER_1 + NEW


def opened(data: bytes = MIXED, **settings: int | str) -> PartitionLog:
    """Returns a log that is opened after an unclean stop. Its only segment contains ``data``."""
    fs = SimulatedFiles()
    fs.put(FIRST, data)
    return open_log(fs, **settings)


def test_log_of_old_messages_can_be_read_and_appended() -> None:
    log = opened()
    assert log.recovery.cuts == []
    assert log.recovery.checked_bytes == len(MIXED)
    assert log.log_end_offset == 12

    append_values(log, b"12")
    assert values(log) == [(offset, b"%d" % offset) for offset in range(13)]
    assert values(log, from_offset=8) == [(offset, b"%d" % offset) for offset in range(7, 13)]


@pytest.mark.parametrize("index_interval_bytes", [0, 1 << 20])
def test_position_of_an_old_message_is_that_of_the_message_or_of_its_wrapper(
    index_interval_bytes: int,
) -> None:
    log = opened(index_interval_bytes=index_interval_bytes)
    begins = [0, 28, *[56] * 3]
    begins += [at := 56 + len(WRAPPER_0), at + len(PLAIN_1) // 2]
    begins += [at + len(PLAIN_1)] * 3 + [len(MIXED) - len(NEW)] * 2

    places = [log.active.locate(offset) for offset in range(12)]

    assert [place.position for place in places if place is not None] == begins
    assert log.active.locate(12) is None
    assert log.active.locate(9) == Place(begins[9], begins[10], 9, 9)
    assert log.read(8, 1).data == WRAPPER_1  # the whole wrapper, although it begins with offset 7
    assert log.read(0, 60).data == MIXED[:60]


def test_index_entry_has_the_last_offset_of_its_message() -> None:
    index = opened(index_interval_bytes=50).active.index
    assert [index.entry(number) for number in range(3)] == [
        (4, 56),
        (5, 56 + len(WRAPPER_0)),
        (9, len(PLAIN_0 + WRAPPER_0 + PLAIN_1)),
    ]


def test_clean_start_accepts_index_entries_with_the_first_or_last_offset_of_a_wrapper() -> None:
    fs = SimulatedFiles()
    fs.put(FIRST, MIXED)
    open_log(fs, index_interval_bytes=50).close()
    index = FIRST.replace(".log", ".index")
    assert open_log(fs, clean=True).recovery.rebuilt == []

    for offset in (7, 8, 9):  # 0.10 indexes the first offset of an append, here the wrapper's
        fs.names[index].data[:] = bytes.fromhex(f"0000000{offset} {len(MIXED) - 151:08x}")
        fs.names[index].data[4:] = len(PLAIN_0 + WRAPPER_0 + PLAIN_1).to_bytes(4, "big")
        assert open_log(fs, clean=True).recovery.rebuilt == []
        assert values(open_log(fs, clean=True), from_offset=11)[-1] == (11, b"11")

    fs.names[index].data[3] = 6  # an offset before the wrapper
    assert len(open_log(fs, clean=True).recovery.rebuilt) == 1


@pytest.mark.parametrize("cut", range(1, len(PLAIN_1) // 2))
def test_torn_message_is_truncated(cut: int) -> None:
    data = PLAIN_0 + WRAPPER_0 + PLAIN_1
    log = opened(data[:-cut])

    assert log.recovery.bytes_cut == len(PLAIN_1) // 2 - cut
    assert values(log)[-1] == (5, b"5")
    assert log.active.file.size() == len(data) - len(PLAIN_1) // 2
    assert log.recovery.cuts[0].kept_as is None


def test_zeros_after_the_last_message_are_truncated() -> None:
    log = opened(WRAPPER_1 + bytes(5000))
    assert [(cut.position, cut.reason, cut.kept_as) for cut in log.recovery.cuts] == [
        (len(WRAPPER_1), "the file has zeros instead of a batch", None)
    ]


@pytest.mark.parametrize("behind", [PLAIN_1, WRAPPER_1, NEW], ids=["plain", "wrapper", "batch"])
def test_old_messages_after_damage_are_kept_in_a_dot_cut_file(behind: bytes) -> None:
    damaged = bytearray(PLAIN_0 + WRAPPER_0 + behind)
    damaged[len(PLAIN_0 + WRAPPER_0) - 1] ^= 1
    log = opened(bytes(damaged))

    (cut,) = log.recovery.cuts
    assert (cut.position, cut.kept_as) == (len(PLAIN_0), FIRST + ".cut")
    assert "CRC" in cut.reason
    assert values(log) == [(0, b"0"), (1, b"1")]


def test_damage_below_the_recovery_point_is_refused() -> None:
    damaged = bytearray(MIXED)
    damaged[30] ^= 1
    fs = SimulatedFiles()
    fs.put(FIRST, bytes(damaged))
    with pytest.raises(CorruptLog, match="were flushed to the disk"):
        open_log(fs, recovery_point=12)


def test_scan_of_old_messages_raises_an_error_at_damage() -> None:
    log = opened()
    log.fs.open(FIRST).write(len(PLAIN_0) + 40, b"\xff\xff")
    with pytest.raises(CorruptLog, match="CRC"):
        values(log)


def test_offsets_by_time_use_the_records_inside_wrappers() -> None:
    log = opened()
    for offset in range(5, 10):
        found = log.offset_for_timestamp(NOW_MS + 10 * offset)
        assert found == (NOW_MS + 10 * offset, offset, -1)
    assert log.offset_for_timestamp(0) == (NOW_MS + 50, 5, -1)  # magic 0 has no timestamps
    assert log.offset_for_timestamp(NOW_MS + 91) == (NOW_MS + 500, 10, 0)
    assert log.offset_of_max_timestamp() == (NOW_MS + 500, 10, 0)
    assert opened(PLAIN_0).offset_of_max_timestamp() is None


def test_log_append_time_of_a_wrapper_applies_to_its_records() -> None:
    data = encode(records(0, 2), 1, GZIP, timestamp_type=LOG_APPEND_TIME, append_time=NOW_MS + 9000)
    log = opened(data)
    assert log.offset_for_timestamp(NOW_MS + 1) == (NOW_MS + 9000, 0, -1)


@pytest.mark.parametrize(
    ("offset", "end"), [(12, 12), (11, 10), (10, 10), (9, 7), (8, 7), (6, 6), (3, 2), (1, 1)]
)
def test_truncation_of_old_messages_removes_whole_messages_and_wrappers(
    offset: int, end: int
) -> None:
    log = opened(index_interval_bytes=0)
    assert log.truncate_to(offset, NOW_MS) == end
    assert values(log) == [(kept, b"%d" % kept) for kept in range(end)]


def test_retention_uses_the_timestamps_of_old_messages() -> None:
    log = opened(WRAPPER_1, retention_ms=1000)
    assert log.apply_retention(NOW_MS + 90 + 1000) == []
    assert log.apply_retention(NOW_MS + 90 + 1001) == [0]
    assert (log.log_start_offset, log.log_end_offset) == (10, 10)


def test_retention_without_timestamps_uses_the_file_time() -> None:
    fs = SimulatedFiles(now_ms=NOW_MS)
    fs.put(FIRST, PLAIN_0)
    log = open_log(fs, retention_ms=1000)
    written_ms = fs.modified_ms(FIRST)
    assert log.apply_retention(written_ms + 1000) == []
    assert log.apply_retention(written_ms + 1001) == [0]


@pytest.mark.parametrize("data", [PLAIN_0, PLAIN_1, WRAPPER_0, WRAPPER_1])
def test_header_of_an_old_message_is_read_without_decompression(data: bytes) -> None:
    header = read_stored(data)
    assert header.magic == data[16]
    assert header.base_offset == header.last_offset
    assert (header.partition_leader_epoch, header.producer_id) == (-1, -1)
    assert header.record_count == (-1 if header.compression else 1)
    assert not header.is_control
    assert not header.is_transactional


@given(
    edits=st.lists(
        st.tuples(st.integers(0, len(MIXED)), st.binary(max_size=12), st.integers(0, 40)),
        min_size=1,
        max_size=3,
    ),
    clean=st.booleans(),
)
@settings(max_examples=300)
def test_log_of_mutated_bytes_is_truncated_or_refused(
    edits: list[tuple[int, bytes, int]], clean: bool
) -> None:
    data = MIXED
    for position, inserted, removed in edits:
        data = data[:position] + inserted + data[position + removed :]
    fs = SimulatedFiles()
    fs.put(FIRST, data)
    with suppress(CorruptLog):
        log = open_log(fs, clean=clean, index_interval_bytes=50)
        for offset in range(14):  # checksums do not cover offsets, so the end can be anywhere
            log.active.locate(offset)
        log.offset_of_max_timestamp()
        log.offset_for_timestamp(NOW_MS + 60)
        found = values(log)
        if not clean:
            offsets = [offset for offset, _ in found]
            assert offsets == sorted(set(offsets))
            assert {value for _, value in found} <= {b"%d" % offset for offset in range(12)}
