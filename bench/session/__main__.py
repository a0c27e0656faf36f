"""Measures a session of 100 tests on Muster, and on an Apache Kafka 4.3.1 in its own process.

    .venv/bin/python -m bench.session [--tests 100] [--rounds 5] [--only muster]

A session is one pytest process with the tests of tests.py, including the start and the end of its
broker. On Muster, the tests use the fixture `muster`, which is reset for each test. On Kafka, one
broker (KRaft, formatted and started once) has a topic and a group for each test. The four kinds
of tests need no control of time or faults, so they also work with Kafka. Both brokers have
group.initial.rebalance.delay.ms=0, one partition for offsets and one for transactions. The tool
needs Java and Kafka's jars, as the interop tests do.

The output has the clock time, the CPU time of all processes and the CPU time of the broker, in
seconds, for each session, and the medians.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
KINDS = ("muster", "kafka")


class Session(NamedTuple):
    """The measurements of one session, in seconds."""

    wall_s: float
    cpu_s: float
    """The CPU time of pytest with the Kafka clients, plus the CPU time of the broker."""
    broker_cpu_s: float
    """The CPU time of the broker until the end of the last test."""


def session(kind: str, tests: int) -> Session:
    """Runs ``tests`` tests once, in a temporary folder."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        here = Path(__file__).parent
        shutil.copy(here / f"on_{kind}.py", folder / "conftest.py")
        shutil.copy(here / "tests.py", folder / "test_session.py")
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "SPENT": str(folder / "spent"),
            "TESTS": str(tests),
        }
        options = ["-q", "-p", "no:randomly", "-p", "no:cacheprovider", "--durations=10"]
        with open(folder / "said", "w+") as said:
            began = time.monotonic()
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "pytest", *options, str(folder)],
                cwd=folder,
                env=environment,
                stdout=said,
                stderr=said,
            )
            _, status, usage = os.wait4(process.pid, 0)
            wall_s = time.monotonic() - began
            process.returncode = os.waitstatus_to_exitcode(status)
            said.seek(0)
            text = said.read()
        if process.returncode or f"{tests} passed" not in text:
            raise SystemExit(f"the session on {kind} failed:\n{text[-6000:]}")
        spent = json.loads((folder / "spent").read_text())
        return Session(wall_s, usage.ru_utime + usage.ru_stime, spent)


def main() -> None:
    """Runs the sessions on Muster and Kafka alternately, and prints their times."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--tests", type=int, default=100, help="the number of tests, a multiple of 4"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=KINDS)
    asked = parser.parse_args()
    kinds = [asked.only] if asked.only else list(KINDS)
    seen: dict[str, list[Session]] = {kind: [] for kind in kinds}
    print(f"{'':8} {'wall':>8} {'CPU':>8} {'broker':>8}   load before")
    for turn in range(asked.rounds):
        for kind in kinds if turn % 2 == 0 else reversed(kinds):
            load = os.getloadavg()[0]
            seen[kind].append(session(kind, asked.tests))
            print(_line(kind, seen[kind][-1]), f"{load:8.1f}", flush=True)
    print("medians")
    for kind, sessions in seen.items():
        print(_line(kind, [statistics.median(each) for each in zip(*sessions, strict=True)]))


def _line(kind: str, values: list[float] | Session) -> str:
    return " ".join([f"{kind:8}", *(f"{value:8.2f}" for value in values)])


if __name__ == "__main__":
    main()
