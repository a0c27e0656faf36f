"""Tests of disk failures. The bytes of a failed write are truncated, and the log is poisoned. After
a failed truncation or flush, the log stays poisoned until a restart."""

from __future__ import annotations

import errno
import random

import pytest

from log.errors import LogPoisoned
from tests.log.log_tools import DIRECTORY, append_values, batch, open_log, values
from tests.simulated_files import SimulatedFiles

LOG = f"{DIRECTORY}/00000000000000000000.log"


@pytest.mark.parametrize("partial_bytes", [0, 1, 61, 69])
def test_bytes_of_a_failed_append_are_truncated_and_the_error_is_raised(partial_bytes: int) -> None:
    fs = SimulatedFiles()
    log = open_log(fs)
    append_values(log, b"0")
    good = fs.written(LOG)
    fs.fail("write", ".log", code=errno.ENOSPC, partial_bytes=partial_bytes)

    with pytest.raises(LogPoisoned, match="No space left") as caught:
        log.append_encoded(batch(1, b"1"), 1, 1, 1)

    assert not caught.value.final
    assert not log.failed_for_good
    assert fs.written(LOG) == good
    assert (log.log_end_offset, log.size_bytes) == (1, 69)


def test_poisoned_log_can_be_read_and_refuses_appends_with_the_reason() -> None:
    fs = SimulatedFiles()
    log = open_log(fs)
    append_values(log, b"0")
    fs.fail("write", ".log")
    with pytest.raises(LogPoisoned):
        append_values(log, b"1")

    assert values(log) == [(0, b"0")]
    assert log.poisoned is not None
    assert LOG in log.poisoned
    for _ in range(2):  # the disk accepts writes again, but no probe has run
        with pytest.raises(LogPoisoned, match="Input/output error"):
            append_values(log, b"1")
        with pytest.raises(LogPoisoned, match="Input/output error"):
            log.append_encoded(batch(1, b"1"), 1, 1, 1)


def test_log_is_not_poisoned_after_a_successful_probe_write_and_drops_the_probe_bytes() -> None:
    fs = SimulatedFiles()
    log = open_log(fs)
    append_values(log, b"0")
    fs.fail("write", ".log", count=2, code=errno.ENOSPC)
    with pytest.raises(LogPoisoned):
        append_values(log, b"1")

    with pytest.raises(OSError, match="No space left"):
        log.probe()
    assert log.poisoned is not None
    log.probe()

    assert log.poisoned is None
    assert len(fs.written(LOG)) == 69
    append_values(log, b"1")
    assert values(log) == [(0, b"0"), (1, b"1")]


def test_append_succeeds_after_a_probe_when_the_disk_has_space() -> None:
    fs = SimulatedFiles()
    log = open_log(fs)
    fs.capacity_bytes = sum(len(inode.data) for inode in fs.names.values()) + 100
    append_values(log, b"0")
    with pytest.raises(LogPoisoned, match="No space left"):
        append_values(log, b"1")
    with pytest.raises(OSError, match="No space left"):
        log.probe()
    assert values(log) == [(0, b"0")]

    fs.capacity_bytes += 100_000
    log.probe()
    append_values(log, b"1")

    assert values(log) == [(0, b"0"), (1, b"1")]


@pytest.mark.parametrize("call", ["append", "probe"])
def test_failed_truncation_poisons_the_log_until_a_restart(call: str) -> None:
    fs = SimulatedFiles()
    log = open_log(fs)
    append_values(log, b"0")
    fs.fail("write", ".log", count=1 if call == "append" else 2, partial_bytes=5)
    if call == "probe":
        with pytest.raises(LogPoisoned):
            append_values(log, b"1")
        assert not log.failed_for_good
    fs.fail("truncate", ".log")

    with pytest.raises((LogPoisoned, OSError)):
        append_values(log, b"1") if call == "append" else log.probe()

    assert log.failed_for_good
    fs.heal()
    with pytest.raises(LogPoisoned, match="truncating") as caught:
        log.probe()
    assert caught.value.final
    with pytest.raises(LogPoisoned):
        append_values(log, b"1")


@pytest.mark.parametrize(
    ("operation", "suffix"), [("fsync", ".log"), ("fsync_directory", DIRECTORY)]
)
def test_failed_flush_poisons_the_log_until_a_restart(operation: str, suffix: str) -> None:
    fs = SimulatedFiles()
    log = open_log(fs)
    append_values(log, b"0")
    fs.fail(operation, suffix)

    with pytest.raises(LogPoisoned) as caught:
        log.flush()

    assert caught.value.final
    assert log.recovery_point == 0
    for call in (log.flush, log.probe, lambda: append_values(log, b"1")):
        with pytest.raises(LogPoisoned, match="flushing"):
            call()


