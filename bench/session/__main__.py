"""Measures a session of tests on Muster, and on Apache Kafka in processes of its own.

    .venv/bin/python -m bench.session [--cluster] [--tests 100] [--rounds 5] [--only muster]

A session is one pytest process with its tests, including the start and the end of the brokers. The
tests need no control of time or faults of requests, so they also work with Kafka. The tool needs
Java and Kafka's jars, as the interop tests do.

Without `--cluster`, a session has 100 tests of four kinds (tests.py). On Muster, the tests use the
fixture `muster`, which is reset for each test. On Kafka, one broker of 4.3.1 (KRaft, formatted and
started once) has a topic and a group for each test. Both brokers have
group.initial.rebalance.delay.ms=0, one partition for offsets and one for transactions.

With `--cluster`, a session has 50 tests (cluster_tests.py): each produces, consumes, kills the
leader, produces and consumes. On Muster, the tests use one `MusterCluster`, which is reset for each
test. On Kafka, three brokers of 3.9.2 and a ZooKeeper have a session timeout of 3 s, and a topic
and a group for each test; the killed broker is in sync again before the next test.

The output has a line for each session, and the medians. Its columns are:

- wall and CPU: the clock time, and the CPU time of all processes, in seconds;
- broker or brokers: the CPU time of the broker or of the brokers with their ZooKeeper, in seconds;
- start: the seconds until all brokers of the cluster accept connections;
- MB: the resident memory of these processes after the last test, in MiB;
- reset ms: the median time of `reset()` in milliseconds.
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

from bench.session import figures

ROOT = Path(__file__).parents[2]
KINDS = ("muster", "kafka")


class Load(NamedTuple):
    """The tests that one measured session runs, and the files that define them."""

    tests_file: str
    fixtures_file: str
    """The file with the fixtures for one kind of brokers."""
    tests: int
    """The default number of tests."""
    columns: tuple[str, ...]


ONE_BROKER = Load("tests.py", "on_{kind}.py", 100, ("wall", "CPU", "broker"))
CLUSTER = Load(
    "cluster_tests.py",
    "on_{kind}_cluster.py",
    50,
    ("wall", "CPU", "brokers", "start", "MB", "reset ms"),
)


def session(load: Load, kind: str, tests: int) -> dict[str, float]:
    """Run the tests once, in a temporary folder; return the figures by column."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        here = Path(__file__).parent
        shutil.copy(here / load.fixtures_file.format(kind=kind), folder / "conftest.py")
        shutil.copy(here / load.tests_file, folder / "test_session.py")
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            figures.FILE: str(folder / "figures"),
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
        found: dict[str, float] = json.loads((folder / "figures").read_text())
        return {"wall": wall_s, "CPU": usage.ru_utime + usage.ru_stime, **found}


def main() -> None:
    """Runs the sessions on Muster and Kafka alternately, and prints their times."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cluster", action="store_true", help="measure clusters of three brokers")
    parser.add_argument(
        "--tests", type=int, help="the number of tests; without --cluster a multiple of 4"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=KINDS)
    asked = parser.parse_args()
    load = CLUSTER if asked.cluster else ONE_BROKER
    kinds = [asked.only] if asked.only else list(KINDS)
    seen: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
    print(f"{'':8}", *(f"{column:>8}" for column in load.columns), "  load before")
    for turn in range(asked.rounds):
        for kind in kinds if turn % 2 == 0 else reversed(kinds):
            load_before = os.getloadavg()[0]
            seen[kind].append(session(load, kind, asked.tests or load.tests))
            print(_line(load, kind, seen[kind][-1]), f"{load_before:8.1f}", flush=True)
    print("medians")
    for kind, sessions in seen.items():
        medians = {
            column: statistics.median(each[column] for each in sessions) for column in sessions[0]
        }
        print(_line(load, kind, medians))


def _line(load: Load, kind: str, found: dict[str, float]) -> str:
    cells = [f"{found[each]:8.2f}" if each in found else " " * 8 for each in load.columns]
    return " ".join([f"{kind:8}", *cells])


if __name__ == "__main__":
    main()
