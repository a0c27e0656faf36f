"""Tests that the archive for Spark executors has all source files of three folders, no compiled
file, and always the same bytes."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from pipeline.package import ROOMS, make_archive
from tests.brokers import CHECKOUT

pytestmark = pytest.mark.pipeline


def test_executor_archive_has_only_source_files_and_is_reproducible(tmp_path: Path) -> None:
    archive = make_archive(tmp_path)
    with zipfile.ZipFile(archive) as opened:
        names = set(opened.namelist())
    assert names == {
        str(path.relative_to(CHECKOUT))
        for room in ROOMS
        for path in (CHECKOUT / room).rglob("*.py")
    }
    again = tmp_path / "again"
    again.mkdir()
    assert make_archive(again).read_bytes() == archive.read_bytes()


def test_python_imports_muster_modules_from_the_file_muster_zip(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "pipeline.package", str(tmp_path)], cwd=CHECKOUT, check=True
    )
    asked = "import protocol.records.batch as b, offsets.runs as r; print(b.__file__, r.__file__)"
    told = subprocess.run(
        [sys.executable, "-c", asked],
        env={"PYTHONPATH": str(tmp_path / "muster.zip")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert all(file.startswith(str(tmp_path / "muster.zip")) for file in told)
    assert (tmp_path / "muster_submit.py").read_text() == (
        CHECKOUT / "pipeline" / "submit.py"
    ).read_text()
