"""Tests the journal file: its content after a kill, damage, rotations and a full disk."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from broker.cores.journal_file import CARRIED_LINES, HALF_BYTES_MIN, OLD, JournalFile
from coordinator.journal import FORM
from coordinator.journal_entries import Note
from journal.entry import Entry
from protocol.records.crc import crc32c
from tests.simulated_files import SimulatedFiles

DIRECTORY = "/data"
PATH = f"{DIRECTORY}/{FORM.file}"
OLD_PATH = PATH + OLD
HEADER = FORM.first_line
Kept = tuple[str, Entry]
SMALL = 2 * HALF_BYTES_MIN


@pytest.fixture
def fs() -> SimulatedFiles:
    files = SimulatedFiles()
    files.make_directory(DIRECTORY)
    return files


def note(group: str, number: int, size: int = 20) -> Kept:
    return group, Note(number, "kind", f"{number:08d}".ljust(size, "x"))


def numbers(kept: Iterator[Kept], group: str | None = None) -> list[int]:
    return [
        entry.at_ms for name, entry in kept if isinstance(entry, Note) and group in (None, name)
    ]


def open_journal(fs: SimulatedFiles, size: int = 8 << 20) -> JournalFile:
    return JournalFile(FORM, fs, DIRECTORY, size)


def test_journal_entries_are_read_in_order_after_a_kill(fs: SimulatedFiles) -> None:
    file = open_journal(fs)
    assert list(file.read()) == []
    file.append([note("g", 1), note("h", 2)])
    file.append([note("g", 3)])
    fs.kill()
    again = open_journal(fs)
    assert list(again.read()) == [note("g", 1), note("h", 2), note("g", 3)]
    again.append([note("g", 4)])
    assert numbers(open_journal(fs).read()) == [1, 2, 3, 4]
    assert fs.written(PATH).count(HEADER) == 1


@pytest.mark.parametrize("cut", [1, 2, 20, 60])
def test_truncated_last_journal_line_is_skipped(fs: SimulatedFiles, cut: int) -> None:
    open_journal(fs).append([note("g", number) for number in range(4)])
    fs.put(PATH, fs.written(PATH)[:-cut])
    with capture_logs() as lines:
        assert numbers(open_journal(fs).read()) == ([0, 1, 2, 3] if cut == 1 else [0, 1, 2])
    assert [line["event"] for line in lines] == (
        [] if cut == 1 else ["unreadable journal lines skipped"]
    )
    open_journal(fs).append([note("g", 9)])
    assert numbers(open_journal(fs).read())[-2:] == [3 if cut == 1 else 2, 9]


def test_damaged_journal_lines_are_skipped(fs: SimulatedFiles) -> None:
    open_journal(fs).append([note("g", number) for number in range(100)])
    whole = fs.written(PATH)
    for position in range(0, len(whole) - 300, 997):
        damaged = bytearray(whole)
        damaged[position : position + 200] = bytes(200)
        fs.put(PATH, bytes(damaged))
        found = numbers(open_journal(fs).read())
        assert 94 <= len(found) < 100
        assert found == sorted(found)
    fs.put(PATH, bytes(5_000_000))
    assert list(open_journal(fs).read()) == []
    open_journal(fs).append([note("g", 7)])
    assert numbers(open_journal(fs).read()) == [7]


def test_journal_files_are_bounded_and_keep_the_newest_lines(fs: SimulatedFiles) -> None:
    file = open_journal(fs, SMALL)
    for number in range(3000):
        file.append([note("g", number, 100)])
        assert len(fs.written(PATH)) <= HALF_BYTES_MIN
        assert fs.room(0) >= fs.capacity_bytes - SMALL
    found = numbers(open_journal(fs, SMALL).read())
    assert found == list(range(found[0], 3000)), "no gap"
    assert len(found) > HALF_BYTES_MIN // 300


def test_journal_rotation_keeps_last_lines_of_idle_groups(
    fs: SimulatedFiles,
) -> None:
    file = open_journal(fs, SMALL)
    file.append([note("quiet", number) for number in range(20)])
    file.append([note("gone", 1), ("gone", Note(2, "group_removed", "x"))])
    file.append([note("anew", 1), ("anew", Note(2, "group_removed", "x")), note("anew", 3)])
    for number in range(2000):
        file.append([note("busy", number, 200)])
    again = open_journal(fs, SMALL)
    assert numbers(again.read(), "quiet") == list(range(20 - CARRIED_LINES, 20))
    assert numbers(again.read(), "gone") == []
    assert numbers(again.read(), "anew") == [3]
    assert numbers(again.read(), "busy")[-1] == 1999


def test_rotated_journal_file_is_below_its_size_limit_when_there_are_many_groups(
    fs: SimulatedFiles,
) -> None:
    file = open_journal(fs, SMALL)
    for number in range(2000):
        file.append([note(f"g{number}", number, 100)])
        assert len(fs.written(PATH)) <= HALF_BYTES_MIN
    names = [group for group, _ in open_journal(fs, SMALL).read()]
    assert f"g{1999}" in names


def test_smaller_journal_size_setting_applies_at_the_next_start(fs: SimulatedFiles) -> None:
    open_journal(fs).append([note("g", number, 100) for number in range(3000)])
    file = open_journal(fs, SMALL)
    found = numbers(file.read())
    assert found == list(range(found[0], 3000))
    assert 100 < len(found) < 300
    file.append([note("g", number, 100) for number in range(3000, 3600)])
    assert len(fs.written(PATH)) <= HALF_BYTES_MIN
    assert numbers(open_journal(fs, SMALL).read())[-1] == 3599


def test_journal_line_larger_than_the_file_is_omitted(fs: SimulatedFiles) -> None:
    file = open_journal(fs, SMALL)
    file.append([note("g", 1), note("g", 2, HALF_BYTES_MIN), note("g", 3)])
    assert numbers(open_journal(fs, SMALL).read()) == [1, 3]


def test_journal_file_of_another_version_is_renamed_and_not_read(fs: SimulatedFiles) -> None:
    body = b'{"muster_journal":99}'
    theirs = b"%08x %b\nwhatever is in it\n" % (crc32c(body), body)
    fs.put(PATH, theirs)
    with capture_logs() as lines:
        assert list(open_journal(fs).read()) == []
    assert "has version 99" in lines[0]["why"]
    open_journal(fs).append([note("g", 1)])
    assert fs.written(OLD_PATH) == theirs
    assert numbers(open_journal(fs).read()) == [1]


def test_journal_entries_after_a_full_disk_are_readable(fs: SimulatedFiles) -> None:
    file = open_journal(fs)
    file.append([note("g", 1)])
    used = fs.capacity_bytes - fs.room(0)
    fs.capacity_bytes = used + 30
    for number in (2, 3, 4):
        with pytest.raises(OSError, match="No space"):
            file.append([note("g", number)])
    fs.capacity_bytes = 1 << 40
    file.append([note("g", 5)])
    assert numbers(open_journal(fs).read()) == [1, 5]


@pytest.mark.parametrize("operation", ["open", "write", "rename", "remove"])
def test_failed_journal_rotation_is_retried(fs: SimulatedFiles, operation: str) -> None:
    file = open_journal(fs, SMALL)
    failed = 0
    for number in range(1000):
        if number % 50 == 0:
            fs.fail(operation, "groups.journal.new" if operation != "rename" else "", count=3)
        try:
            file.append([note("g", number, 100)])
        except OSError:
            failed += 1
        assert fs.room(0) >= fs.capacity_bytes - SMALL - HALF_BYTES_MIN
    fs.heal()
    file.append([note("g", 1000, 100)])
    assert failed or operation == "remove"
    found = numbers(open_journal(fs, SMALL).read())
    assert found == sorted(found)
    assert found[-1] == 1000


def test_unreadable_journal_file_is_skipped_and_logged(fs: SimulatedFiles) -> None:
    open_journal(fs).append([note("g", 1)])
    fs.put(OLD_PATH, HEADER + FORM.line_of(*note("g", 0)))
    fs.fail("read", FORM.file)
    with capture_logs() as lines:
        assert numbers(open_journal(fs).read()) == [0]
    (line,) = lines
    assert (line["event"], line["file"]) == ("journal file can't be read", PATH)


def test_journal_is_readable_after_a_power_loss(fs: SimulatedFiles) -> None:
    import random

    for seed in range(50):
        file = open_journal(fs, SMALL)
        file.append([note("g", number, 50) for number in range(40)])
        fs.lose_power(random.Random(seed))
        found = numbers(open_journal(fs, SMALL).read())
        assert all(0 <= each < 40 for each in found)
