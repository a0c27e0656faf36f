"""Tests of power losses and kills. After a power loss, the log has all flushed records and a prefix
of the unflushed records. After `kill -9`, the log has all appended records. Every failure prints
its seed."""

from __future__ import annotations

import random

import pytest

from log.checkpoint import RECOVERY_POINT, read_offsets, write_offsets
from log.errors import LogPoisoned
from log.partition_log import PartitionLog
from tests.log.log_tools import DIRECTORY, batch, open_log, values
from tests.simulated_files import SimulatedFiles

CHECKPOINT = f"/data/{RECOVERY_POINT}"
SETTINGS = {"segment_bytes": 1500, "index_interval_bytes": 150}
Written = list[tuple[int, bytes | None]]


def append_some(log: PartitionLog, chance: random.Random, written: Written) -> None:
    for _ in range(chance.randint(1, 12)):
        first = log.log_end_offset
        new = [chance.randbytes(chance.randint(0, 60)) for _ in range(chance.randint(1, 4))]
        log.append_encoded(batch(first, *new), first, first + len(new) - 1, 1)
        written += enumerate(new, first)


def checkpoint(fs: SimulatedFiles, log: PartitionLog) -> None:
    write_offsets(fs, CHECKPOINT, {("t", 0): log.recovery_point})


@pytest.mark.parametrize("seed", range(80))
def test_flushed_records_survive_a_power_loss(seed: int) -> None:
    chance = random.Random(seed)
    fs = SimulatedFiles()
    written: Written = []
    flushed = 0
    clean = False
    for _ in range(6):
        point = read_offsets(fs, CHECKPOINT).get(("t", 0), 0)
        log = open_log(fs, recovery_point=point, clean=clean, **SETTINGS)
        found = values(log)

        assert found == written[: len(found)], f"seed {seed}"
        assert len(found) >= flushed, f"seed {seed}"
        assert log.log_end_offset == len(found), f"seed {seed}"
        for offset, _ in found[:: max(1, len(found) // 5)]:
            assert values(log, offset)[-1] == found[-1], f"seed {seed}"

        written = found
        for _ in range(chance.randint(0, 4)):
            append_some(log, chance, written)
            if chance.random() < 0.5:
                flushed = log.flush()
                assert flushed == len(written)
                if chance.random() < 0.5:
                    checkpoint(fs, log)
        clean = chance.random() < 0.2
        if clean:
            log.close()
            checkpoint(fs, log)
            flushed = len(written)
        fs.lose_power(chance)


@pytest.mark.parametrize("seed", range(40))
def test_appended_records_survive_a_kill(seed: int) -> None:
    chance = random.Random(seed)
    fs = SimulatedFiles()
    written: Written = []
    for _ in range(6):
        point = read_offsets(fs, CHECKPOINT).get(("t", 0), 0)
        log = open_log(fs, recovery_point=point, **SETTINGS)
        assert values(log) == written, f"seed {seed}"
        assert log.recovery.cuts == [], f"seed {seed}"
        append_some(log, chance, written)
        if chance.random() < 0.4:
            log.flush()
            checkpoint(fs, log)
        fs.kill()


def test_power_loss_can_remove_all_unflushed_records() -> None:
    """This test checks the simulation: if it never removed unflushed records, the other tests would
    prove nothing."""
    left = set()
    for seed in range(30):
        fs = SimulatedFiles()
        log = open_log(fs)
        written: Written = []
        append_some(log, random.Random(seed), written)
        fs.lose_power(random.Random(seed))
        left.add(len(values(open_log(fs))) / len(written))
    assert min(left) == 0.0
    assert len(left) > 2


def test_new_segment_is_fsynced_before_the_recovery_point_reaches_it() -> None:
    for seed in range(30):
        fs = SimulatedFiles()
        log = open_log(fs, segment_bytes=150)
        for offset in range(5):
            log.append_encoded(batch(offset), offset, offset, 1)
        log.flush()
        fs.lose_power(random.Random(seed))

        again = open_log(fs, recovery_point=5, segment_bytes=150)

        assert again.log_end_offset == 5
        assert sorted(name for name in fs.list(DIRECTORY) if name.endswith(".log")) == [
            "00000000000000000000.log",
            "00000000000000000002.log",
            "00000000000000000004.log",
        ]


def written_and_cut(
    fs: SimulatedFiles, chance: random.Random, written: Written
) -> tuple[PartitionLog, int]:
    """Appends, flushes at random, and truncates the log to a random end, as a follower does.
    Returns the log and its new end offset."""
    log = open_log(fs, **SETTINGS)
    ends = [0]
    for _ in range(chance.randint(1, 8)):
        append_some(log, chance, written)
        ends.append(log.log_end_offset)
        if chance.random() < 0.3:
            log.flush()
    end = chance.choice(ends)
    log.recovery_point = min(log.recovery_point, end)
    checkpoint(fs, log)
    return log, log.truncate_to(end, 1)


def opened_after_power_loss(fs: SimulatedFiles, chance: random.Random) -> PartitionLog:
    fs.lose_power(chance)
    return open_log(fs, recovery_point=read_offsets(fs, CHECKPOINT)["t", 0], **SETTINGS)


@pytest.mark.parametrize("seed", range(60))
def test_power_loss_after_an_unsynced_truncation_leaves_a_prefix_of_the_old_log(seed: int) -> None:
    chance, fs, written = random.Random(seed), SimulatedFiles(), Written()
    log, _ = written_and_cut(fs, chance, written)
    kept = log.recovery_point

    found = values(opened_after_power_loss(fs, chance))

    assert found == written[: len(found)], f"seed {seed}"
    assert len(found) >= kept, f"seed {seed}"


@pytest.mark.parametrize("seed", range(60))
def test_records_removed_by_an_fsynced_truncation_do_not_return_after_a_power_loss(
    seed: int,
) -> None:
    chance, fs, written = random.Random(seed), SimulatedFiles(), Written()
    log, end = written_and_cut(fs, chance, written)
    kept = log.recovery_point
    was_cut = end < len(written)
    assert log.cuts_are_synced != was_cut
    log.sync_cuts()
    assert log.cuts_are_synced
    written = written[:end]
    append_some(log, chance, written)

    found = values(opened_after_power_loss(fs, chance))

    assert found == written[: len(found)], f"seed {seed}"
    assert len(found) >= kept, f"seed {seed}"


def test_failed_fsync_of_a_truncation_poisons_the_log_until_a_restart() -> None:
    fs = SimulatedFiles()
    log = open_log(fs)
    append_some(log, random.Random(1), [])
    log.truncate_to(0, 1)
    fs.fail("fsync", ".log")
    with pytest.raises(LogPoisoned, match="truncating") as caught:
        log.sync_cuts()
    assert caught.value.final
    assert not log.cuts_are_synced
