"""Measures the time, the memory and the CPU time of a broker's start on an empty directory.

    .venv/bin/python -m bench.start [--rounds 9] [--no-kafka] [--against 'COMMAND']
      [--command-config FILE --server-config FILE]

The tool measures the time from exec until the broker accepts a connection, and until it answers
ApiVersions on that connection; a second later, it measures the resident memory and the CPU time.
Muster serves HTTP, as by default, and gets no HTTP requests. If a login is required, the connection
counts as accepted after the login. The directory of Apache Kafka 4.3.1 is formatted before the
measurement. `python -c pass` is the minimum for any program in Python. The programs start
alternately; the output has the medians, and the fastest response. ``--against`` is the command of
another Muster. Without ``--no-kafka``, the tool needs Java and Kafka's jars, as the interop tests
do.
"""

from __future__ import annotations

import argparse
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import throughput
from bench.secured import Access, add_options, chosen
from tests.brokers import CHECKOUT, free_port
from tests.raw_connection import RawConnection

LOOK_EVERY_S = 0.001
STARTS_WITHIN_S = 120.0
SETTLES_S = 1.0
_TICKS = os.sysconf("SC_CLK_TCK")


class Started(NamedTuple):
    """The measurements of one start of a broker."""

    accepts_s: float
    answers_s: float
    resident_mb: float
    cpu_s: float


def muster(command: list[str], folder: Path, access: Access) -> Started:
    port, data = free_port(), folder / "data"
    access.add_user(data)
    listen = ["--listen", f"127.0.0.1:{port}", "--http", "127.0.0.1:0", "--data", str(data)]
    return measured([*command, "serve", *listen, *access.sets()], port, access)


def kafka(folder: Path, access: Access) -> Started:
    broker = throughput.kafka(folder / "data", access)
    command = broker._command()  # formats the directory
    return measured(command, broker.port, access)


def measured(command: list[str], port: int, access: Access) -> Started:
    """Starts a broker, waits until it answers on ``port``, and stops it. Returns the start times,
    the memory and the CPU time."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=CHECKOUT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        connection = connected(port, access)
        accepts_s = time.perf_counter() - began
        connection.call("ApiVersions", 0)
        answers_s = time.perf_counter() - began
        connection.close()
        time.sleep(SETTLES_S)
        return Started(accepts_s, answers_s, resident_mb(process.pid), cpu_s(process.pid))
    finally:
        process.terminate()
        process.wait(STARTS_WITHIN_S)


def connected(port: int, access: Access) -> RawConnection:
    """Connects to ``port`` with retries until the broker accepts the connection."""
    deadline = time.perf_counter() + STARTS_WITHIN_S
    while time.perf_counter() < deadline:
        with suppress(ConnectionRefusedError):
            return access.connect(port)
        time.sleep(LOOK_EVERY_S)
    raise SystemExit(f"no broker listens on port {port} after {STARTS_WITHIN_S:.0f} s")


def resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1_000_000


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def nothing() -> float:
    """Returns the duration in seconds of a Python process that does nothing."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--no-kafka", action="store_true")
    parser.add_argument(
        "--against", metavar="COMMAND", help="the command of another Muster, such as 'muster'"
    )
    add_options(parser)
    asked = parser.parse_args()
    access = chosen(asked)
    ours = [str(Path(sys.executable).with_name("muster"))]
    kinds: dict[str, Callable[[Path], Started]] = {
        "Muster": lambda folder: muster(ours, folder, access)
    }
    if asked.against:
        other = shlex.split(asked.against)
        kinds["against"] = lambda folder: muster(other, folder, access)
    if not asked.no_kafka:
        kinds["Kafka"] = lambda folder: kafka(folder, access)
    found: dict[str, list[Started]] = defaultdict(list)
    passes = []
    for _ in range(asked.rounds):
        passes.append(nothing())
        for name, start in kinds.items():
            with tempfile.TemporaryDirectory() as folder:
                found[name].append(start(Path(folder)))
    print(f"{'':16}{'accepts s':>10}{'answers s':>10}{'least':>8}{'MB':>8}{'CPU s':>8}")
    for name, starts in found.items():
        accepts, answers, resident, cpu = map(statistics.median, zip(*starts, strict=True))
        least = min(each.answers_s for each in starts)
        print(f"{name:16}{accepts:10.3f}{answers:10.3f}{least:8.3f}{resident:8.1f}{cpu:8.2f}")
    print(f"python -c pass  {statistics.median(passes):10.3f} s until the process has exited")


if __name__ == "__main__":
    main()
