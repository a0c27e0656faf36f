"""The old offsets of ZooKeeper's paths, as a broker on its own keeps them in a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker import consumer_paths
from broker.consumer_paths import FILE, FileConsumerPaths
from broker.registry import BadDirectory
from log.filesystem import OsFileSystem


def paths(directory: Path) -> FileConsumerPaths:
    return FileConsumerPaths(OsFileSystem(), str(directory))


def test_the_last_commit_is_fetched_now_and_after_a_restart(tmp_path: Path) -> None:
    first = paths(tmp_path)
    first.commit("g", "t", 0, 5)
    first.commit("g", "t", 0, 3)
    first.commit("g\n\t", "t", 1, 7)

    for there in (first, paths(tmp_path)):
        assert there.fetch("g", "t", 0) == 3
        assert there.fetch("g\n\t", "t", 1) == 7
        assert there.fetch("g", "t", 1) is None
        assert there.fetch("h", "t", 0) is None


def test_a_torn_last_line_was_never_acknowledged_and_goes(tmp_path: Path) -> None:
    paths(tmp_path).commit("g", "t", 0, 5)
    with (tmp_path / FILE).open("ab") as file:
        file.write(b'["g", "t", 0, 6')

    again = paths(tmp_path)
    assert again.fetch("g", "t", 0) == 5
    again.commit("g", "t", 0, 7)
    assert paths(tmp_path).fetch("g", "t", 0) == 7


def test_damage_is_told_and_not_read_as_nothing(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b'["g", "t", 0, 5]\nwhat is this\n["g", "t", 0, 6]\n')

    with pytest.raises(BadDirectory, match="line 2"):
        paths(tmp_path)


def test_the_file_follows_what_is_live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_paths, "_REWRITE_LINES_MIN", 10)
    many = paths(tmp_path)
    for offset in range(100):
        many.commit("g", "t", offset % 2, offset)

    again = paths(tmp_path)

    lines = (tmp_path / FILE).read_text().splitlines()
    assert [json.loads(line) for line in lines] == [["g", "t", 0, 98], ["g", "t", 1, 99]]
    assert list(again.entries()) == [("g", "t", 0, 98), ("g", "t", 1, 99)]
