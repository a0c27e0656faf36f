"""Tests of batches that lose all their records in a cleaning. Muster handles them as Apache Kafka
4.3.1 does, which `tests/interop/test_cleaned_as_kafka.py` verifies."""

from __future__ import annotations

from typing import Any

import pytest

from log.partition_log import PartitionLog
from log.segment import LOG
from tests.log.cleaning_tools import SETTINGS, all_records, clean_log
from tests.log.log_tools import NOW_MS, open_log
from tests.log.test_cleaner import batches, put
from tests.simulated_files import SimulatedFiles

SMALL: dict[str, Any] = {**SETTINGS, "segment_bytes": 100}
"""Settings with which each batch is in a segment of its own. A cleaning does not merge these
segments."""


def sizes(log: PartitionLog) -> list[tuple[int, bool]]:
    """Returns, for each closed segment, its base offset and whether it contains a batch."""
    return [(segment.base_offset, segment.size > 0) for segment in log.segments[:-1]]


def overwritten(fs: SimulatedFiles, **settings: int | str) -> PartitionLog:
    log = open_log(fs, **{**SMALL, **settings})
    for value in (b"1", b"2", b"3"):
        put(log, (b"a", value))
        log.roll()
    return log


def test_segment_whose_records_are_all_superseded_remains_without_a_batch() -> None:
    log = overwritten(SimulatedFiles())

    clean_log(log, 0, NOW_MS)

    assert sizes(log) == [(0, False), (1, False), (2, True)]
    assert [batch[:3] for batch in batches(log)] == [(2, 2, 1)], "no header is left of the others"
    for offset in (0, 1, 2):
        assert log.read(offset, 10_000).data == log.read(2, 10_000).data
    found = log.offset_for_timestamp(0)
    assert found is not None
    assert found.offset == 2


@pytest.mark.parametrize(("clean", "cleaned_to"), [(True, 3), (False, 3), (False, 0)])
def test_log_with_segments_without_a_batch_opens_and_is_cleaned_again(
    clean: bool, cleaned_to: int
) -> None:
    fs = SimulatedFiles()
    log = overwritten(fs)
    clean_log(log, 0, NOW_MS)
    log.close()

    again = open_log(fs, recovery_point=3, clean=clean, cleaned_to=cleaned_to, **SMALL)

    assert (again.log_start_offset, again.log_end_offset) == (0, 3)
    assert sizes(again) == [(0, False), (1, False), (2, True)]
    put(again, (b"a", b"4"))
    again.roll()
    assert clean_log(again, 3, NOW_MS).end_offset == 4
    assert [record.offset for record in all_records(again)] == [3]


@pytest.mark.parametrize("recovery_point", range(5))
@pytest.mark.parametrize("first", [b"a", b"b"])
@pytest.mark.parametrize(
    ("cleanup_policy", "cleaned_to"), [("compact", 0), ("compact", 4), ("delete", 4)]
)
def test_log_opens_after_a_kill_when_a_cleaning_removed_the_last_records_of_a_segment(
    recovery_point: int, first: bytes, cleanup_policy: str, cleaned_to: int
) -> None:
    """The recovery point can be inside a segment that a cleaning merged from several segments."""
    fs = SimulatedFiles()
    log = open_log(fs, **{**SETTINGS, "segment_bytes": 300})
    put(log, (first, b"1"))
    for value in (b"2", b"3", b"4"):
        put(log, (b"a", value))
    log.roll()
    put(log, (b"a", b"5"))
    log.roll()
    clean_log(log, 0, NOW_MS)
    kept = [0, 4] if first == b"b" else [4]
    assert [record.offset for record in all_records(log)] == kept
    assert [segment.base_offset for segment in log.segments] == [0, 4, 5]
    fs.kill()

    settings = {**SETTINGS, "cleanup_policy": cleanup_policy}
    again = open_log(fs, recovery_point=recovery_point, cleaned_to=cleaned_to, **settings)

    assert [record.offset for record in all_records(again)] == kept
    assert again.log_end_offset == 5
    assert not again.recovery.cuts


def test_last_batch_is_emptied_by_a_cleaning_and_removed_by_the_next_cleaning() -> None:
    fs = SimulatedFiles()
    log = open_log(fs, **SMALL)
    put(log, (b"a", b"1"))
    put(log, (None, b"goes"), (None, b"goes"))
    log.roll()

    clean_log(log, 0, NOW_MS)

    assert [batch[:3] for batch in batches(log)] == [(0, 0, 1), (1, 2, 0)]
    put(log, (b"b", b"1"))
    log.roll()
    clean_log(log, 3, NOW_MS)
    assert [batch[:3] for batch in batches(log)] == [(0, 0, 1), (3, 3, 1)]


def test_cleaned_segment_has_the_file_time_of_the_newest_replaced_file() -> None:
    fs = SimulatedFiles(now_ms=NOW_MS)
    log = overwritten(fs)
    fs.now_ms = NOW_MS + 5_000

    clean_log(log, 0, NOW_MS + 5_000)

    assert {fs.modified_ms(segment.path(LOG)) for segment in log.segments} == {NOW_MS}


def test_segment_without_a_batch_expires_by_its_file_time() -> None:
    fs = SimulatedFiles(now_ms=NOW_MS)
    log = overwritten(fs, cleanup_policy="compact,delete", retention_ms=10)
    fs.now_ms = NOW_MS + 5_000
    clean_log(log, 0, NOW_MS + 5_000)

    assert log.apply_retention(NOW_MS + 5_000) == [0, 1, 2]
