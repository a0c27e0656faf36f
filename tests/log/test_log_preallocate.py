"""With `preallocate`, the creation of a segment fails when the disk has no space for the whole
segment."""

from __future__ import annotations

import pytest

from log.errors import LogPoisoned
from tests.log.log_tools import NOW_MS, batch, open_log
from tests.simulated_files import SimulatedFiles

SEGMENT_BYTES = 1000


def test_roll_fails_on_a_full_disk_and_succeeds_when_the_disk_has_space_again() -> None:
    fs = SimulatedFiles()
    log = open_log(fs, preallocate=True, segment_bytes=SEGMENT_BYTES)
    one = batch(0, b"x" * 400)
    for _ in range(2):
        log.append(one, 0, NOW_MS)
    end = log.log_end_offset
    fs.capacity_bytes = sum(len(inode.data) for inode in fs.names.values()) + SEGMENT_BYTES // 2

    with pytest.raises(LogPoisoned, match="No space left"):
        log.append(one, 0, NOW_MS)
    assert (log.log_end_offset, len(log.segments)) == (end, 1)

    fs.capacity_bytes = 1 << 20
    log.probe()
    log.append(one, 0, NOW_MS)
    assert len(log.segments) == 2
    assert [header.base_offset for _, header in log.scan()] == [0, 1, 2]


def test_log_with_preallocation_cannot_be_created_on_a_full_disk() -> None:
    fs = SimulatedFiles()
    fs.capacity_bytes = SEGMENT_BYTES // 2

    with pytest.raises(OSError, match="No space left"):
        open_log(fs, preallocate=True, segment_bytes=SEGMENT_BYTES)
