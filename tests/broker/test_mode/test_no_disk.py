"""A broker with data in memory does not access the disk. The tests also check that their disk
watcher detects an access."""

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


def disk_accesses(kind: str, directory: str) -> list[str]:
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


def test_broker_in_memory_does_not_access_the_disk() -> None:
    assert disk_accesses("memory", DATA) == []


def test_disk_watcher_detects_a_broker_that_accesses_the_disk(tmp_path: Path) -> None:
    seen = "\n".join(disk_accesses("real", str(tmp_path / "data")))
    for what in (
        "os.mkdir", "os.rename", "os.remove", "os.listdir", "shutil.rmtree", "stat ", "statvfs ",
        "meta.properties", ".lock", "00000000000000000000.log", ".log.cleaned", ".index.cleaned",
        "recovery-point-offset-checkpoint", "__consumer_offsets-0",
    ):  # fmt: skip
        assert what in seen, what
