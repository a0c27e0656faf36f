"""Kafka stores the offsets of OffsetCommit version 0 in ZooKeeper's consumer paths. A standalone
Muster stores them in a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.topics.directory import consumer_paths
from broker.topics.directory.consumer_paths import FILE, FileConsumerPaths
from broker.topics.registry import BadDirectory
from log.config import LONG_MAX
from log.files.filesystem import FileSystem, OsFileSystem
from tests.log.test_log_faults import Worst
from tests.simulated_files import SimulatedFiles


class Paths(FileConsumerPaths):
    """The file store of version 0 offsets, with a method that commits one offset."""

    def commit(
        self, group_id: str, topic: str, partition: int, offset: int, flush_messages: int = LONG_MAX
    ) -> None:
        """Writes one offset to the file and adds it to the offsets in memory."""
        entries = [(group_id, topic, partition, offset)]
        self.write(entries, flush_messages)
        self.take(entries)


def paths(directory: Path, fs: FileSystem | None = None) -> Paths:
    return Paths(fs or OsFileSystem(), str(directory))


def test_last_version_0_commit_is_fetched_before_and_after_a_restart(tmp_path: Path) -> None:
    first = paths(tmp_path)
    first.commit("g", "t", 0, 5)
    first.commit("g", "t", 0, 3)
    first.commit("g\n\t", "t", 1, 7)

    for there in (first, paths(tmp_path)):
        assert there.fetch("g", "t", 0) == 3
        assert there.fetch("g\n\t", "t", 1) == 7
        assert there.fetch("g", "t", 1) is None
        assert there.fetch("h", "t", 0) is None


def test_torn_last_line_of_the_offsets_file_is_removed(tmp_path: Path) -> None:
    paths(tmp_path).commit("g", "t", 0, 5)
    with (tmp_path / FILE).open("ab") as file:
        file.write(b'["g", "t", 0, 6')

    again = paths(tmp_path)
    assert again.fetch("g", "t", 0) == 5
    again.commit("g", "t", 0, 7)
    assert paths(tmp_path).fetch("g", "t", 0) == 7


def test_damaged_offsets_file_is_refused_with_its_line_number(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b'["g", "t", 0, 5]\nwhat is this\n["g", "t", 0, 6]\n')

    with pytest.raises(BadDirectory, match="line 2"):
        paths(tmp_path)


def test_offsets_file_is_rewritten_with_live_offsets_at_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_paths, "_REWRITE_BYTES_MIN", 200)
    many = paths(tmp_path)
    for offset in range(100):
        many.commit("g", "t", offset % 2, offset)

    again = paths(tmp_path)

    lines = (tmp_path / FILE).read_text().splitlines()
    assert [json.loads(line) for line in lines] == [["g", "t", 0, 98], ["g", "t", 1, 99]]
    assert list(again.entries()) == [("g", "t", 0, 98), ("g", "t", 1, 99)]


DATA = "/data"


def simulated() -> SimulatedFiles:
    fs = SimulatedFiles()
    fs.make_directory(DATA)
    return fs


def test_offsets_file_is_rewritten_with_live_offsets_while_in_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An earlier version rewrote the file only at the start of the broker, so the file grew without
    limit."""
    monkeypatch.setattr(consumer_paths, "_REWRITE_BYTES_MIN", 200)
    fs = simulated()
    used = paths(Path(DATA), fs)
    most = 0
    for offset in range(1000):
        used.commit("g", "t", offset % 2, offset)
        most = max(most, len(fs.written(f"{DATA}/{FILE}").splitlines()))
        if used.outgrown:
            used.rewrite()

    assert most <= 200 // len('["g", "t", 0, 0]') + 1
    fs.kill()
    assert list(paths(Path(DATA), fs).entries()) == [("g", "t", 0, 998), ("g", "t", 1, 999)]


def test_offsets_file_with_long_group_ids_is_rewritten_when_it_exceeds_1_mib() -> None:
    """An earlier version of Muster counted lines instead of bytes. With ids of 8 kB, the file of
    one live offset grew to 80 MB."""
    fs = simulated()
    used = paths(Path(DATA), fs)
    group_id, rewritten = "g" * 8_000, 0
    most = 0
    for offset in range(400):
        used.commit(group_id, "t", 0, offset)
        most = max(most, len(fs.written(f"{DATA}/{FILE}")))
        if used.outgrown:
            used.rewrite()
            rewritten += 1

    assert most < (1 << 20) + 9_000
    assert rewritten == 3
    assert paths(Path(DATA), fs).fetch(group_id, "t", 0) == 399


def test_offsets_file_with_only_live_offsets_is_not_rewritten() -> None:
    fs = simulated()
    used = paths(Path(DATA), fs)
    for number in range(300):
        used.commit(f"{number}{'g' * 8_000}", "t", 0, 1)
        assert not used.outgrown

    assert not paths(Path(DATA), fs).outgrown


@pytest.mark.parametrize("rewritten", [False, True])
def test_flushed_version_0_commit_survives_a_power_loss(rewritten: bool) -> None:
    fs = simulated()
    used = paths(Path(DATA), fs)
    used.commit("g", "t", 0, 1, flush_messages=1)
    if rewritten:
        used.rewrite()
    used.commit("g", "t", 0, 2, flush_messages=1)
    used.commit("g", "t", 0, 3, flush_messages=2)
    fs.lose_power(Worst())

    assert paths(Path(DATA), fs).fetch("g", "t", 0) == 2


def test_first_commit_of_version_0_survives_a_power_loss() -> None:
    fs = SimulatedFiles()
    fs.make_directory("/data")
    there = Paths(fs, "/data")
    there.commit("g", "t", 0, 5)
    there.commit("g", "t", 0, 6)

    fs.lose_power(Worst())

    assert Paths(fs, "/data").fetch("g", "t", 0) == 5


@pytest.mark.parametrize("cut_fails", [False, True])
def test_failed_write_leaves_no_torn_line_before_the_next_commit(cut_fails: bool) -> None:
    """In an earlier version, a torn line in the middle of the file made the next start fail."""
    fs = simulated()
    used = paths(Path(DATA), fs)
    used.commit("g", "t", 0, 1)
    fs.fail("write", FILE, partial_bytes=9)
    if cut_fails:
        fs.fail("truncate", FILE)
    with pytest.raises(OSError, match="Input/output error"):
        used.commit("g", "t", 0, 2)
    assert used.fetch("g", "t", 0) == 1

    used.commit("g", "t", 0, 3)

    assert fs.written(f"{DATA}/{FILE}") == b'["g", "t", 0, 1]\n["g", "t", 0, 3]\n'


def test_version_0_commits_are_refused_after_a_failed_fsync() -> None:
    fs = simulated()
    used = paths(Path(DATA), fs)
    fs.fail("fsync", FILE)
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output error"):
            used.commit("g", "t", 0, 1, flush_messages=1)


@pytest.mark.parametrize("operation", ["open", "write", "fsync", "rename"])
def test_failed_rewrite_keeps_the_offsets_file(operation: str) -> None:
    fs = simulated()
    used = paths(Path(DATA), fs)
    for offset in range(5):
        used.commit("g", "t", 0, offset)
    before = fs.written(f"{DATA}/{FILE}")
    fs.fail(operation, FILE if operation == "rename" else f"{FILE}.tmp")

    with pytest.raises(OSError, match="Input/output error"):
        used.rewrite()

    assert fs.written(f"{DATA}/{FILE}") == before
    assert fs.list(DATA) == [FILE]
    used.commit("g", "t", 0, 9)
    assert paths(Path(DATA), fs).fetch("g", "t", 0) == 9
