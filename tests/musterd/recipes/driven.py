"""Workers, driven by a test: each client library's consumers in a process of their own.

A test says what a worker does next (workers/worker.py has the commands), so it knows exactly what
was polled, worked off and committed when something happens to the broker or to the worker.
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
    """A command that failed in the client: `name` is what the client calls it."""

    def __init__(self, name: str, says: str) -> None:
        super().__init__(f"{name}: {says}")
        self.name = name


def command_of(client: str) -> list[str]:
    """What starts a worker made with `client`."""
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
        """Whether it was not killed."""
        return self._process.poll() is None

    def ask(self, verb: str, **words: Any) -> Any:
        """One command, and what it gave."""
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
        """What it wrote to standard error."""
        self._errors.seek(0)
        return self._errors.read()[-3000:]

    def kill(self) -> None:
        """Kill -9: no member says goodbye."""
        self._process.kill()
        self._process.communicate()


class Member:
    """One member of a group, in a worker."""

    def __init__(self, worker: Worker, name: str, **asked: Any) -> None:
        self.worker = worker
        self.name = name
        worker.ask("open", name=name, **asked)

    def fetch(self, within_s: float = 0.05) -> list[Any]:
        """Poll once; the batch, which is to be worked off before the next poll."""
        batch: list[Any] = self.worker.ask("fetch", name=self.name, within_s=within_s)
        return batch

    def next_batch(self) -> list[Any]:
        """Poll until there are records."""
        return waiting.until(f"{self.name} has records", self.fetch, tolerate=())

    def work(self, count: int = 1000, *, and_commit: bool = False) -> list[str]:
        """Work off records of the batch in hand; which."""
        done: list[str] = self._work(count, and_commit)["done"]
        return done

    def work_and_commit(self, count: int = 1000) -> tuple[list[str], str | None]:
        """Work records off and commit each at once; which, and why a commit was refused."""
        answer = self._work(count, True)
        return answer["done"], answer["refused"]

    def _work(self, count: int, and_commit: bool) -> dict[str, Any]:
        answer: dict[str, Any] = self.worker.ask(
            "work", name=self.name, count=count, and_commit=and_commit
        )
        return answer

    def commit(self) -> None:
        """Commit all that is worked off."""
        self.worker.ask("commit", name=self.name)

    @property
    def events(self) -> list[tuple[str, list[Partition]]]:
        """What was assigned, revoked and lost so far."""
        told = self.worker.ask("events", name=self.name)
        return [(what, [(topic, number) for topic, number in pairs]) for what, pairs in told]


@contextmanager
def workers() -> Iterator[Pool]:
    """Workers for many tests, one process a client; killed at the end."""
    pool = Pool()
    try:
        yield pool
    finally:
        pool.kill()


class Pool:
    """One worker of each client, started when it is asked for; one that was killed anew."""

    def __init__(self) -> None:
        self._workers: dict[tuple[str, str], Worker] = {}

    def worker(self, client: str, role: str = "first") -> Worker:
        """The worker of a client; a second `role` is a second process."""
        found = self._workers.get((client, role))
        if found is None or not found.runs:
            found = self._workers[client, role] = Worker(client)
        return found

    def end(self, client: str) -> None:
        """Close what a client has open in its workers."""
        for (name, _), worker in self._workers.items():
            if name == client and worker.runs:
                worker.ask("end")

    def kill(self) -> None:
        """End all."""
        for each in self._workers.values():
            each.kill()
