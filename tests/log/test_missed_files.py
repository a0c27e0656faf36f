"""Tests of missing segment files. The error names the missing files, so that lost records are not
silently skipped."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from log.errors import CorruptLog, MissingFiles
from tests.log.log_tools import DIRECTORY, append_values, open_log, values
from tests.simulated_files import SimulatedFiles

pytestmark = pytest.mark.proves("faults 6")

SMALL = {"segment_bytes": 100}
DAY_MS = 24 * 3_600_000


def five_segments(clean: bool = True) -> SimulatedFiles:
    """Returns a log with offsets 0 to 4, each in a segment of its own. The log was closed cleanly,
    or was killed after a flush."""
    fs = SimulatedFiles()
    log = open_log(fs, **SMALL)
    append_values(log, b"0", b"1", b"2", b"3", b"4")
    if clean:
        log.close()
    else:
        log.flush()
    fs.kill()
    return fs


def remove(fs: SimulatedFiles, base: int, *suffixes: str) -> None:
    """Removes the files of a segment that have these suffixes, or all files of the segment by
    default."""
    for suffix in suffixes or (".log", ".index", ".timeindex", ".snapshot"):
        path = f"{DIRECTORY}/{base:020d}{suffix}"
        if fs.exists(path):
            fs.lose(path)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("suffixes", [(), (".log",)])
def test_flushed_log_without_segments_is_refused(clean: bool, suffixes: tuple[str, ...]) -> None:
    fs = five_segments(clean)
    for base in range(5):
        remove(fs, base, *suffixes)

    with pytest.raises(MissingFiles, match=r"\.log is missing: ") as caught:
        open_log(fs, clean=clean, recovery_point=5, **SMALL)

    assert "log.recovery.missing=t-0" in str(caught.value.with_advice("t-0"))


def test_unflushed_log_without_segments_is_refused_when_its_high_watermark_is_above_0() -> None:
    """The recovery point stays at 0 until the first roll, but the high watermark proves that
    records are lost."""
    fs = SimulatedFiles()
    append_values(open_log(fs), b"0", b"1")
    remove(fs, 0)

    with pytest.raises(MissingFiles, match="the checkpoints say that offsets up to 2 were written"):
        open_log(fs, high_watermark=2)


def test_empty_log_without_segments_is_created_again() -> None:
    fs = SimulatedFiles()
    open_log(fs)
    remove(fs, 0)

    assert open_log(fs).log_end_offset == 0


def test_lost_log_begins_at_its_former_end_offset_when_loss_is_accepted() -> None:
    fs = five_segments()
    for base in range(5):
        remove(fs, base)

    log = open_log(fs, recovery_point=5, missing=True, **SMALL)
    append_values(log, b"5")

    assert (log.log_start_offset, values(log)) == (5, [(5, b"5")])
    log.close()
    assert values(open_log(fs, clean=True, recovery_point=6, log_start_offset=5, **SMALL)) == [
        (5, b"5")
    ]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("gone", [1, 2, 3])
def test_error_names_a_segment_missing_in_the_middle(clean: bool, gone: int) -> None:
    fs = five_segments(clean)
    remove(fs, gone)

    with pytest.raises(MissingFiles, match=f"{gone:020d}.log is missing: .* ends at offset {gone}"):
        open_log(fs, clean=clean, recovery_point=5, **SMALL)

    log = open_log(fs, clean=clean, recovery_point=5, missing=True, **SMALL)
    assert [offset for offset, _ in values(log)] == [n for n in range(5) if n != gone]


@pytest.mark.parametrize("clean", [True, False])
def test_error_about_missing_files_names_a_missing_first_segment(clean: bool) -> None:
    fs = five_segments(clean)
    remove(fs, 0)

    with pytest.raises(MissingFiles, match="leader-epoch-checkpoint says that the log begins at"):
        open_log(fs, clean=clean, recovery_point=5, **SMALL)

    log = open_log(fs, clean=clean, recovery_point=5, missing=True, **SMALL)
    assert log.log_start_offset == 1
    log.close()
    assert open_log(fs, clean=True, recovery_point=5, **SMALL).log_start_offset == 1


def test_missing_first_segments_are_detected_from_the_log_start_checkpoint() -> None:
    fs = five_segments()
    remove(fs, 0)
    remove(fs, 1)
    fs.lose(f"{DIRECTORY}/leader-epoch-checkpoint")

    with pytest.raises(
        MissingFiles, match=r"log-start-offset-checkpoint says .* begins at offset 1"
    ):
        open_log(fs, clean=True, recovery_point=5, log_start_offset=1, **SMALL)


@pytest.mark.parametrize("gone", [0, 2, 4])
def test_error_names_the_missing_segment_of_an_existing_index(gone: int) -> None:
    """Regression: the log removed the index as a leftover of a deletion."""
    fs = five_segments()
    remove(fs, gone, ".log")

    with pytest.raises(MissingFiles, match=rf"{gone:020d}.log is missing: .*index exists"):
        open_log(fs, clean=True, recovery_point=5, cleaned_to=5, **SMALL)


def test_segment_removed_by_the_cleaner_is_not_reported_as_missing() -> None:
    fs = five_segments()
    remove(fs, 2)

    log = open_log(fs, clean=True, recovery_point=5, cleaned_to=3, **SMALL)

    assert [offset for offset, _ in values(log)] == [0, 1, 3, 4]


@pytest.mark.parametrize("clean", [True, False])
def test_gap_in_a_compacted_log_is_not_reported_as_a_missing_file(clean: bool) -> None:
    """An interrupted cleaning can leave gaps between segments, even above the offset in the
    cleaner's checkpoint."""
    fs = five_segments(clean)
    remove(fs, 2)

    log = open_log(
        fs, clean=clean, recovery_point=5, cleaned_to=2, cleanup_policy="compact", **SMALL
    )

    assert [offset for offset, _ in values(log)] == [0, 1, 3, 4]


