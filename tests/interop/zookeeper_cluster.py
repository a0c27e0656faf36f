"""Clusters on a real ZooKeeper with brokers of Muster, of Apache Kafka, or of both."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from tests import java, waiting
from tests.brokers import free_port
from tests.raw_connection import RawConnection
from tests.zookeeper import zookeeper_process

ROOT = Path(__file__).resolve().parents[2]
MUSTER, KAFKA, OLD_KAFKA = "muster", "kafka", "kafka 0.10.2"

SETTINGS = {
    "zookeeper.session.timeout.ms": "3000",
    "zookeeper.connection.timeout.ms": "30000",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "replica.lag.time.max.ms": "3000",
    "leader.imbalance.check.interval.seconds": "5",
    "unclean.leader.election.enable": "false",
    "delete.topic.enable": "true",
}
"""The settings of all brokers of a cluster. Muster and Kafka have the same names for them."""

BESIDE_OLD_KAFKA = {
    "inter.broker.protocol.version": "0.10.2",
    "log.message.format.version": "0.10.2",
}
"""Settings of the other brokers in a cluster that also has a Kafka 0.10.2.2. The values are the
defaults of Kafka 0.10.2.2."""

_JARS = {KAFKA: java.KAFKA_LAST_TO_SERVE_OLD_CLIENTS, OLD_KAFKA: java.KAFKA_OLD}

Partitions = dict[int, tuple[int, list[int]]]
"""The leader and the in-sync replicas of each partition."""


class ZooKeeperCluster:
    """A cluster with its own ZooKeeper chroot. ``kinds`` gives for each broker id whether it is
    Muster or a version of Kafka."""

    def __init__(
        self,
        folder: Path,
        zookeeper_at: str,
        kinds: Mapping[int, str],
        settings: Mapping[str, str] | None = None,
        zookeeper_process: subprocess.Popen[bytes] | None = None,
    ) -> None:
        self.folder = folder
        self._zookeeper_process = zookeeper_process
        self.zookeeper = f"{zookeeper_at}/cluster"
        self.kinds = dict(kinds)
        beside = BESIDE_OLD_KAFKA if OLD_KAFKA in kinds.values() else {}
        self.settings = {**SETTINGS, **beside, **(settings or {})}
        self.ports = {broker: free_port() for broker in kinds}
        self.http = {broker: f"127.0.0.1:{free_port()}" for broker in kinds}
        """The HTTP address of each Muster broker."""
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.nodes = KazooClient(self.zookeeper, timeout=30)
        """The test's own connection to ZooKeeper."""
        self.stale: set[int] = set()
        """Brokers that may return old data until they notice that their ZooKeeper session has
        expired.

        These are Kafka brokers that were paused, and all brokers while ZooKeeper does not respond.
        A paused Muster does not return old data.
        """

    @property
    def is_old(self) -> bool:
        """Returns True if the brokers use the inter-broker protocol of Kafka 0.10.2, which has no
        producer ids and no static members."""
        return self.settings.get("inter.broker.protocol.version") == "0.10.2"

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    # -- brokers

    def start(self, broker: int) -> None:
        """Starts a broker without waiting until its replicas are in sync."""
        command = self._muster(broker) if self.kinds[broker] == MUSTER else self._kafka(broker)
        with self.log(broker).open("ab") as log:
            self.processes[broker] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=ROOT
            )

    def add(self, broker: int, kind: str) -> None:
        self.kinds[broker], self.ports[broker] = kind, free_port()
        self.http[broker] = f"127.0.0.1:{free_port()}"
        self.start(broker)

    def remove(self, broker: int) -> None:
        self.stop(broker)
        del self.kinds[broker], self.ports[broker], self.http[broker]

    def kill(self, broker: int) -> None:
        process = self.processes.pop(broker)
        process.kill()
        process.wait()

    def stop(self, broker: int, within_s: float = 60.0) -> None:
        process = self.processes.pop(broker)
        process.terminate()
        process.wait(within_s)

    def pause(self, broker: int) -> None:
        """Suspends the process of a broker until `resume` is called."""
        if self.kinds[broker] != MUSTER:
            self.stale.add(broker)
        self.processes[broker].send_signal(signal.SIGSTOP)

    def resume(self, broker: int) -> None:
        self.processes[broker].send_signal(signal.SIGCONT)

    def server_pids(self) -> list[int]:
        """Returns the process ids of the running brokers and of ZooKeeper."""
        assert self._zookeeper_process is not None
        return [each.pid for each in [*self.processes.values(), self._zookeeper_process]]

    @contextmanager
    def without_zookeeper(self) -> Iterator[None]:
        """Suspends ZooKeeper during the block, so that ZooKeeper accepts connections but does not
        respond."""
        assert self._zookeeper_process is not None
        self.stale |= set(self.kinds)
        self._zookeeper_process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._zookeeper_process.send_signal(signal.SIGCONT)

    def log(self, broker: int) -> Path:
        return self.folder / f"broker-{broker}.log"

    def directory(self, broker: int) -> Path:
        return self.folder / f"data-{broker}"

    def _muster(self, broker: int) -> list[str]:
        command = [sys.executable, "-m", "cli.main", "serve", "--http", self.http[broker]]
        command += ["--listen", f"127.0.0.1:{self.ports[broker]}"]
        command += ["--data", str(self.directory(broker))]
        for name, value in self._properties(broker).items():
            command += ["--set", f"{name}={value}"]
        return command

    def _kafka(self, broker: int) -> list[str]:
        address = f"PLAINTEXT://127.0.0.1:{self.ports[broker]}"
        properties = {
            **self._properties(broker),
            "listeners": address,
            "advertised.listeners": address,
            "log.dirs": str(self.directory(broker)),
        }
        file = self.folder / f"broker-{broker}.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        version = _JARS[self.kinds[broker]]
        tells = {"org.slf4j.simpleLogger.log.kafka.log.LogManager": "info"}  # how logs were closed
        return java.command(version, "kafka.Kafka", str(file), properties=tells)

    def _properties(self, broker: int) -> dict[str, str]:
        return {
            **self.settings,
            "broker.id": str(broker),
            "zookeeper.connect": self.zookeeper,
        }

    # -- the content of ZooKeeper

    def node(self, path: str) -> Any:
        try:
            return json.loads(self.nodes.get(path)[0])
        except NoNodeError:
            return None

    def registered(self) -> set[int]:
        return {int(each) for each in self.nodes.get_children("/brokers/ids")}

    def controller(self) -> int:
        found = self.node("/controller")
        return -1 if found is None else int(found["brokerid"])

    def assignment(self, topic: str) -> dict[int, list[int]]:
        node = self.node(f"/brokers/topics/{topic}")
        return {int(index): replicas for index, replicas in node["partitions"].items()}

    def state(self, topic: str, partition: int) -> Any:
        return self.node(f"/brokers/topics/{topic}/partitions/{partition}/state")

    def until_gone(self, broker: int, within_s: float = 60.0) -> None:
        waiting.until(f"broker {broker} is gone", lambda: broker not in self.registered(), within_s)

    def until_settled(self, within_s: float = 120.0) -> None:
        """Waits until all brokers are registered, each partition has a leader, and all replicas are
        in sync."""

        def settled() -> bool:
            there = self.registered()
            assert there == set(self.processes), there
            assert self.controller() in there, self.controller()
            for topic in self.nodes.get_children("/brokers/topics"):
                for partition, replicas in self.assignment(topic).items():
                    found = self.state(topic, partition)
                    assert found["leader"] in there, (topic, partition, found)
                    assert set(found["isr"]) == set(replicas), (topic, partition, found)
            return True

        waiting.until("the cluster has settled", settled, within_s)
        self.stale.clear()

    # -- requests to the brokers

    def connect(self, broker: int) -> RawConnection:
        return RawConnection(self.ports[broker])

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def until_brokers(self, brokers: set[int], within_s: float = 180.0) -> int:
        """Waits until Metadata returns exactly these brokers and a controller. Returns the id of
        the controller."""
        admin = self.admin()

        def controller() -> int:
            known = admin.list_topics(timeout=10)
            assert set(known.brokers) == brokers, known.brokers
            assert known.controller_id in brokers, known.controller_id
            return int(known.controller_id) or -1

        return waiting.until(f"the cluster has the brokers {brokers}", controller, within_s)

    def create(self, topic: str, partitions: int, factor: int, **config: str) -> None:
        """Creates a topic and waits until each broker knows it. The controller may change during
        the call."""
        admin = self.admin()
        asked = NewTopic(topic, partitions, factor, config=dict(config))

        def made() -> bool:
            try:
                admin.create_topics([asked], operation_timeout=30)[topic].result(60)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
            return True

        waiting.until(f"{topic} is made", made, 60, KafkaException)
        for broker in self.processes:
            waiting.until(
                f"broker {broker} knows all partitions of {topic}",
                lambda broker=broker: self._known_to(broker, topic) == partitions,
            )
        self.until_whole(topic, factor)

    def _known_to(self, broker: int, topic: str) -> int:
        """Returns the number of partitions of a topic in the Metadata response of a broker."""
        with self.connect(broker) as connection:
            known = connection.call("Metadata", 1, topics=None)["topics"]
        return sum(len(each["partitions"]) for each in known if each["name"] == topic)

    def partitions(self, topic: str) -> Partitions:
        known = self.admin().list_topics(topic, timeout=10).topics[topic]
        return {index: (each.leader, list(each.isrs)) for index, each in known.partitions.items()}

    def until_whole(self, topic: str, factor: int, within_s: float = 90.0) -> Partitions:
        """Waits until each partition has a leader and ``factor`` in-sync replicas. Returns the
        partitions."""

        def whole() -> Partitions:
            found = self.partitions(topic)
            assert found
            assert all(leader >= 0 for leader, _ in found.values()), found
            assert all(len(isr) == factor for _, isr in found.values()), found
            return found

        return waiting.until(f"{topic} is whole", whole, within_s)

    def until_led(self, topic: str, without: int, within_s: float = 60.0) -> Partitions:
        """Waits until broker ``without`` leads no partition of the topic. Returns the
        partitions."""

        def led() -> Partitions:
            found = self.partitions(topic)
            assert found
            assert all(leader not in (-1, without) for leader, _ in found.values()), found
            return found

        return waiting.until(f"{topic} is led by others than {without}", led, within_s)

    def logs(self, topic: str, partition: int) -> dict[int, bytes]:
        """Returns for each broker the bytes of all segments of a partition."""
        found = {}
        for broker in self.kinds:
            files = sorted((self.directory(broker) / f"{topic}-{partition}").glob("*.log"))
            if files:
                found[broker] = b"".join(file.read_bytes() for file in files)
        return found

    def told(self) -> str:
        """Returns the last output lines of all brokers, for the message of a failed test."""
        return "\n".join(
            f"--- broker {broker}\n{self.log(broker).read_text(errors='replace')[-3000:]}"
            for broker in self.kinds
            if self.log(broker).exists()
        )


@contextmanager
def running(
    folder: Path,
    kinds: Mapping[int, str],
    settings: Mapping[str, str] | None = None,
) -> Iterator[ZooKeeperCluster]:
    """Starts a cluster and yields it when all brokers run. The first broker is the controller.
    Stops the cluster at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    with zookeeper_process(folder / "zookeeper") as (address, process):
        cluster = ZooKeeperCluster(folder, address, kinds, settings, process)
        first, *others = kinds
        try:
            cluster.start(first)
            cluster.until_brokers({first})
            cluster.nodes.start(30)
            for broker in others:
                cluster.start(broker)
            assert cluster.until_brokers(set(kinds)) == first
            yield cluster
        except BaseException:
            print(cluster.told())
            raise
        finally:
            cluster.nodes.stop()
            cluster.nodes.close()
            for broker_process in cluster.processes.values():
                broker_process.kill()
            for broker_process in cluster.processes.values():
                broker_process.wait()
