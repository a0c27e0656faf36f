"""Tests of the line that `muster serve` prints when it is ready: how it shows the path of the data
directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.serve import shown_directory


@pytest.mark.parametrize(
    ("directory", "shown"),
    [
        ("here/data", "./data"),
        ("here/data/of/mine", "./data/of/mine"),
        ("here/..data", "./..data"),
        ("here", "{root}/here"),  # "./." would be unclear
        ("there", "{root}/there"),
    ],
)
def test_data_directory_is_shown_relative_when_it_is_below_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, directory: str, shown: str
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    assert shown_directory(str(tmp_path / directory)) == shown.format(root=tmp_path)
