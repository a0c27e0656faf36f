"""Kafka Connect in distributed mode with exactly-once sources, while its worker is killed and
restarted.

The file source writes lines and its position in the file in one transaction, so each line must be
in the topic exactly once. The file sink commits offsets after it has written lines. A killed sink
may write lines twice, but it never reads an uncommitted line.
"""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import waiting
from tests.brokers import Broker, free_port
from tests.chance import chance
from tests.interop.cluster import Cluster
from tests.interop.copying import CommittedReader
from tests.interop.programs import java_program

pytestmark = [pytest.mark.interop, pytest.mark.proves("transactions 45")]

JARS = "kafka-connect-4.3.1"
WORKER = "org.apache.kafka.connect.cli.ConnectDistributed"
STARTS_WITHIN_S = 180.0
STRINGS = "org.apache.kafka.connect.storage.StringConverter"
TOPICS = ("config", "offset", "status")
SETTINGS = {"offsets.topic.num.partitions": "5", "transaction.state.log.num.partitions": "5"}


class Lines:
    """A file to which a thread appends numbered lines until `stop` is called."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.file.touch()
        self.sent: list[str] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._append, daemon=True)

    def _append(self) -> None:
        while not self._stopped.wait(0.05):
            lines = [f"line {len(self.sent) + n}" for n in range(10)]
            self.sent += lines
            with self.file.open("a") as file:
                file.writelines(f"{line}\n" for line in lines)

    def stop(self) -> list[str]:
        """Stops appending and returns all lines."""
        self._stopped.set()
        self._thread.join()
        return self.sent

    def __enter__(self) -> Lines:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Worker:
    """A worker of Connect, which can be restarted and always has the same REST address."""

    def __init__(self, bootstrap: str, name: str, folder: Path) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        self.file = folder / "worker.properties"
        given = {
            "bootstrap.servers": bootstrap,
            "group.id": name,
            "exactly.once.source.support": "enabled",
            "key.converter": STRINGS,
            "value.converter": STRINGS,
            "listeners": self.url,
            "plugin.discovery": "service_load",
            "offset.flush.interval.ms": "500",
            "scheduled.rebalance.max.delay.ms": "0",
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "1000",
            # A killed sink member blocks the group until its session expires, by default after 45
            # s.
            "consumer.session.timeout.ms": "6000",
            "consumer.heartbeat.interval.ms": "1000",
            "consumer.isolation.level": "read_committed",
            "consumer.auto.offset.reset": "earliest",
            **{f"{topic}.storage.topic": f"{name}-{topic}" for topic in TOPICS},
            **{f"{topic}.storage.replication.factor": "1" for topic in TOPICS},
            **{f"{topic}.storage.partitions": "1" for topic in TOPICS if topic != "config"},
        }
        self.file.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
        self.program = java_program(JARS, WORKER, str(self.file))

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Sends one request to the REST interface and returns the response."""
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(
            self.url + path, data, {"Content-Type": "application/json"}, method=method
        )
        with urllib.request.urlopen(asked, timeout=STARTS_WITHIN_S) as answer:
            return json.loads(answer.read() or b"null")

    def until_it_serves(self) -> None:
        """Waits until the REST interface returns the list of connectors."""
        waiting.until(
            "the worker serves", lambda: [self.ask("GET", "/connectors")], STARTS_WITHIN_S
        )

    def run(self, connector: str, **config: str) -> None:
        waiting.until(
            f"{connector} is made",
            lambda: self.ask("PUT", f"/connectors/{connector}/config", config),
            STARTS_WITHIN_S,
            urllib.error.HTTPError,  # while the worker joins its group
        )

    def restart(self, *, hard: bool) -> None:
        """Stops the worker, by SIGKILL if ``hard``, and starts it again."""
        if hard:
            self.program.kill()
        else:
            self.program.stop()
        self.program = java_program(JARS, WORKER, str(self.file))


@contextmanager
def working(bootstrap: str, name: str, folder: Path) -> Iterator[Worker]:
    """Starts a worker and yields it. Kills it at the end."""
    worker = Worker(bootstrap, name, folder)
    try:
        worker.until_it_serves()
        yield worker
    finally:
        worker.program.kill()


def first_seen(lines: list[str]) -> list[str]:
    """Returns each distinct line once, in the order of first occurrence."""
    return list(dict.fromkeys(lines))


@pytest.mark.timeout(900)
def test_kafka_connect_copies_each_line_once_when_its_worker_restarts(
    brokers: Callable[..., Broker], name: str, tmp_path: Path
) -> None:
    broker = brokers(SETTINGS)
    Cluster(broker.bootstrap).create_topic(name, 1)
    sink = tmp_path / "out.txt"
    files = "org.apache.kafka.connect.file.FileStream"
    random = chance()
    with (
        Lines(tmp_path / "in.txt") as lines,
        CommittedReader(broker.bootstrap, name, 1) as reader,
        working(broker.bootstrap, name, tmp_path) as worker,
    ):
        worker.run(
            "source",
            **{"connector.class": f"{files}SourceConnector", "tasks.max": "1"},
            **{"file": str(lines.file), "topic": name},
            **{"exactly.once.support": "required", "transaction.boundary": "poll"},
        )
        worker.run(
            "sink",
            **{"connector.class": f"{files}SinkConnector", "tasks.max": "1"},
            **{"file": str(sink), "topics": name},
        )
        for end in (
            lambda: worker.restart(hard=True),
            lambda: worker.restart(hard=False),
            broker.kill,
        ):
            reader.until_read(len(lines.sent) + random.randint(0, 300), STARTS_WITHIN_S)
            end()
            if broker.process is None:
                broker.start()
        reader.until_read(len(lines.sent) + 300, STARTS_WITHIN_S)
        sent = lines.stop()
        reader.until_read(len(sent), STARTS_WITHIN_S)
        assert reader.values == [sent], "each line once, in order"
        waiting.until(
            "the sink has written all",
            lambda: first_seen(sink.read_text().splitlines()) == sent,
            STARTS_WITHIN_S,
        )
        assert worker.ask("GET", "/connectors/source/status")["tasks"][0]["state"] == "RUNNING"
        assert worker.program.stop() == 143