@pytest.mark.parametrize(
    ("operation", "suffix"),
    [("write", ".index"), ("write", ".timeindex"), ("open", ".log"), ("truncate", ".index")],
)
def test_failed_roll_poisons_the_log_without_losing_records(operation: str, suffix: str) -> None:
    fs = SimulatedFiles()
    log = open_log(fs, segment_bytes=140, index_interval_bytes=0)
    append_values(log, b"0", b"1")
    fs.fail(operation, suffix, code=errno.ENOSPC)

    with pytest.raises(LogPoisoned):
        append_values(log, b"2")
    assert values(log) == [(0, b"0"), (1, b"1")]
    log.probe()
    append_values(log, b"2", b"3", b"4")

    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]
    assert [log.segments[0].index.entry(0)] == [(1, 69)]
    assert values(log) == [(offset, b"%d" % offset) for offset in range(5)]
    fs.kill()
    assert values(open_log(fs)) == [(offset, b"%d" % offset) for offset in range(5)]


def test_append_of_several_batches_is_one_write() -> None:
    fs = SimulatedFiles()
    log = open_log(fs)
    append_values(log, b"0")
    fs.calls.clear()

    log.append_encoded(b"".join(batch(offset) for offset in range(1, 40)), 1, 39, 1)
    log.append(batch(0, *[b"v" * 1000] * 10), 0, 1)

    assert fs.calls == [("write", LOG), ("write", LOG)]


def test_method_append_encoded_raises_an_error_at_a_wrong_offset() -> None:
    log = open_log(SimulatedFiles())
    with pytest.raises(ValueError, match="ends at offset 0"):
        log.append_encoded(batch(1), 1, 1, 1)
    assert log.size_bytes == 0


def test_closed_log_refuses_appends_and_flushes() -> None:
    log = open_log(SimulatedFiles())
    log.close()
    with pytest.raises(LogPoisoned, match="closed"):
        append_values(log, b"0")
    with pytest.raises(LogPoisoned, match="closed"):
        log.flush()


def test_close_of_an_unchanged_log_does_not_fsync() -> None:
    fs = SimulatedFiles()
    log = open_log(fs)
    append_values(log, b"0", b"1")
    log.close()
    log = open_log(fs, clean=True, recovery_point=2)
    fs.calls.clear()

    log.close()

    assert not [operation for operation, _ in fs.calls if operation.startswith("fsync")]
    assert log.recovery_point == 2


def test_close_fsyncs_all_written_files() -> None:
    fs = SimulatedFiles()
    log = open_log(fs, index_interval_bytes=0)
    append_values(log, b"0", b"1", b"2")
    fs.calls.clear()

    log.close()

    synced = {path for operation, path in fs.calls if operation.startswith("fsync")}
    base = LOG.removesuffix(".log")
    assert synced >= {LOG, f"{base}.index", f"{base}.timeindex", DIRECTORY}
    assert log.recovery_point == 3


class OutOfMemory(SimulatedFiles):
    """Simulated files whose next fsync raises MemoryError, which is not a disk failure."""

    lacking = ""

    def check(self, operation: str, path: str) -> None:
        if operation == self.lacking:
            self.lacking = ""
            raise MemoryError
        super().check(operation, path)


class Worst(random.Random):
    """A random source with which a simulated power loss removes all bytes that were not fsynced."""

    def randint(self, a: int, b: int) -> int:
        return a


@pytest.mark.parametrize("operation", ["fsync", "fsync_directory"])
def test_flush_fsyncs_all_files_after_a_flush_failed_with_a_memory_error(operation: str) -> None:
    """Regression: a flush after the failed flush did not fsync the file or directory whose fsync
    had failed. A power loss then removed acknowledged records."""
    fs = OutOfMemory()
    log = open_log(fs)
    append_values(log, b"0", b"1")
    fs.lacking = operation
    with pytest.raises(MemoryError):
        log.flush()
    assert (log.recovery_point, log.failed_for_good) == (0, False)

    assert log.flush() == log.recovery_point == 2
    fs.lose_power(Worst())

    assert values(open_log(fs, recovery_point=2)) == [(0, b"0"), (1, b"1")]


def test_directory_added_during_a_flush_is_fsynced_by_the_next_flush() -> None:
    """Regression: the flush had already replaced its set of unsynced directories, but the appending
    thread added the directory to the old set, which no later flush reads."""
    fs = SimulatedFiles()
    log = open_log(fs)
    append_values(log, b"0")
    looked_up = log.segments.unsynced_directories

    log.flush()
    looked_up[DIRECTORY] = None
    fs.calls.clear()
    log.flush()

    assert ("fsync_directory", DIRECTORY) in fs.calls


def test_directory_whose_fsync_failed_stays_in_the_list_of_unsynced_directories() -> None:
    fs = SimulatedFiles()
    log = open_log(fs)
    append_values(log, b"0")
    fs.fail("fsync_directory", DIRECTORY)

    with pytest.raises(LogPoisoned):
        log.flush()

    assert DIRECTORY in log.segments.unsynced_directories