@pytest.mark.parametrize("removed", [False, True])
@pytest.mark.parametrize("step", range(30))
def test_crash_during_a_deletion_reports_no_missing_segment(step: int, removed: bool) -> None:
    """The process is killed or loses power between any two steps."""
    fs = SimulatedFiles()
    log = open_log(fs, retention_ms=1, file_delete_delay_ms=0, **SMALL)
    append_values(log, *(b"%d" % number for number in range(4)))
    log.flush()
    if removed:
        log.apply_retention(2 * DAY_MS + 1_700_000_000_000)
    fs.calls.clear()

    def steps() -> None:
        log.apply_retention(2 * DAY_MS + 1_700_000_000_000)
        log.flush()

    real = fs.fault

    def dies(operation: str, path: str) -> object:
        if len(fs.calls) >= step:
            raise Killed
        return real(operation, path)

    fs.fault = dies  # type: ignore[method-assign, assignment]
    with suppress(Killed):
        steps()
    fs.fault = real  # type: ignore[method-assign]
    chance = random.Random(step)
    if chance.random() < 0.5:
        fs.lose_power(chance)
    else:
        fs.kill()

    again = open_log(fs, recovery_point=4, high_watermark=4, **SMALL)

    assert again.log_end_offset == 4


class Killed(BaseException):
    """Simulates the kill of the process."""


@pytest.mark.parametrize("bytes_left", range(1, 27))
def test_torn_tail_of_any_length_is_reported_as_damage(bytes_left: int) -> None:
    fs = SimulatedFiles()
    log = open_log(fs)
    append_values(log, b"0")
    log.close()
    fs.names[f"{DIRECTORY}/{0:020d}.log"].data += bytes(bytes_left)

    with pytest.raises(CorruptLog):
        open_log(fs, clean=True, recovery_point=1)
