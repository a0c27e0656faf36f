"""Tests of retention, truncation, DeleteRecords, and the two steps of a file deletion: rename, then
remove."""

from __future__ import annotations

import pytest

from log.errors import OffsetOutOfRange
from log.partition_log import PartitionLog
from tests.log.log_tools import DIRECTORY, append_values, batch, open_log, values
from tests.simulated_files import SimulatedFiles

DAY_MS = 24 * 3600 * 1000


def four_segments(**settings: int | str) -> tuple[SimulatedFiles, PartitionLog]:
    """Returns a log of four segments. Each segment has one batch of 69 bytes, with the timestamps
    1000, 2000, 3000 and 4000."""
    fs = SimulatedFiles()
    log = open_log(fs, segment_bytes=100, **settings)
    for offset in range(4):
        append_values(log, b"%d" % offset, timestamp_ms=1000 * (offset + 1))
    return fs, log


def bases(log: PartitionLog) -> list[int]:
    return [segment.base_offset for segment in log.segments]


@pytest.mark.parametrize(
    ("now_ms", "left"),
    [(1500, [0, 1, 2, 3]), (1501, [1, 2, 3]), (3500, [2, 3]), (4500, [3]), (4501, [4])],
)
def test_segments_expire_when_their_latest_record_is_too_old(now_ms: int, left: list[int]) -> None:
    _, log = four_segments(retention_ms=500)

    deleted = log.apply_retention(now_ms)

    assert bases(log) == left
    assert deleted == list(range(left[0]))
    assert log.log_start_offset == left[0]
    assert log.log_end_offset == 4
    assert [offset for offset, _ in values(log)] == list(range(left[0], 4))


@pytest.mark.parametrize(
    ("retention_bytes", "left"),
    [(276, [0, 1, 2, 3]), (275, [0, 1, 2, 3]), (207, [1, 2, 3]), (70, [2, 3]), (69, [3]), (0, [4])],
)
def test_oldest_segments_are_deleted_above_retention_bytes(
    retention_bytes: int, left: list[int]
) -> None:
    _, log = four_segments(retention_bytes=retention_bytes, retention_ms=-1)
    log.apply_retention(5000)
    assert bases(log) == left


@pytest.mark.parametrize(("start", "left"), [(0, [0, 1, 2, 3]), (1, [1, 2, 3]), (4, [4])])
@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_segments_before_the_log_start_offset_are_deleted_by_any_policy(
    start: int, left: list[int], policy: str
) -> None:
    _, log = four_segments(cleanup_policy=policy, retention_ms=-1)
    assert log.delete_records(start) == start
    assert bases(log) == [0, 1, 2, 3]
    log.apply_retention(5000)
    assert bases(log) == left


@pytest.mark.parametrize("settings", [{"retention_ms": 1}, {"retention_bytes": 0}])
def test_log_of_a_compacted_topic_ignores_retention_settings(settings: dict[str, int]) -> None:
    _, log = four_segments(cleanup_policy="compact", **settings)
    assert log.apply_retention(DAY_MS) == []
    assert bases(log) == [0, 1, 2, 3]


def test_compact_and_delete_policy_deletes_segments() -> None:
    _, log = four_segments(cleanup_policy="compact,delete", retention_ms=1)
    assert log.apply_retention(DAY_MS) == [0, 1, 2, 3]


def test_retention_without_limits_deletes_no_segment() -> None:
    _, log = four_segments(retention_ms=-1, retention_bytes=-1)
    assert log.apply_retention(2**60) == []


def test_retention_keeps_segments_above_the_high_watermark() -> None:
    _, log = four_segments(retention_ms=1)
    assert log.apply_retention(DAY_MS, max_offset=2) == [0, 1]


