"""Tests the results and the costs of log reads that end at a maximum offset, such as the reads for
read_committed consumers."""

from __future__ import annotations

import pytest

from log.partition_log import PartitionLog
from tests.log.log_tools import NOW_MS, append_values, batch, open_log
from tests.simulated_files import SimulatedFile, SimulatedFiles

EVERYTHING = 1 << 20


def values(count: int, first: int = 0) -> list[bytes]:
    return [b"value %03d" % (first + number) for number in range(count)]


def filled_log(**settings: int) -> PartitionLog:
    log = open_log(SimulatedFiles(), **settings)
    append_values(log, *values(40))
    return log


def reads_of(log: PartitionLog, monkeypatch: pytest.MonkeyPatch, *args: int) -> int:
    """Reads the log twice with the same arguments. Returns the number of file reads of the second
    call, which uses the file positions that the first call has cached."""
    log.read(args[0], EVERYTHING, max_offset=args[1])
    reads = 0
    real = SimulatedFile.read

    def read(self: SimulatedFile, position: int, length: int) -> bytes:
        nonlocal reads
        reads += 1
        return real(self, position, length)

    monkeypatch.setattr(SimulatedFile, "read", read)
    log.read(args[0], EVERYTHING, max_offset=args[1])
    return reads


@pytest.mark.proves("transactions 36")
@pytest.mark.parametrize("offset", [0, 20, 29])
def test_repeated_read_makes_the_same_number_of_file_reads_with_any_max_offset(
    offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled_log()

    assert reads_of(log, monkeypatch, offset, 30) == reads_of(log, monkeypatch, offset, 40)


def test_max_offset_in_a_later_segment_causes_no_additional_file_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = filled_log(segment_bytes=500)
    assert len(log.segments) > 3
    last = log.active.base_offset

    assert reads_of(log, monkeypatch, 0, last + 1) == reads_of(log, monkeypatch, 0, 40)


def test_read_at_the_max_offset_reads_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reads_of(filled_log(), monkeypatch, 30, 30) == 0


@pytest.mark.parametrize("segment_bytes", [500, EVERYTHING])
def test_reads_end_at_the_given_max_offset(segment_bytes: int) -> None:
    log = filled_log(segment_bytes=segment_bytes)
    for _ in range(2):
        for limit in range(1, 41):
            found = b""
            offset = 0
            while True:
                read = log.read(offset, EVERYTHING, max_offset=limit)
                if not read.slices:
                    break
                found += read.data
                offset = log.segments.end_of(log.segments.at(offset), limit)
            assert found.count(b"value") == limit


def test_read_below_max_offset_returns_the_new_records_after_a_truncation() -> None:
    log = filled_log()
    log.read(0, EVERYTHING, max_offset=30)
    log.truncate_to(20, NOW_MS)
    log.append(batch(0, *[b"a longer batch, of ten records"] * 10), 0, NOW_MS)
    append_values(log, *values(10, first=30))

    read = log.read(0, EVERYTHING, max_offset=30)

    assert read.data.count(b"a longer batch") == 10
    assert b"value 030" not in read.data
