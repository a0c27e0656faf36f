"""Starts and kills the broker of `bench/load.py`: a process with one data directory."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from bench.secured import PLAIN, Access
from tests.raw_connection import RawConnection

READY_WITHIN_S = 600.0

Settings = {
    "group.initial.rebalance.delay.ms": "0",
    "group.max.session.timeout.ms": "3600000",
    "log.cleaner.backoff.ms": "1000",
}


@dataclass
class Process:
    """A broker process with one data directory."""

    data: Path
    access: Access = PLAIN
    port: int = 0
    popen: subprocess.Popen[bytes] | None = None
    exec_at: float = 0.0

    def start(self) -> None:
        if not self.port:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.port = probe.getsockname()[1]
        sets = [f"--set={key}={value}" for key, value in Settings.items()]
        command = [sys.executable, "-m", "cli.main", "serve", "--listen"]
        command += [f"127.0.0.1:{self.port}", "--data", str(self.data), "--http", "off", *sets]
        command += self.access.sets()
        out = (self.data.parent / "broker.log").open("ab")
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(self.data.parent / "compiled")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self.exec_at = time.monotonic()
        self.popen = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environment,
        )

    def connected(self) -> RawConnection:
        deadline = time.monotonic() + READY_WITHIN_S
        while True:
            try:
                return self.access.connect(self.port, READY_WITHIN_S)
            except OSError:
                assert self.popen is not None
                assert self.popen.poll() is None, "the broker has exited: see broker.log"
                assert time.monotonic() < deadline, "the broker does not listen"
                time.sleep(0.002)

    def end(self, how: signal.Signals) -> None:
        if self.popen is not None:
            self.popen.send_signal(how)
            self.popen.wait(120)
            self.popen = None

    def status(self, name: str) -> float:
        """Returns a memory figure of /proc/PID/status, such as VmRSS, in MB."""
        assert self.popen is not None
        text = Path(f"/proc/{self.popen.pid}/status").read_text()
        line = next(line for line in text.splitlines() if line.startswith(name + ":"))
        return int(line.split()[1]) * 1024 / 1e6

    def cpu_s(self) -> float:
        assert self.popen is not None
        fields = Path(f"/proc/{self.popen.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100


def disk(data: Path) -> str:
    files = list(data.glob("__consumer_offsets-*/*"))
    logs = sum(f.stat().st_size for f in files if f.suffix == ".log")
    images = [f.stat().st_size for f in files if f.name == "groups.image"]
    return f"logs {logs / 1e6:.0f} MB, {len(images)} snapshots of {sum(images) / 1e6:.1f} MB"
