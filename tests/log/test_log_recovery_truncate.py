"""Damage that a crash cannot cause is refused, unless a setting allows truncation at the damage."""

from __future__ import annotations

import pytest

from log.errors import CorruptLog
from tests.log.log_tools import DIRECTORY, append_values, batch, open_log, values
from tests.simulated_files import SimulatedFiles

FIRST = f"{DIRECTORY}/00000000000000000000.log"
SECOND = f"{DIRECTORY}/00000000000000000003.log"
SMALL = {"segment_bytes": 220, "index_interval_bytes": 0}  # three batches of 69 bytes per segment


def flushed_log() -> SimulatedFiles:
    """Returns a flushed log with offsets 0 to 2 in the first segment and 3 to 4 in the second
    segment."""
    fs = SimulatedFiles()
    log = open_log(fs, **SMALL)
    append_values(log, *(b"%d" % offset for offset in range(5)))
    log.close()
    return fs


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    ("file", "position", "left"), [(FIRST, 10, 0), (FIRST, 69 + 65, 1), (SECOND, 69 + 20, 4)]
)
def test_damaged_log_is_truncated_at_the_damage_when_truncation_is_allowed(
    file: str, position: int, left: int, clean: bool
) -> None:
    fs = flushed_log()
    fs.names[file].data[position] ^= 0xFF
    damaged = fs.written(file)

    log = open_log(fs, recovery_point=5, clean=clean, truncate=True, **SMALL)

    assert values(log) == [(offset, b"%d" % offset) for offset in range(left)]
    assert (log.log_end_offset, log.recovery_point) == (left, left)
    cut = log.recovery.cuts[0]
    assert (cut.file, cut.position) == (file, position // 69 * 69)
    assert fs.written(file + ".cut") == damaged[cut.position :]
    append_values(log, b"new")
    assert values(log)[-1] == (left, b"new")
    fs.kill()
    assert values(open_log(fs, **SMALL))[-1] == (left, b"new")


def test_log_that_ends_below_its_recovery_point_opens_when_truncation_is_allowed() -> None:
    fs = flushed_log()
    del fs.names[SECOND].data[69:]
    with pytest.raises(CorruptLog, match="recovery point 5"):
        open_log(fs, recovery_point=5, **SMALL)

    log = open_log(fs, recovery_point=5, truncate=True, **SMALL)

    assert (log.log_end_offset, log.recovery_point) == (4, 4)


def test_segment_that_overlaps_another_segment_is_truncated_when_truncation_is_allowed() -> None:
    fs = flushed_log()
    fs.names[FIRST].data += batch(3, b"3") + batch(4, b"another 4")
    with pytest.raises(CorruptLog, match="ends at offset 5") as refused:
        open_log(fs, recovery_point=2, **SMALL)
    assert (refused.value.file, refused.value.position) == (SECOND, 0)

    log = open_log(fs, recovery_point=2, truncate=True, **SMALL)

    assert values(log)[-2:] == [(3, b"3"), (4, b"another 4")]
    assert log.recovery.cuts[0].kept_as == SECOND + ".cut"


def test_undamaged_log_is_unchanged_when_truncation_is_allowed() -> None:
    fs = flushed_log()
    before = {path: fs.written(path) for path in (FIRST, SECOND)}

    log = open_log(fs, recovery_point=5, clean=True, truncate=True, **SMALL)

    assert log.recovery.cuts == []
    assert log.recovery.checked_bytes == 345
    assert log.recovery_point == 5
    assert {path: fs.written(path) for path in (FIRST, SECOND)} == before