def test_records_without_timestamps_expire_by_the_modification_time_of_their_file() -> None:
    fs = SimulatedFiles(now_ms=10_000)
    log = open_log(fs, segment_bytes=100, retention_ms=500)
    append_values(log, b"0", b"1", timestamp_ms=-1)
    assert log.apply_retention(10_500) == []
    assert log.apply_retention(10_501) == [0, 1]


def test_retention_does_not_change_an_empty_log() -> None:
    fs = SimulatedFiles()
    log = open_log(fs, retention_ms=0, retention_bytes=0)
    before = fs.list(DIRECTORY)
    assert log.apply_retention(DAY_MS) == []
    assert fs.list(DIRECTORY) == before


def test_deleted_files_are_renamed_and_removed_after_file_delete_delay() -> None:
    fs, log = four_segments(retention_ms=2000, file_delete_delay_ms=60_000)

    log.apply_retention(3500)
    assert fs.list(DIRECTORY)[:3] == [
        "00000000000000000000.index.deleted",
        "00000000000000000000.log.deleted",
        "00000000000000000000.timeindex.deleted",
    ]
    log.apply_retention(63_499)
    assert any(name.startswith("00000000000000000000.") for name in fs.list(DIRECTORY))
    log.apply_retention(63_500)
    assert not any(name.startswith("00000000000000000000.") for name in fs.list(DIRECTORY))


def test_files_renamed_before_a_crash_are_removed_by_the_next_process() -> None:
    fs, log = four_segments(retention_ms=2000)
    log.apply_retention(3500)
    fs.kill()

    again = open_log(fs)

    assert (again.log_start_offset, again.log_end_offset) == (1, 4)
    again.apply_retention(3500)
    assert not [name for name in fs.list(DIRECTORY) if name.endswith(".deleted")]


def test_deleted_segment_stays_readable_for_reads_in_progress() -> None:
    _, log = four_segments(retention_ms=1)
    info = log.read(1, 1000)
    place = log.segments[1]
    before = info.data

    log.apply_retention(DAY_MS)
    log.apply_retention(2 * DAY_MS)

    assert info.data == before
    assert place.locate(1) is not None
    with pytest.raises(OffsetOutOfRange):
        log.read(1, 1000)


def test_deleted_records_are_hidden_immediately() -> None:
    _, log = four_segments()
    assert log.delete_records(2) == 2
    assert [offset for offset, _ in values(log)] == [2, 3]
    with pytest.raises(OffsetOutOfRange):
        log.read(1, 1000)
    assert log.delete_records(1) == 2
    assert log.delete_records(-1) == 4
    assert values(log) == []


@pytest.mark.parametrize("offset", [5, 2**62, -2])
def test_delete_records_after_the_log_end_offset_is_refused(offset: int) -> None:
    _, log = four_segments()
    with pytest.raises(OffsetOutOfRange):
        log.delete_records(offset)
    assert log.log_start_offset == 0


def test_start_offset_inside_a_segment_is_restored_from_its_checkpoint() -> None:
    fs = SimulatedFiles()
    log = open_log(fs)
    append_values(log, b"0", b"1", b"2")
    log.delete_records(2)
    log.close()

    again = open_log(fs, clean=True, log_start_offset=2)

    assert again.log_start_offset == 2
    assert values(again) == [(2, b"2")]


@pytest.mark.parametrize("offset", range(6))
def test_truncation_removes_all_records_at_and_after_the_offset(offset: int) -> None:
    fs, log = four_segments(index_interval_bytes=0)
    append_values(log, b"4", timestamp_ms=5000)
    log.flush()

    assert log.truncate_to(offset, 5000) == offset
    assert log.log_end_offset == log.recovery_point == offset
    kept = [(number, b"%d" % number) for number in range(offset)]
    assert values(log) == kept
    append_values(log, b"new", timestamp_ms=6000)
    assert values(log) == [*kept, (offset, b"new")]

    fs.kill()
    assert values(open_log(fs)) == [*kept, (offset, b"new")]


