"""After a kill -9 during a snapshot, the next start finds all offsets, whichever files the kill
left."""

from __future__ import annotations

import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.brokers import CHECKOUT

pytestmark = pytest.mark.faults

ROUNDS = int(os.environ.get("MUSTER_KILL_ROUNDS", "12"))


class Writer:
    """A process of snapshot_writer.py, and its output."""

    def __init__(self, directory: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.snapshot_writer", str(directory)],
            cwd=CHECKOUT,
            stdout=subprocess.PIPE,
        )
        self._rest = b""

    def lines(self, within_s: float) -> list[Any]:
        """Returns the lines that the process prints before it ends or before ``within_s`` seconds
        have passed."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + within_s
        while (left := deadline - time.monotonic()) > 0:
            if not select.select([self.process.stdout], [], [], left)[0]:
                break
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            if not data:
                break
            self._rest += data
        *whole, self._rest = self._rest.split(b"\n")
        return [json.loads(line) for line in whole if line.startswith((b"{", b"["))]

    def first(self, within_s: float = 30) -> dict[str, Any]:
        """Returns the first output line: the content of the directory when the process started."""
        deadline = time.monotonic() + within_s
        assert self.process.stdout is not None
        while b'"found"' not in self._rest or not self._rest.count(b"\n"):
            assert time.monotonic() < deadline, "the writer does not start"
            data = os.read(self.process.stdout.fileno(), 4096)
            assert data, f"the writer ended: {self._rest!r}"
            self._rest += data
        start = self._rest.index(b'{"from"')
        end = self._rest.find(b"\n", start)
        if end < 0:
            return self.first(deadline - time.monotonic())
        line, self._rest = self._rest[start:end], self._rest[end + 1 :]
        found: dict[str, Any] = json.loads(line)
        return found

    def kill(self) -> list[Any]:
        """Kills the process, and returns the lines that it had printed."""
        self.process.send_signal(signal.SIGKILL)
        said = self.lines(10)
        self.process.wait(10)
        return said


@pytest.mark.timeout(300)
@pytest.mark.parametrize("rounds", [pytest.param(3, marks=pytest.mark.smoke), ROUNDS])
def test_kill_during_a_snapshot_loses_no_offset(tmp_path: Path, rounds: int) -> None:
    seed = int(os.environ.get("MUSTER_SEED", random.randrange(1 << 32)))
    print(f"MUSTER_SEED={seed}")
    chance = random.Random(seed)
    acknowledged: dict[str, int] = {}
    highest = torn = used = 0
    folder = tmp_path / "__consumer_offsets-0"
    for number in range(rounds + 1):
        writer = Writer(tmp_path)
        try:
            told = writer.first()
            used += told["from"] >= 0
            for group, offset in acknowledged.items():
                offsets = told["found"][group]
                assert offsets == [offsets[0]] * 3, f"{group} in round {number}, seed {seed}"
                assert offset <= offsets[0] <= highest + 1, f"{group}, round {number}, seed {seed}"
            said = writer.lines(chance.uniform(0.05, 0.4))
            deadline = time.monotonic() + 60
            while not (folder / "groups.image").exists():  # later processes need a snapshot to load
                assert time.monotonic() < deadline, "no snapshot was written"
                said += writer.lines(0.05)
        finally:
            said_last = writer.kill()
        torn += (folder / "groups.image.tmp").exists()
        for group, offset in said + said_last:
            acknowledged[group] = offset
            highest = max(highest, offset)

    print(f"{rounds} kills, {torn} in the middle of a snapshot, {used} starts with one")
    assert acknowledged
    assert used >= rounds / 2, "hardly a start had a snapshot to begin with"
