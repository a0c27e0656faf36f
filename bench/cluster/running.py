"""Starts the measured clusters (three brokers and a ZooKeeper), and measures their resources."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient

from bench.secured import Access
from tests import java
from tests.brokers import free_port
from tests.interop.secured_cluster import write_user
from tests.interop.zookeeper_cluster import KAFKA, MUSTER, ZooKeeperCluster
from tests.raw_connection import RawConnection
from tests.zookeeper import start_zookeeper

KINDS = (MUSTER, KAFKA)
BROKERS = (1, 2, 3)
MEGABYTE = 1 << 20
_TICKS = os.sysconf("SC_CLK_TCK")
# The flags of kafka-server-start.sh. The tests' JVM flags are for short runs.
_SERVER_FLAGS = ("-Xmx1g", "-Xms1g", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
_GROUPLOAD = Path(__file__).parents[1] / "groupload"
_LOAD_TIMEOUT_S = 240

# Kafka's defaults, except for these settings.
_SETTINGS = {
    "zookeeper.session.timeout.ms": "6000",
    "offsets.topic.num.partitions": "4",
    "replica.lag.time.max.ms": "30000",
    "leader.imbalance.check.interval.seconds": "300",
    "auto.leader.rebalance.enable": "false",
}


class MeasuredCluster(ZooKeeperCluster):
    """Three brokers of one kind, Muster or Kafka. Kafka runs with the JVM flags of its own start
    script."""

    def __init__(
        self,
        folder: Path,
        zookeeper_at: str,
        kind: str,
        zookeeper_pid: int,
        access: Access,
        **settings: str,
    ) -> None:
        kinds = dict.fromkeys(BROKERS, kind)
        super().__init__(folder, zookeeper_at, kinds, {**_SETTINGS, **access.settings, **settings})
        self.kind = kind
        self.access = access
        self.http = (
            {broker: f"127.0.0.1:{free_port()}" for broker in kinds} if kind == MUSTER else {}
        )
        """The HTTP address of each Muster broker, by broker id; empty for Kafka."""
        self.zookeeper_pid = zookeeper_pid

    def _muster(self, broker: int) -> list[str]:
        return [self.http[broker] if part == "off" else part for part in super()._muster(broker)]

    def _kafka(self, broker: int) -> list[str]:
        command = [part for part in super()._kafka(broker) if part not in java.FLAGS]
        return [command[0], *_SERVER_FLAGS, *command[1:]]

    def connect(self, broker: int) -> RawConnection:
        return self.access.connect(self.ports[broker])

    def admin(self) -> AdminClient:
        return AdminClient(
            {"bootstrap.servers": self.bootstrap, "log_level": 0, **self.access.librdkafka()}
        )

    def pids(self) -> list[int]:
        return [process.pid for process in self.processes.values()]

    def cpu_s(self) -> float:
        """Returns the CPU time that the running brokers have used in total, in seconds."""
        return sum(cpu_s(pid) for pid in self.pids())

    def broker_cpu_s(self, broker: int) -> float:
        return cpu_s(self.processes[broker].pid)

    def zookeeper_cpu_s(self) -> float:
        return cpu_s(self.zookeeper_pid)

    def resident_mb(self) -> float:
        """The sum of the running brokers' resident memory, in MiB."""
        pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in self.pids())
        return pages * os.sysconf("SC_PAGE_SIZE") / MEGABYTE

    def load(self, flags: str, **options: object) -> dict[str, Any]:
        """Runs the load generator groupload until it exits. Returns the last line of its output,
        parsed as JSON."""
        command = self.load_command(flags, **options)
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_LOAD_TIMEOUT_S, check=False
        )
        if done.returncode or not done.stdout:
            raise SystemExit(f"{shlex.join(command)} failed: {done.stderr[-2000:]}")
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    def load_command(self, flags: str, **options: object) -> list[str]:
        given = {
            "addr": f"127.0.0.1:{next(iter(self.ports.values()))}",
            "pid": ",".join(map(str, self.pids())),
            "label": self.kind,
            **options,
        }
        named = [part for name, value in given.items() for part in (f"-{name}", str(value))]
        return [str(groupload()), *shlex.split(flags), *self.access.groupload(), *named]

    def settle(self) -> None:
        """Starts all brokers so that the first broker becomes the controller."""
        if self.access.scram is not None:
            who = self.access.scram.who
            write_user(self.zookeeper, who.name, self.access.scram.mechanism, who.secret)
        first, *others = BROKERS
        self.start(first)
        self.until_brokers({first})
        for broker in others:
            self.start(broker)
        self.until_brokers(set(BROKERS))


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def groupload() -> Path:
    """Returns the path of the load generator groupload; Go builds the program if it is missing or
    outdated."""
    cache = os.environ.get("BROKER_BENCH_CACHE")
    built = (Path(cache) if cache else Path.home() / ".cache" / "broker-bench") / "groupload"
    sources = [*_GROUPLOAD.glob("*.go"), _GROUPLOAD / "go.mod"]
    if not built.exists() or built.stat().st_mtime < max(f.stat().st_mtime for f in sources):
        built.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["go", "build", "-o", str(built), "."], cwd=_GROUPLOAD, check=True)
    return built


@contextmanager
def running(
    folder: Path, kind: str, settings: Mapping[str, str], access: Access
) -> Iterator[MeasuredCluster]:
    """Starts three brokers and a ZooKeeper; kills them when the ``with`` block ends."""
    process, port = start_zookeeper(folder / "zookeeper")
    cluster = MeasuredCluster(folder, f"127.0.0.1:{port}", kind, process.pid, access, **settings)
    try:
        cluster.settle()
        yield cluster
    except BaseException:
        print(cluster.told())
        raise
    finally:
        for each in [*cluster.processes.values(), process]:
            each.kill()
        for each in [*cluster.processes.values(), process]:
            each.wait()
