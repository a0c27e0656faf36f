"""Workers driven by a test: each client library's consumers in a child process.

A test decides the next step of a worker (workers/worker.py has the commands), so it knows
exactly which records were polled, processed and committed when something happens to the broker
or to the worker.
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
    """A command that failed in the client: `name` is the client's name of the error."""

    def __init__(self, name: str, says: str) -> None:
        super().__init__(f"{name}: {says}")
        self.name = name


def command_of(client: str) -> list[str]:
    """The command that starts a worker with `client`."""
    match client:
        case "java":
            return java.source(java.KAFKA_NEW, SCRIPTS / "JavaWorker.java")
        case _:
            script = {"confluent-kafka": "confluent"}.get(client, client.replace("-", "_"))
            return [sys.executable, str(SCRIPTS / f"{script}_worker.py")]


class Worker:
    """One process of one client."""

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
        """Whether it is running."""
        return self._process.poll() is None

    def ask(self, verb: str, **words: Any) -> Any:
        """Run one command; returns its result."""
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
        """Its standard error."""
        self._errors.seek(0)
        return self._errors.read()[-3000:]

    def kill(self) -> None:
        """Kill -9: no member leaves its group."""
        self._process.kill()
        self._process.communicate()


class Member:
    """One member of a group, in a worker."""

    def __init__(self, worker: Worker, name: str, **asked: Any) -> None:
        self.worker = worker
        self.name = name
        worker.ask("open", name=name, **asked)

    def fetch(self, within_s: float = 0.05) -> list[Any]:
        """Poll once; returns the batch, to be processed before the next poll."""
        batch: list[Any] = self.worker.ask("fetch", name=self.name, within_s=within_s)
        return batch

    def next_batch(self) -> list[Any]:
        """Poll until there are records."""
        return waiting.until(f"{self.name} has records", self.fetch, tolerate=())

    def work(self, count: int = 1000, *, and_commit: bool = False) -> list[str]:
        """Process records of the present batch; returns them."""
        done: list[str] = self._work(count, and_commit)["done"]
        return done

    def work_and_commit(self, count: int = 1000) -> tuple[list[str], str | None]:
        """Process records and commit each at once; returns them, and the error of a rejected
        commit."""
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
        """The partitions assigned, revoked and lost so far."""
        told = self.worker.ask("events", name=self.name)
        return [(what, [(topic, number) for topic, number in pairs]) for what, pairs in told]


@contextmanager
def workers() -> Iterator[Pool]:
    """Workers for many tests, one process per client; killed at the end."""
    pool = Pool()
    try:
        yield pool
    finally:
        pool.kill()


class Pool:
    """One worker per client, started on first use, and again after a kill."""

    def __init__(self) -> None:
        self._workers: dict[tuple[str, str], Worker] = {}

    def worker(self, client: str, role: str = "first") -> Worker:
        """The worker of a client; a second `role` is a second process."""
        found = self._workers.get((client, role))
        if found is None or not found.runs:
            found = self._workers[client, role] = Worker(client)
        return found

    def end(self, client: str) -> None:
        """Close the members and producers of a client's workers."""
        for (name, _), worker in self._workers.items():
            if name == client and worker.runs:
                worker.ask("end")

    def kill(self) -> None:
        for each in self._workers.values():
            each.kill()
