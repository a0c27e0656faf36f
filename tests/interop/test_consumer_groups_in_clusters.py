"""Consumer groups (KIP-848) with consumers of librdkafka, in clusters on a real ZooKeeper."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from tests import java, waiting
from tests.interop.cluster_failures import controller_moves_to
from tests.interop.zookeeper_cluster import KAFKA, MUSTER, ZooKeeperCluster, running

pytestmark = pytest.mark.interop

TOPIC, GROUP, PARTITIONS = "orders", "g", 6
UNSUPPORTED_VERSION = 35
LEVEL = "group.version=1"


def features(cluster: ZooKeeperCluster, *words: str) -> str:
    """Runs kafka-features.sh of Kafka 4.3.1. Returns its output, also if it fails."""
    done = java.run(
        java.KAFKA_NEW,
        "org.apache.kafka.tools.FeatureCommand",
        "--bootstrap-server",
        cluster.bootstrap,
        *words,
    )
    return done.stdout + done.stderr


def consumer(cluster: ZooKeeperCluster, name: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": GROUP,
            "group.protocol": "consumer",
            "client.id": name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )


class Member(Thread):
    """A consumer that commits each record after it has processed it."""

    def __init__(self, cluster: ZooKeeperCluster, name: str) -> None:
        super().__init__(daemon=True)
        self.values: list[bytes] = []
        self.committed: list[tuple[float, int, int]] = []
        """The time, partition and offset of each acknowledged commit."""
        self.owned: set[int] = set()
        self.errors: list[str] = []
        self.stopping = False
        self._consumer = consumer(cluster, name)
        self._consumer.subscribe(
            [TOPIC], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )

    def _assigned(self, _: Consumer, partitions: list[Any]) -> None:
        self.owned |= {each.partition for each in partitions}

    def _revoked(self, _: Consumer, partitions: list[Any]) -> None:
        self.owned -= {each.partition for each in partitions}

    def run(self) -> None:
        while not self.stopping:
            message = self._consumer.poll(0.1)
            if message is None:
                continue
            if message.error():
                self.errors.append(str(message.error()))
                continue
            self.values.append(message.value() or b"")
            try:
                done = self._consumer.commit(message=message, asynchronous=False)
            except KafkaException:
                continue  # a later commit includes this record
            self.committed += [(time.monotonic(), each.partition, each.offset) for each in done]
        self._consumer.close()


@contextmanager
def group(cluster: ZooKeeperCluster, size: int) -> Iterator[list[Member]]:
    members = [Member(cluster, f"member-{each}") for each in range(size)]
    for member in members:
        member.start()
    try:
        yield members
    finally:
        for member in members:
            member.stopping = True
        for member in members:
            member.join(30)


def coordinator(cluster: ZooKeeperCluster) -> int:
    """Returns the coordinator of the group, as a running broker reports it."""
    with cluster.connect(next(iter(cluster.processes))) as connection:
        return int(connection.call("FindCoordinator", 2, key=GROUP, key_type=0)["node_id"])


def offsets(cluster: ZooKeeperCluster) -> dict[int, int]:

    def fetched() -> Any:
        with cluster.connect(coordinator(cluster)) as connection:
            asked = {"group_id": GROUP, "topics": None, "require_stable": True}
            reply = connection.call("OffsetFetch", 7, **asked)
        return reply["topics"] if reply["error_code"] == 0 else None

    topics = waiting.until("the coordinator is loaded", fetched, 30)
    return {
        each["partition_index"]: each["committed_offset"]
        for topic in topics
        for each in topic["partitions"]
    }


def is_shared(members: list[Member]) -> bool:
    """Returns True if each partition has one owner and each member owns a partition."""
    owned = sorted(each for member in members for each in member.owned)
    return owned == list(range(PARTITIONS)) and all(member.owned for member in members)


def test_no_commit_is_lost_when_the_coordinator_of_a_consumer_group_is_killed(
    tmp_path: Path,
) -> None:
    with running(tmp_path, {1: MUSTER, 2: MUSTER, 3: MUSTER}) as cluster:
        cluster.create(TOPIC, PARTITIONS, 3)
        assert "was upgraded to 1" in features(cluster, "upgrade", "--feature", LEVEL)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        sent: list[bytes] = []

        def send(count: int) -> None:
            for _ in range(count):
                value = b"%d" % len(sent)
                producer.produce(TOPIC, value, partition=len(sent) % PARTITIONS)
                sent.append(value)
            assert producer.flush(30) == 0

        with group(cluster, 2) as members:
            waiting.until("the partitions are shared", lambda: is_shared(members), 30)
            send(200)
            killed = coordinator(cluster)
            cluster.kill(killed)
            before = offsets_acknowledged(members)
            cluster.until_gone(killed)
            found = offsets(cluster)
            assert all(found[partition] >= offset for partition, offset in before.items())
            assert coordinator(cluster) != killed
            send(200)
            waiting.until(
                "all records are consumed",
                lambda: {each for member in members for each in member.values} >= set(sent),
                30,
            )
            assert is_shared(members)
        at_end = offsets(cluster)
        assert sum(at_end.values()) == len(sent)
        last: dict[int, int] = defaultdict(int)
        for _, partition, offset in sorted(
            commit for member in members for commit in member.committed
        ):
            assert offset >= last[partition]
            last[partition] = offset
        assert not any(member.errors for member in members), [each.errors for each in members]


def offsets_acknowledged(members: list[Member]) -> dict[int, int]:
    """Returns the highest acknowledged offset of each partition."""
    found: dict[int, int] = defaultdict(int)
    for member in members:
        for _, partition, offset in list(member.committed):
            found[partition] = max(found[partition], offset)
    return found


def test_cluster_cannot_have_group_version_1_and_a_kafka_3_9_broker_together(
    tmp_path: Path,
) -> None:
    """Kafka 3.9 does not support the feature group.version. While a Kafka 3.9 broker is registered,
    the level of the feature cannot be raised to 1. While the level of the feature is 1, a Kafka 3.9
    broker does not start."""
    with running(tmp_path, {1: MUSTER, 2: KAFKA}, {"min.insync.replicas": "1"}) as cluster:
        refused = features(cluster, "upgrade", "--feature", LEVEL)
        assert "Broker 2 does not support this feature." in refused
        controller_moves_to(cluster, 2)
        refused = features(cluster, "upgrade", "--feature", LEVEL)
        assert "the provided feature is not supported" in refused
        assert cluster.registered() == {1, 2}
        cluster.stop(2)
        cluster.until_gone(2)
        waiting.until("Muster is the controller", lambda: cluster.controller() == 1, 30)
        assert "was upgraded to 1" in features(cluster, "upgrade", "--feature", LEVEL)
        cluster.start(2)
        assert cluster.processes.pop(2).wait(30) == 1
        assert "feature=group.version, reason='Unsupported feature'" in cluster.log(2).read_text()
