"""Child processes with consumers of one client library each, which a test controls step by step.

The commands are in workers/worker.py. Because the test chooses each step, it knows which records
were polled, processed and committed at the time of a fault.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import java, waiting

SCRIPTS = Path(__file__).parent / "workers"
CLIENTS = ("confluent-kafka", "aiokafka", "kafka-python", "java")
Partition = tuple[str, int]


class Refused(Exception):
    """A command failed in the worker; ``name`` is the client library's name of the error."""

    def __init__(self, name: str, says: str) -> None:
        super().__init__(f"{name}: {says}")
        self.name = name


def command_of(client: str) -> list[str]:
    """The command line that starts a worker of the client library ``client``."""
    match client:
        case "java":
            return java.source(java.KAFKA_NEW, SCRIPTS / "JavaWorker.java")
        case _:
            script = {"confluent-kafka": "confluent"}.get(client, client.replace("-", "_"))
            return [sys.executable, str(SCRIPTS / f"{script}_worker.py")]


class Worker:
    """A child process with members of one client library."""

    def __init__(self, client: str) -> None:
        self.client = client
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (open as long as the process)
        self._process = subprocess.Popen(
            command_of(client),
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )

    @property
    def runs(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def ask(self, verb: str, **words: Any) -> Any:
        """Send a command to the worker and return its result; raises `Refused` if it fails."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"verb": verb, **words}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the worker of {self.client} ended at {verb}\n{self._said()}"
        answer = json.loads(line)
        if "error" in answer:
            raise Refused(answer["error"], answer["says"])
        return answer["ok"]

    def _said(self) -> str:
        """The last 3000 characters of the worker's standard error."""
        self._errors.seek(0)
        return self._errors.read()[-3000:]

    def kill(self) -> None:
        """Kill the process by SIGKILL, so that its members do not leave their group."""
        self._process.kill()
        self._process.communicate()


class Member:
    """A member of a group; its consumer is in a worker."""

    def __init__(self, worker: Worker, name: str, **asked: Any) -> None:
        self.worker = worker
        self.name = name
        worker.ask("open", name=name, **asked)

    def fetch(self, within_s: float = 0.05) -> list[Any]:
        """Poll once; returns the batch, which must be processed before the next poll."""
        batch: list[Any] = self.worker.ask("fetch", name=self.name, within_s=within_s)
        return batch

    def next_batch(self) -> list[Any]:
        """Poll until a batch has records; returns the batch."""
        return waiting.until(f"{self.name} has records", self.fetch, tolerate=())

    def work(self, count: int = 1000, *, and_commit: bool = False) -> list[str]:
        """Process at most ``count`` records of the current batch; returns their values."""
        done: list[str] = self._work(count, and_commit)["done"]
        return done

    def work_and_commit(self, count: int = 1000) -> tuple[list[str], str | None]:
        """Process records and commit after each; returns their values and the error of a rejected
        commit, or None."""
        answer = self._work(count, True)
        return answer["done"], answer["refused"]

    def _work(self, count: int, and_commit: bool) -> dict[str, Any]:
        answer: dict[str, Any] = self.worker.ask(
            "work", name=self.name, count=count, and_commit=and_commit
        )
        return answer

    def commit(self) -> None:
        """Commit all processed records."""
        self.worker.ask("commit", name=self.name)

    @property
    def events(self) -> list[tuple[str, list[Partition]]]:
        """The events so far: assigned, revoked or lost, each with its partitions."""
        told = self.worker.ask("events", name=self.name)
        return [(what, [(topic, number) for topic, number in pairs]) for what, pairs in told]


@contextmanager
def workers() -> Iterator[Pool]:
    """Yield a pool of workers, which are killed at the end of the block."""
    pool = Pool()
    try:
        yield pool
    finally:
        pool.kill()


class Pool:
    """The workers by client library and role, started when they are first used or were killed."""

    def __init__(self) -> None:
        self._workers: dict[tuple[str, str], Worker] = {}

    def worker(self, client: str, role: str = "first") -> Worker:
        """The running worker of a client library; each ``role`` has its own process."""
        found = self._workers.get((client, role))
        if found is None or not found.runs:
            found = self._workers[client, role] = Worker(client)
        return found

    def end(self, client: str) -> None:
        """Close all members and producers in the workers of a client library."""
        for (name, _), worker in self._workers.items():
            if name == client and worker.runs:
                worker.ask("end")

    def kill(self) -> None:
        for each in self._workers.values():
            each.kill()