def test_leader_epochs_are_updated_by_truncations_and_deletions() -> None:
    fs = SimulatedFiles()
    log = open_log(fs, segment_bytes=100, retention_ms=-1)
    for epoch in (0, 0, 2, 5, 5):
        log.append(batch(), epoch, 1)
    assert log.epochs.entries == [(0, 0), (2, 2), (5, 3)]
    assert [log.epochs.end_offset_for(epoch, 5) for epoch in range(-1, 7)] == [
        (-1, -1), (0, 2), (0, 2), (2, 3), (2, 3), (2, 3), (5, 5), (-1, -1),
    ]  # fmt: skip
    assert open_log(fs).epochs.entries == [(0, 0), (2, 2), (5, 3)]

    log.delete_records(3)
    assert log.epochs.entries == [(5, 3)]
    log.truncate_to(4, 1)
    assert log.epochs.entries == [(5, 3)]
    assert fs.written(f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n1\n5 3\n"


def test_lost_leader_epochs_are_rebuilt_from_the_batches() -> None:
    fs = SimulatedFiles()
    log = open_log(fs)
    for epoch in (0, 3, 3, 4):
        log.append(batch(), epoch, 1)
    fs.lose(f"{DIRECTORY}/leader-epoch-checkpoint")

    assert open_log(fs).epochs.entries == [(0, 0), (3, 1), (4, 3)]


def leftovers(fs: SimulatedFiles) -> list[str]:
    """Returns the names of the files with suffix `.deleted`."""
    return [name for name in fs.list(DIRECTORY) if name.endswith(".deleted")]


def test_failed_removal_of_a_file_is_retried_and_other_files_are_removed() -> None:
    fs, log = four_segments(retention_ms=2000, file_delete_delay_ms=0)
    log.apply_retention(4500)
    assert len(leftovers(fs)) == 6
    fs.fail("remove", "0.log.deleted")

    log.apply_retention(4500)

    assert leftovers(fs) == ["00000000000000000000.log.deleted"]
    assert "Input/output error" in str(log.segments.undeleted)
    log.apply_retention(4500)
    assert leftovers(fs) == []
    assert log.segments.undeleted is None


def test_file_whose_rename_failed_is_removed_under_its_old_name() -> None:
    fs, log = four_segments(retention_ms=2000, file_delete_delay_ms=0)
    fs.fail("rename", "0.log.deleted")

    assert log.apply_retention(4500) == [0, 1]
    assert log.segments.undeleted is not None
    log.apply_retention(4500)

    assert not [name for name in fs.list(DIRECTORY) if name < f"{2:020d}"]
    assert bases(log) == [2, 3]
    assert log.segments.undeleted is None


def test_failed_write_of_leader_epochs_does_not_block_deletion() -> None:
    fs = SimulatedFiles()
    log = open_log(fs, segment_bytes=100, retention_ms=-1, file_delete_delay_ms=0)
    for epoch in (0, 2, 5):
        log.append(batch(), epoch, 1)
    log.delete_records(1)
    fs.fail("write", "leader-epoch-checkpoint.tmp")
    with pytest.raises(OSError, match="Input/output error"):
        log.delete_records(2)
    assert (log.log_start_offset, log.epochs.entries) == (1, [(2, 1), (5, 2)]), "nothing moved"
    log.delete_records(2)

    log.apply_retention(1)
    log.apply_retention(1)

    assert [name for name in fs.list(DIRECTORY) if name.endswith(".log")] == [f"{2:020d}.log"]


def test_closed_segments_are_deleted_when_the_active_segment_cannot_roll() -> None:
    """All segments have expired, and the disk has no space for a new active segment."""
    fs, log = four_segments(retention_ms=1)
    fs.fail("open", f"{4:020d}.log")

    assert log.apply_retention(DAY_MS) == [0, 1, 2]
    assert bases(log) == [3]
    assert log.segments.undeleted is not None
    assert log.apply_retention(DAY_MS) == [3]
    assert bases(log) == [4]
