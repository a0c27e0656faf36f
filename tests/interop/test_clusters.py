"""Clusters of three on a real ZooKeeper, of Musters alone and beside Apache Kafka 3.9.2.

Each broker is killed in turn under a producer and a group: nothing that was acknowledged is missing
or doubled, the group goes on, and in the end all replicas are the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer

from tests import waiting
from tests.interop.zookeeper_cluster import KAFKA, MUSTER, ZooKeeperCluster, running

pytestmark = pytest.mark.interop

TOPIC = "orders"
PARTITIONS = 3
RECORDS = 300
"""Written between two kills."""

CLUSTERS = {
    "three Musters": {1: MUSTER, 2: MUSTER, 3: MUSTER},
    "a Kafka among Musters": {1: MUSTER, 2: MUSTER, 3: KAFKA},
    "a Muster among Kafkas, first controller": {1: MUSTER, 2: KAFKA, 3: KAFKA},
}


class Written:
    """A producer of distinct values, and those that were acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: list[bytes] = []
        self.refused: list[str] = []
        self._next = 0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "log_level": 0,
                "acks": "all",
                "enable.idempotence": True,
            }
        )

    def write(self, count: int) -> None:
        """Writes records and waits until each is acknowledged or refused."""
        for _ in range(count):
            self._producer.produce(TOPIC, b"%d" % self._next, on_delivery=self._delivered)
            self._producer.poll(0)
            self._next += 1
        assert self._producer.flush(90) == 0, "records wait for their acknowledgement"
        assert self.refused == []

    def _delivered(self, error: object, message: Message) -> None:
        if error is None:
            value = message.value()
            assert isinstance(value, bytes)
            self.acknowledged.append(value)
        else:
            self.refused.append(str(error))


class Read:
    """A consumer of a group, and all that it has read."""

    def __init__(self, bootstrap: str) -> None:
        self.values: list[bytes] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "log_level": 0,
                "group.id": "billing",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        self._consumer.subscribe([TOPIC])

    def until(self, count: int) -> None:
        """Reads until so many records are read."""

        def enough() -> bool:
            for message in self._consumer.consume(500, 0.5):
                value = message.value()
                if message.error() is None and isinstance(value, bytes):
                    self.values.append(value)
            assert len(self.values) >= count, f"{len(self.values)} of {count} are read"
            return True

        waiting.until("all records are read", enough, 90)

    def commit(self) -> None:
        """Commits what was read; the coordinator may be moving."""
        waiting.until("a commit is taken", lambda: bool(self._consumer.commit(asynchronous=False)))

    def close(self) -> None:
        """Leaves the group."""
        self._consumer.close()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kinds", CLUSTERS.values(), ids=CLUSTERS.keys())
def test_each_broker_is_killed_in_turn_and_nothing_is_lost(
    kinds: Mapping[int, str], tmp_path: Path
) -> None:
    with running(tmp_path, kinds) as cluster:
        cluster.create(TOPIC, PARTITIONS, 3)
        written, read = Written(cluster.bootstrap), Read(cluster.bootstrap)
        written.write(RECORDS)
        read.until(RECORDS)
        for broker in kinds:
            cluster.kill(broker)
            written.write(RECORDS)
            read.until(len(written.acknowledged))
            read.commit()
            cluster.until_led(TOPIC, without=broker)
            cluster.start(broker)
            cluster.until_brokers(set(kinds))
            cluster.until_whole(TOPIC, 3)
        read.close()
        assert sorted(read.values) == sorted(written.acknowledged)
        assert len(set(written.acknowledged)) == RECORDS * 4
        _stop_all(cluster)
        for partition in range(PARTITIONS):
            logs = cluster.logs(TOPIC, partition)
            assert len(logs) == 3
            assert len(set(logs.values())) == 1, {each: len(log) for each, log in logs.items()}


def _stop_all(cluster: ZooKeeperCluster) -> None:
    for broker in list(cluster.processes):
        cluster.stop(broker)
