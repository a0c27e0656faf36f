"""The three brokers of a differential run: Muster and two versions of Apache Kafka.

Kafka 3.9.2 is the last version with the old group coordinator. In ZooKeeper mode, it is also the
last version that serves all versions of all APIs.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests import java
from tests.brokers import Broker, KafkaBroker, free_port, make_broker
from tests.interop.differential.wire import Target
from tests.zookeeper import start_zookeeper

NEW, OLD = java.KAFKA_NEW, java.KAFKA_LAST_TO_SERVE_OLD_CLIENTS
COMMON = {
    "auto.create.topics.enable": "false",
    "group.max.session.timeout.ms": "120000",
    "offsets.topic.num.partitions": "4",
}
_ONE_BY_ONE = {"num.io.threads": "1", "num.network.threads": "1"}
"""Settings with which Kafka handles the requests of several connections in the order of their
arrival."""
_COORDINATOR = {
    NEW: {"group.coordinator.append.linger.ms": "0"},
    OLD: {
        "group.coordinator.new.enable": "false",
        "group.coordinator.rebalance.protocols": "classic",
    },
}


class ZooKeeperKafka(KafkaBroker):
    """Kafka 3.9.2 in ZooKeeper mode, with a ZooKeeper of its own."""

    def __init__(self, data: Path, settings: Mapping[str, str]) -> None:
        super().__init__(data, settings, OLD)
        self.zookeeper: subprocess.Popen[bytes] | None = None

    def _command(self) -> list[str]:
        self.port = self.port or free_port()
        self.zookeeper, port = start_zookeeper(self.data.parent)
        lines = {
            "broker.id": "1",
            "zookeeper.connect": f"127.0.0.1:{port}",
            "zookeeper.connection.timeout.ms": "30000",
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
            **self.settings,
        }
        config = self.data.with_suffix(".properties")
        config.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        properties = {"org.slf4j.simpleLogger.log.kafka.server.KafkaServer": "info"}
        return java.command(OLD, "kafka.Kafka", str(config), properties=properties)

    def _ready_port(self, line: str) -> int | None:
        return (
            self.port
            if "started (kafka.server.KafkaServer)" in line or ("KafkaServer id=1] started" in line)
            else None
        )

    def kill(self) -> None:
        """Kills Kafka and its ZooKeeper. The data is not used again."""
        super().kill()
        if self.zookeeper:
            self.zookeeper.kill()
            self.zookeeper.wait()
            self.zookeeper = None


@contextmanager
def three_brokers(
    folder: Path, settings: Mapping[str, str], *, zookeeper: bool = False
) -> Iterator[dict[str, Broker]]:
    """Yields Muster and the two Kafka brokers. Kills them at the end."""
    shared = {**COMMON, **settings}
    brokers: dict[str, Broker] = {}
    tested = make_broker(folder / "tested" / "data", shared)
    if isinstance(tested, KafkaBroker):  # BROKER=kafka compares Kafka with itself
        tested.settings |= {**_ONE_BY_ONE, **_COORDINATOR[tested.version]}
        brokers["kafka under test"] = tested
    else:
        brokers["muster"] = tested
    for version, own in _COORDINATOR.items():
        data = folder / version / "data"
        sets = {**shared, **_ONE_BY_ONE, **own}
        old = zookeeper and version == OLD
        brokers[version] = ZooKeeperKafka(data, sets) if old else KafkaBroker(data, sets, version)
    try:
        with ThreadPoolExecutor() as pool:
            for started in [pool.submit(broker.start) for broker in brokers.values()]:
                started.result()
        yield brokers
    finally:
        for broker in brokers.values():
            broker.kill()


def targets(brokers: Mapping[str, Broker]) -> list[Target]:
    """Returns the brokers as `Target` objects of a differential run."""
    return [Target(name, broker.port) for name, broker in brokers.items()]
