"""Runs a real Apache Kafka 0.10.2.2 with its ZooKeeper."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import java, waiting
from tests.brokers import free_port
from tests.zookeeper import zookeeper


@contextmanager
def old_kafka(folder: Path) -> Iterator[str]:
    """Yields the address of a running broker that stores its data in ``folder``/data. Kills the
    broker at the end."""
    with zookeeper(folder / "zookeeper") as keeper:
        port = free_port()
        config = folder / "server.properties"
        config.write_text(
            f"broker.id=0\nlisteners=PLAINTEXT://127.0.0.1:{port}\nlog.dirs={folder / 'data'}\n"
            f"zookeeper.connect={keeper}\noffsets.topic.replication.factor=1\n"
            "offsets.topic.num.partitions=5\n"
        )
        process = subprocess.Popen(
            java.command(java.KAFKA_OLD, "kafka.Kafka", str(config)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            waiting.until("Kafka answers", lambda: _answers(port), 60, OSError)
            yield f"127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait()


def _answers(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), 5):
        return True
