"""An environment in which Muster is installed, and a check that this Muster works."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from urllib.request import Request, urlopen

from confluent_kafka import Producer

from tests.brokers import Broker, free_port
from tests.waiting import until

WAYS = {
    "muster": ["muster"],
    "-m": ["python", "-m", "musterd"],
    "-P": ["python", "-P", "-m", "musterd"],
    "-I": ["python", "-I", "-m", "musterd"],
}
"""The command lines with which a user can start Muster."""
KEYS = 5


@dataclass
class Environment:
    """A virtual environment whose programs run in the folder of another project. PYTHONPATH
    contains this folder."""

    folder: Path
    project: Path

    def line(self, words: list[str], **variables: str) -> list[str]:
        """Returns the command line that runs a program of the environment in the folder
        ``project``. ``words`` are the program and its arguments, ``variables`` are environment
        variables."""
        told = {"PYTHONPATH": str(self.project), **variables}
        return [
            "env", "-C", str(self.project), *(f"{name}={told[name]}" for name in told),
            str(self.folder / "bin" / words[0]), *words[1:],
        ]  # fmt: skip

    def run(self, *words: str, within_s: float = 60, **variables: str) -> str:
        """Runs a program, checks that its exit code is 0, and returns its standard output."""
        return run(self.line([*words], **variables), within_s)


def run(command: list[str], within_s: float = 60) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=within_s,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def serves_and_cleans(command: list[str], data: Path) -> None:
    """Starts a broker with ``command``. Checks that it serves clients, commands and a browser, and
    that its child process cleans logs."""
    http = f"127.0.0.1:{free_port()}"
    broker = Broker(data, {"log.cleaner.backoff.ms": "50"}, http)
    broker.command = command
    broker.start()
    try:
        at = ["--bootstrap", broker.bootstrap]
        settings = "cleanup.policy=compact", "segment.bytes=500", "min.cleanable.dirty.ratio=0.1"
        run([*command, "topics", "create", "orders", *at, *(f"-c{each}" for each in settings)])
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for number in range(KEYS * 10):
            producer.produce("orders", b"%d" % number, b"%d" % (number % KEYS))
            assert producer.flush(20) == 0
        assert '"orders"' in run([*command, "topics", "list", "--json", *at])
        for path in ("/", "/runbooks/MusterGroupStalled"):
            asked = Request(f"http://{http}{path}", headers={"Accept": "text/html"})
            with urlopen(asked, timeout=20) as answer:
                assert answer.status == 200
                assert answer.headers["Content-Type"].startswith("text/html")
        done = data / "cleaner-offset-checkpoint"
        until("the topic is cleaned", lambda: "orders 0" in done.read_text())
    finally:
        code = broker.stop()
    assert code == 0, broker.tail()
    assert "Traceback" not in broker.tail()
