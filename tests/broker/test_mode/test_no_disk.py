"""A broker in memory touches no disk, in anything that it does; the watcher sees one that does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.broker.test_mode.in_memory import DATA

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.interop


def touched(kind: str, directory: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.broker.test_mode.watched", kind, directory],
        cwd=ROOT,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_nothing_is_written_or_read_on_the_disk() -> None:
    assert touched("memory", DATA) == []


def test_whoever_touches_the_disk_is_seen(tmp_path: Path) -> None:
    seen = "\n".join(touched("real", str(tmp_path / "data")))
    for what in (
        "os.mkdir", "os.rename", "os.remove", "os.listdir", "shutil.rmtree", "stat ", "statvfs ",
        "meta.properties", ".lock", "00000000000000000000.log", ".log.cleaned", ".index.cleaned",
        "recovery-point-offset-checkpoint", "__consumer_offsets-0",
    ):  # fmt: skip
        assert what in seen, what
