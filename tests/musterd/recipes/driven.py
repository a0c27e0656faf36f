"""Child processes with the consumers of one client library, which a test controls in single steps.

workers/worker.py documents the commands. The test determines each step, so it knows which records
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
    """Raised when a command fails in the worker. ``name`` is the name of the error in the client
    library."""

    def __init__(self, name: str, says: str) -> None:
        super().__init__(f"{name}: {says}")
        self.name = name


def command_of(client: str) -> list[str]:
    """Returns the command line that starts a worker of the client library ``client``."""
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
        return self._process.poll() is None

    def ask(self, verb: str, **words: Any) -> Any:
        """Sends a command to the worker and returns its result. Raises `Refused` if the command
        fails."""
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
        self._errors.seek(0)
        return self._errors.read()[-3000:]

    def kill(self) -> None:
        """Kills the process with SIGKILL, so that its members do not leave their group."""
        self._process.kill()
        self._process.communicate()


class Member:
    """A member of a group. Its consumer runs in a worker."""

    def __init__(self, worker: Worker, name: str, **asked: Any) -> None:
        self.worker = worker
        self.name = name
        worker.ask("open", name=name, **asked)

    def fetch(self, within_s: float = 0.05) -> list[Any]:
        """Polls once and returns the batch. The test must process the batch before the next
        poll."""
        batch: list[Any] = self.worker.ask("fetch", name=self.name, within_s=within_s)
        return batch

    def next_batch(self) -> list[Any]:
        """Polls until a batch contains records, and returns this batch."""
        return waiting.until(f"{self.name} has records", self.fetch, tolerate=())

    def work(self, count: int = 1000, *, and_commit: bool = False) -> list[str]:
        """Processes at most ``count`` records of the current batch, and returns their values. If
        ``and_commit`` is True, the member commits after each record."""
        done: list[str] = self._work(count, and_commit)["done"]
        return done

    def work_and_commit(self, count: int = 1000) -> tuple[list[str], str | None]:
        """Processes at most ``count`` records, and commits after each record. Returns the values of
        the processed records, and the error of a rejected commit or None."""
        answer = self._work(count, True)
        return answer["done"], answer["refused"]

    def _work(self, count: int, and_commit: bool) -> dict[str, Any]:
        answer: dict[str, Any] = self.worker.ask(
            "work", name=self.name, count=count, and_commit=and_commit
        )
        return answer

    def commit(self) -> None:
        self.worker.ask("commit", name=self.name)

    def close(self) -> None:
        """Leave the group."""
        self.worker.ask("close", name=self.name)

    @property
    def events(self) -> list[tuple[str, list[Partition]]]:
        """Returns all rebalance events of the member. Each event is "assigned", "revoked" or
        "lost", with its partitions."""
        told = self.worker.ask("events", name=self.name)
        return [(what, [(topic, number) for topic, number in pairs]) for what, pairs in told]


class Producer:
    """A producer in a worker."""

    def __init__(self, worker: Worker, name: str, **asked: Any) -> None:
        self.worker = worker
        self.name = name
        self.acknowledged: list[str] = []
        """The values of all records that were acknowledged when the last `send` returned."""
        self.failed: dict[str, str] = {}
        """The values of the records that were not produced, each with the name of the error in the
        client library."""
        worker.ask("open_producer", name=name, **asked)

    def send(self, *values: str, topic: str = "orders", within_s: float = 30.0) -> None:
        """Produces values, and waits at most ``within_s`` seconds until each record is acknowledged
        or has failed. Records without an outcome stay in flight."""
        told = self.worker.ask(
            "send", name=self.name, topic=topic, values=values, within_s=within_s
        )
        self.acknowledged, self.failed = told["acknowledged"], dict(told["failed"])

    def begin(self) -> None:
        self.worker.ask("begin", name=self.name)

    def commit(self) -> None:
        self.worker.ask("commit_transaction", name=self.name)

    def abort(self) -> None:
        self.worker.ask("abort_transaction", name=self.name)


@contextmanager
def workers() -> Iterator[Pool]:
    """Yields a pool of workers, and kills the workers at the end."""
    pool = Pool()
    try:
        yield pool
    finally:
        pool.kill()


class Pool:
    """Worker processes by client library and role. A worker is started at its first use, and
    restarted after it was killed."""

    def __init__(self) -> None:
        self._workers: dict[tuple[str, str], Worker] = {}

    def worker(self, client: str, role: str = "first") -> Worker:
        """Returns the worker process of a client library in the role ``role``. Starts the process
        if it is not running."""
        found = self._workers.get((client, role))
        if found is None or not found.runs:
            found = self._workers[client, role] = Worker(client)
        return found

    def end(self, client: str) -> None:
        for (name, _), worker in self._workers.items():
            if name == client and worker.runs:
                worker.ask("end")

    def kill(self) -> None:
        for each in self._workers.values():
            each.kill()
