"""ACLs, credentials, quotas and tokens of Muster in ZooKeeper equal those of Apache Kafka 3.9.2,
which are recorded in tests/data/znodes. `make soak` repeats the changes on Kafka.
MUSTER_GOLDEN=write records the nodes again."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests import java, waiting
from tests.brokers import free_port
from tests.interop import security_history
from tests.interop.security_history import Left, alike, play
from tests.zookeeper import zookeeper

pytestmark = [pytest.mark.interop, pytest.mark.proves("security 37")]

RECORDED = Path(__file__).parent.parent / "data" / "znodes" / "security-kafka-3.9.2.json"


@contextmanager
def kafka(folder: Path, zookeeper_at: str) -> Iterator[tuple[int, int]]:
    """Starts a Kafka 3.9.2 with an authorizer. Yields its port without login and its port with
    login."""
    ports = free_port(), free_port()
    properties = {
        **security_history.SETTINGS,
        "broker.id": "1",
        "zookeeper.connect": zookeeper_at,
        "listeners": f"PLAINTEXT://127.0.0.1:{ports[0]},LOGIN://127.0.0.1:{ports[1]}",
        "log.dirs": str(folder / "data"),
    }
    file = folder / "broker.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    command = java.command(java.KAFKA_LAST_TO_SERVE_OLD_CLIENTS, "kafka.Kafka", str(file))
    with (folder / "broker.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        waiting.until("Kafka listens", lambda: all(map(_listens, ports)), 60, OSError)
        yield ports
    finally:
        process.kill()
        process.wait()


def _listens(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), 5):
        return True


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_recorded_security_znodes_equal_the_znodes_that_kafka_writes(tmp_path: Path) -> None:
    with zookeeper(tmp_path / "zookeeper") as address:
        at = f"{address}/cluster"
        with kafka(tmp_path, at) as (port, login_port):
            nodes = KazooClient(at, timeout=30)
            nodes.start(30)
            try:
                found = play(port, login_port, nodes)
            finally:
                nodes.stop()
                nodes.close()
    if os.environ.get("MUSTER_GOLDEN") == "write":
        text = json.dumps(found._asdict(), indent=1, sort_keys=True, ensure_ascii=False)
        RECORDED.write_text(f"{text}\n")
    assert alike(found) == alike(Left(**json.loads(RECORDED.read_text())))
