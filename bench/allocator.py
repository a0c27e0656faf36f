"""Measures Produce of large batches for several thresholds of glibc's malloc.

    .venv/bin/python -m bench.allocator [--rounds 3] [--connections 1,100,1000] [--only NAME,NAME]

Each connection has one Produce of 950 kB in flight. The output has the megabytes that the broker
accepts per second of its CPU time, and its resident memory in MB: at the end of the load, and two
seconds after all connections have closed. The brokers of a round run alternately, each on an empty
directory. glibc reads the thresholds from environment variables. If these variables are set, the
broker does not set its own thresholds (`broker/loop/allocator.py`). The case "ours" sets no
variables, and so measures the broker's own thresholds.
"""

from __future__ import annotations

import argparse
import os
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from broker.loop.allocator import ENVIRONMENT
from tests.brokers import free_port
from tests.raw_connection import RawConnection, frame
from tests.waiting import until
from tests.wire import batch

ROOT = Path(__file__).parents[1]
BATCH_BYTES = 950_000
STARTS_WITHIN_S = 120.0
MIB = 1 << 20
CASES: dict[str, tuple[int, int, int] | None] = {
    "ours": None,
    "glibc's own": (-1, -1, -1),
    "mmap 2 MiB, trim 4 MiB": (2, 0, 4),
    "mmap 4 MiB, trim 16 MiB": (4, 0, 16),
    "mmap 32 MiB, trim 32 MiB": (32, 0, 32),
    "mmap 32 MiB, trim 64 MiB": (32, 0, 64),
    "mmap 32 MiB, top pad 4 MiB, trim 64 MiB": (32, 4, 64),
    "mmap 32 MiB, top pad 64 MiB, trim 256 MiB": (32, 64, 256),
}
"""The thresholds of glibc's malloc in MiB, by case: mmap threshold, top pad and trim threshold.
None keeps the broker's own thresholds; -1 means glibc's default."""
_TICKS = os.sysconf("SC_CLK_TCK")


class Measured(NamedTuple):
    """The broker's throughput and resident memory in one run of a case."""

    mb_per_cpu_s: float
    loaded_mb: float
    idle_mb: float


def environment(thresholds: tuple[int, int, int] | None) -> dict[str, str]:
    """Returns the environment variables with which a broker starts. ``thresholds`` is a value of
    `CASES`."""
    clean = {name: text for name, text in os.environ.items() if name not in ENVIRONMENT}
    clean["PYTHONPATH"] = str(ROOT)
    if thresholds is not None:
        if thresholds[0] < 0:
            clean["GLIBC_TUNABLES"] = "glibc.malloc.perturb=0"
        else:
            names = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_TRIM_THRESHOLD_")
            clean |= {name: str(each * MIB) for name, each in zip(names, thresholds, strict=True)}
    return clean


def resident_mb(pid: int) -> float:
    """Returns the resident memory of a process, in units of 1,000,000 bytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


class Load:
    """Connections that repeat one Produce; each connection has one request in flight."""

    def __init__(self, port: int, connections: int) -> None:
        self._selector = selectors.DefaultSelector()
        self._left: dict[socket.socket, int] = {}
        self._request = memoryview(produce())
        for _ in range(connections):
            sock = socket.create_connection(("127.0.0.1", port))
            sock.setblocking(False)
            self._selector.register(sock, selectors.EVENT_READ)
            self._left[sock] = 0

    def run(self, requests: int) -> None:
        """Sends ``requests`` requests in total, and waits for all responses."""
        to_send = requests
        for sock in self._left:
            if to_send:
                to_send -= 1
                self._begin(sock)
        done = 0
        while done < requests:
            for key, events in self._selector.select(30):
                sock = key.fileobj
                assert isinstance(sock, socket.socket)
                if events & selectors.EVENT_WRITE:
                    self._send(sock)
                if events & selectors.EVENT_READ:
                    answer = sock.recv(4096)
                    assert answer, "the broker closed the connection"
                    done += 1
                    if to_send:
                        to_send -= 1
                        self._begin(sock)

    def _begin(self, sock: socket.socket) -> None:
        self._left[sock] = len(self._request)
        self._send(sock)

    def _send(self, sock: socket.socket) -> None:
        with suppress(BlockingIOError):
            self._left[sock] -= sock.send(self._request[-self._left[sock] :])
        writes = selectors.EVENT_WRITE if self._left[sock] else 0
        self._selector.modify(sock, selectors.EVENT_READ | writes)

    def close(self) -> None:
        for sock in self._left:
            sock.close()
        self._selector.close()


def produce() -> bytes:
    """Returns the bytes of a Produce request with acks=1 and one batch of 950 kB."""
    data = [{"index": 0, "records": batch(b"x" * BATCH_BYTES)}]
    topics = [{"name": "large", "partition_data": data}]
    return frame("Produce", 8, 1, {"acks": 1, "timeout_ms": 30_000, "topic_data": topics})


def measured(thresholds: tuple[int, int, int] | None, connections: int, requests: int) -> Measured:
    port = free_port()
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "cli.main", "serve", "--http", "off", "--data", directory]
        command += ["--listen", f"127.0.0.1:{port}", "--set=num.partitions=1"]
        broker = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment(thresholds),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wire = until("the broker listens", lambda: connected(port), STARTS_WITHIN_S)
            wire.call("Metadata", 9, topics=[{"name": "large"}])
            load = Load(port, connections)
            load.run(max(connections, 30))
            before_s = cpu_s(broker.pid)
            load.run(requests)
            used_s = cpu_s(broker.pid) - before_s
            loaded_mb = resident_mb(broker.pid)
            load.close()
            time.sleep(2)
            idle_mb = resident_mb(broker.pid)
            wire.close()
        finally:
            broker.terminate()
            broker.wait(30)
    return Measured(requests * BATCH_BYTES / 1e6 / used_s, loaded_mb, idle_mb)


def connected(port: int) -> RawConnection | None:
    try:
        return RawConnection(port)
    except OSError:
        return None


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--requests", type=int, default=1000)
    options.add_argument("--connections", default="1,100,1000")
    options.add_argument("--only", default=",".join(CASES))
    given = options.parse_args()
    names = [name for name in CASES if any(part in name for part in given.only.split(","))]
    for connections in map(int, given.connections.split(",")):
        runs: dict[str, list[Measured]] = {name: [] for name in names}
        for _ in range(given.rounds):
            for name in names:
                runs[name].append(measured(CASES[name], connections, given.requests))
        for name in names:
            columns = zip(*runs[name], strict=True)
            speed, loaded, idle = (statistics.median(each) for each in columns)
            print(
                f"{connections:5} connections  {name:44} {speed:6.0f} MB per CPU second"
                f"  {loaded:6.0f} MB loaded  {idle:6.0f} MB idle",
                flush=True,
            )


if __name__ == "__main__":
    main()
