"""Broker processes for tests. A test starts a broker on a free port, and can stop, kill and restart
it.

With `BROKER=muster` (the default), the broker is that of this checkout. With `BROKER=kafka`, the
broker is Apache Kafka 4.3.1, or 3.9.2 for clients that are too old for 4.x. A test that passes with
both values checks behaviour that Kafka also has. MUSTER_COMMAND selects another Muster, such as an
installed one.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tests import java

CHECKOUT = Path(__file__).parent.parent
KIND = os.environ.get("BROKER", "muster")
COMMAND = shlex.split(os.environ.get("MUSTER_COMMAND", "")) or [sys.executable, "-m", "cli.main"]

# The first join of a group does not wait for further members; sessions may be as short as a test
# needs.
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "offsets.retention.check.interval.ms": "600000",
}
READY_WITHIN_S = 180.0
RUNNING: list[Broker] = []
"""The running brokers. The report of a failed test contains their last log lines."""
STOPPED_WITHIN_S = 20.0


_PORTS_FROM, _PORTS_EACH = 10_000, 3_000
_ports = itertools.count(os.getpid() * 7)


def free_port() -> int:
    """Returns a free TCP port of 127.0.0.1, a different one for each call.

    Each pytest worker uses its own range of ports, below the ports that the kernel assigns to
    outgoing connections. A client that retries a dead broker therefore never reaches the broker of
    another test.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 7
    while True:
        port = _PORTS_FROM + worker * _PORTS_EACH + next(_ports) % _PORTS_EACH
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Broker:
    """One broker process on one data directory.

    `start` returns when the broker accepts connections. A stopped or killed broker restarts on the
    same port and directory. `port` is 0 before the first start.
    """

    def __init__(
        self, data: Path, settings: Mapping[str, str] | None = None, http: str = "off"
    ) -> None:
        self.data = data
        self.http = http
        """The address of Muster's HTTP listener, or "off". A command with --bootstrap gets this
        address from the broker."""
        self.settings = {**SETTINGS, **(settings or {})}
        self.port = 0
        self.command = COMMAND
        self.process: subprocess.Popen[str] | None = None
        self.log: deque[str] = deque(maxlen=2000)
        self.started_in_s = 0.0
        self._reader: threading.Thread | None = None

    @property
    def bootstrap(self) -> str:
        """Returns the address of the broker for clients, as HOST:PORT."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None, "the broker is not running"
        return self.process.pid

    def partition_folder(self, topic: str, partition: int) -> Path:
        return self.data / f"{topic}-{partition}"

    def start(self) -> Broker:
        """Starts the process and waits until it prints that it accepts connections."""
        assert self.process is None, "the broker is running"
        self.data.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        self.process = subprocess.Popen(
            self._command(),
            cwd=CHECKOUT,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        ready = threading.Event()
        self._reader = threading.Thread(target=self._read, args=(self.process, ready), daemon=True)
        self._reader.start()
        if not ready.wait(READY_WITHIN_S) or self.process.poll() is not None:
            self.kill()
            raise AssertionError("the broker did not start:\n" + self.tail())
        self.started_in_s = time.monotonic() - began
        RUNNING.append(self)
        return self

    def _command(self) -> list[str]:
        self.port = self.port or free_port()
        sets = [f"--set={key}={value}" for key, value in self.settings.items()]
        return [
            *self.command,
            "serve",
            "--listen",
            f"127.0.0.1:{self.port}",
            "--data",
            str(self.data),
            "--http",
            self.http,
            *sets,
        ]

    def _ready_port(self, line: str) -> int | None:
        if not re.search("accept", line, re.IGNORECASE):
            return None
        found = re.search(r"127\.0\.0\.1:(\d+)", line)
        return int(found[1]) if found else None

    def _read(self, process: subprocess.Popen[str], ready: threading.Event) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.log.append(line)
            if not ready.is_set() and (port := self._ready_port(line)):
                self.port = port
                ready.set()
        ready.set()  # the process ended; `start` checks that

    def stop(self) -> int:
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> int:
        process = self.process
        if process is None:
            return 0
        if self in RUNNING:
            RUNNING.remove(self)
        process.send_signal(how)
        try:
            code = process.wait(STOPPED_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"not stopped by {how.name}:\n" + self.tail()) from None
        finally:
            self.process = None
        if self._reader:
            self._reader.join(5)
        return code

    def lines(self) -> list[str]:
        return list(self.log)

    def tail(self, lines: int = 60) -> str:
        return "".join(self.lines()[-lines:])


class KafkaBroker(Broker):
    """One node of Apache Kafka in KRaft mode."""

    def __init__(
        self,
        data: Path,
        settings: Mapping[str, str] | None = None,
        version: str = java.KAFKA_NEW,
        listeners: Iterable[str] = (),
    ) -> None:
        """``listeners`` contains the security protocol of each additional listener."""
        super().__init__(data, settings)
        self.version = version
        self.listeners = {name: f"127.0.0.1:{free_port()}" for name in listeners}
        """The addresses of the additional listeners, by security protocol."""
        self.format_options: tuple[str, ...] = ()
        """Options of Kafka's storage tool."""

    def _command(self) -> list[str]:
        config = self.data.with_suffix(".properties")
        if not self.port:
            self.port, controller = free_port(), free_port()
            ours = {"PLAINTEXT": self.bootstrap, **self.listeners}
            served = ",".join(f"{name}://{where}" for name, where in ours.items())
            lines = {
                "process.roles": "broker,controller",
                "node.id": "1",
                "controller.quorum.voters": f"1@127.0.0.1:{controller}",
                "listeners": f"{served},CONTROLLER://127.0.0.1:{controller}",
                "advertised.listeners": served,
                "controller.listener.names": "CONTROLLER",
                "listener.security.protocol.map": ",".join(
                    ["CONTROLLER:PLAINTEXT", *(f"{name}:{name}" for name in ours)]
                ),
                "inter.broker.listener.name": "PLAINTEXT",
                "log.dirs": str(self.data),
                "offsets.topic.replication.factor": "1",
                "transaction.state.log.replication.factor": "1",
                "transaction.state.log.min.isr": "1",
                "share.coordinator.state.topic.replication.factor": "1",
                **self.settings,
            }
            config.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
            java.run(
                self.version,
                "kafka.tools.StorageTool",
                "format",
                "-t",
                _kafka_uuid(),
                "-c",
                str(config),
                *self.format_options,
            ).check_returncode()
        return java.command(
            self.version,
            "kafka.Kafka",
            str(config),
            properties={
                "org.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer": "info",
                "org.apache.kafka.sasl.oauthbearer.allowed.urls": self.settings.get(
                    "sasl.oauthbearer.jwks.endpoint.url", ""
                ),
            },
        )

    def _ready_port(self, line: str) -> int | None:
        return self.port if "Kafka Server started" in line else None


def _kafka_uuid() -> str:
    import base64

    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):  # # the storage tool reads it as an option
            return text


def make_broker(
    data: Path, settings: Mapping[str, str] | None = None, *, for_old_clients: bool = False
) -> Broker:
    """Returns a broker that is not started. BROKER selects Muster or Apache Kafka."""
    if KIND == "muster":
        return Broker(data, settings)
    assert KIND == "kafka", f"BROKER={KIND}: write muster or kafka"
    version = java.KAFKA_LAST_TO_SERVE_OLD_CLIENTS if for_old_clients else java.KAFKA_NEW
    return KafkaBroker(data, settings, version)


@contextmanager
def running(*brokers: Broker) -> Iterator[None]:
    try:
        for broker in brokers:
            broker.start()
        yield
    finally:
        for broker in brokers:
            broker.kill()
