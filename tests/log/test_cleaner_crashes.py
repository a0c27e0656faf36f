"""After a crash at any step of a cleaning, the log has either the old or the new segments.

A cleaning can replace several groups of segments one after another. After a crash, the first groups
can be new and the later groups old. In each case, each key has its last value, and removed keys
stay removed.
"""

from __future__ import annotations

import errno
import random

import pytest

from log.cleaner.clean_job import CleanedGroup
from log.cleaner.clean_swap import commit, discard, exchange, sources_of
from log.cleaner.cleaner import clean
from log.partition_log import PartitionLog
from tests.log.cleaning_tools import (
    SETTINGS,
    RandomLog,
    all_records,
    clean_log,
    committed,
    job_for,
    last_by_key,
)
from tests.log.log_tools import DIRECTORY, open_log
from tests.log.test_transactions import consumed, due
from tests.simulated_files import Fault, SimulatedFiles


class Crash(Exception):
    """Raised instead of a file operation, as if the process were killed."""


class CrashingFiles(SimulatedFiles):
    """Raises `Crash` before file operation number ``crash_at``. The first operation has number
    0."""

    crash_at = -1

    def fault(self, operation: str, path: str) -> Fault | None:
        if operation != "read":
            if self.crash_at == 0:
                raise Crash(operation, path)
            self.crash_at -= 1
        return super().fault(operation, path)


def prepared(seed: int) -> tuple[CrashingFiles, PartitionLog, int, int]:
    """Returns files and a log that a cleaning will change, the first dirty offset, and the time of
    the cleaning in ms."""
    fs = CrashingFiles()
    log = open_log(fs, **SETTINGS)
    writer = RandomLog(log, random.Random(seed))
    writer.append(24)
    writer.end_all()
    log.roll()
    first_dirty = clean_log(log, 0, writer.now_ms).end_offset
    writer.append(14)
    writer.end_all()
    log.roll()
    writer.append(3)
    log.flush()
    fs.fsync_directory(DIRECTORY)
    return fs, log, first_dirty, writer.now_ms + 5000


def shape(log: PartitionLog) -> list[tuple[int, int]]:
    return [(header.base_offset, header.crc) for _, header in log.scan()]


def replaying(log: PartitionLog, groups: list[CleanedGroup], now_ms: int, first_dirty: int) -> None:
    def replace(group: CleanedGroup) -> None:
        groups.append(group)
        sources = sources_of(log, group)
        assert sources is not None
        discard(log.fs, exchange(log, group, sources, commit(log, group)), sources)

    clean(log.fs, job_for(log, first_dirty, now_ms), replace)


def mixtures(
    old: list[tuple[int, int]], new: list[tuple[int, int]], groups: list[CleanedGroup]
) -> list[list[tuple[int, int]]]:
    """Returns the possible contents of the log after a crash. Each of them has new segments in the
    first groups of segments, and old segments in all later groups."""
    borders = [group.base_offset for group in groups[1:]]
    return [old, new] + [
        [batch for batch in new if batch[0] < border]
        + [batch for batch in old if batch[0] >= border]
        for border in borders
    ]


@pytest.mark.campaign
@pytest.mark.parametrize("power", [False, True], ids=["kill", "power"])
@pytest.mark.parametrize("seed", range(2))
def test_crash_at_any_step_of_a_cleaning_leaves_the_old_or_the_new_log(
    seed: int, power: bool
) -> None:
    fs, log, first_dirty, now_ms = prepared(seed)
    old, visible = shape(log), last_by_key(committed(log))
    groups: list[CleanedGroup] = []
    fs.calls.clear()
    replaying(log, groups, now_ms, first_dirty)
    new = shape(log)
    steps = len(fs.calls)
    allowed = mixtures(old, new, groups)
    assert len(groups) >= 2
    assert new != old

    seen = set()
    for step in range(steps + 1):
        crashing, its_log, _, _ = prepared(seed)
        crashing.crash_at = step
        try:
            replaying(its_log, [], now_ms, first_dirty)
        except Crash:
            assert step < steps
        crashing.crash_at = -1
        if power:
            crashing.lose_power(random.Random(step))
        else:
            crashing.kill()

        again = open_log(crashing, recovery_point=log.recovery_point, **SETTINGS)
        found = shape(again)

        assert found in allowed, f"step {step} of {steps}"
        seen.add(allowed.index(found))
        assert again.log_end_offset == log.log_end_offset
        assert {k: r for k, r in last_by_key(committed(again)).items() if r.value is not None} == {
            k: r for k, r in visible.items() if r.value is not None
        }
        assert sorted(consumed(again)) == due(again), "what was aborted is not shown"
        again.segments.purge(now_ms)
        names = crashing.list(DIRECTORY)
        assert not [n for n in names if n.endswith((".cleaned", ".swap", ".deleted"))]
        if step % 5:
            continue
        clean_log(again, first_dirty, now_ms)
        assert last_by_key(committed(again)) == last_by_key(committed(log))
    assert {0, 1} <= seen, "both the old and the new log were met"


@pytest.mark.parametrize("seed", range(2))
def test_disk_failure_during_a_cleaning_keeps_the_log_and_next_cleaning_succeeds(seed: int) -> None:
    fs, log, first_dirty, now_ms = prepared(seed)
    before = all_records(log)
    for operation, code in (("open", errno.ENOSPC), ("write", errno.ENOSPC), ("fsync", errno.EIO)):
        for suffix in (".log.cleaned", ".index.cleaned", ".timeindex.cleaned"):
            fs.fail(operation, suffix, code=code, partial_bytes=20)
            with pytest.raises(OSError, match=r"space|error"):
                clean(fs, job_for(log, first_dirty, now_ms), lambda _: None)
            fs.heal()
            assert all_records(log) == before
    visible = last_by_key(committed(log))

    clean_log(log, first_dirty, now_ms)

    after = last_by_key(committed(log))
    assert all(after.get(key) == record for key, record in visible.items() if record.value)
    assert not [name for name in fs.list(DIRECTORY) if name.endswith(".cleaned")]


def test_readers_can_read_replaced_segments_to_the_end() -> None:
    _, log, first_dirty, now_ms = prepared(1)
    before = list(log.scan())
    reader = log.scan()
    info = log.read(0, 100_000)
    data = info.data
    first = next(reader)

    clean_log(log, first_dirty, now_ms)

    assert info.data == data, "a slice that was handed out is still readable"
    assert [first, *reader] == before, "a reader under way sees the log as it was"


def test_cleaning_does_not_restore_segments_that_are_deleted_during_the_cleaning() -> None:
    fs, log, first_dirty, now_ms = prepared(2)
    refused: list[CleanedGroup] = []

    def meanwhile(group: CleanedGroup) -> None:
        if not refused:
            log.delete_records(log.segments[1].base_offset)
            log.apply_retention(now_ms)
        if sources_of(log, group) is None:
            refused.append(group)

    clean(fs, job_for(log, first_dirty, now_ms), meanwhile)

    assert refused
    assert refused[0].base_offset == 0


def test_retention_deletes_no_segment_while_cleaned_segments_replace_old_segments() -> None:
    _, log, _, now_ms = prepared(3)
    log.delete_records(-1)
    log.segments.swapping = True
    assert log.apply_retention(now_ms) == []
    log.segments.swapping = False
    assert log.apply_retention(now_ms) != []
