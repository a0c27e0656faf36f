"""Share groups (KIP-932) with share consumers of librdkafka, in a cluster on a real ZooKeeper in
which brokers are killed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, KafkaException, Producer, ShareConsumer

from offsets.partitioner import partition_for
from share.persister.values import coordinator_key
from share.values import SharePartitionKey
from tests import waiting
from tests.interop.zookeeper_cluster import MUSTER, ZooKeeperCluster, running

pytestmark = pytest.mark.interop

TOPIC, GROUP, PARTITIONS, STATE_PARTITIONS = "jobs", "g", 2, 4
STATES, OFFSETS = "__share_group_state", "__consumer_offsets"
Place = tuple[int, int]
"""The partition and the offset of a record."""
SETTINGS = {
    "share.coordinator.state.topic.num.partitions": str(STATE_PARTITIONS),
    "group.share.min.heartbeat.interval.ms": "1000",
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.record.lock.duration.ms": "15000",
    "group.share.delivery.count.limit": "10",
}


class Member(Thread):
    """A share consumer that accepts each record, and waits until the broker has stored the
    acknowledgement."""

    def __init__(self, cluster: ZooKeeperCluster, name: str) -> None:
        super().__init__(daemon=True, name=name)
        self.received: list[tuple[float, Place]] = []
        """The time of each delivery, with partition and offset of the record."""
        self.accepted: dict[Place, float] = {}
        """For each accepted record, the time at which the broker confirmed the acknowledgement."""
        self.stopping = False
        self._consumer = ShareConsumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": GROUP,
                "client.id": name,
                "share.acknowledgement.mode": "explicit",
                "log_level": 0,
            }
        )
        self._consumer.subscribe([TOPIC])

    def run(self) -> None:
        while not self.stopping:
            asked_s = time.monotonic()
            places: list[Place] = []
            for message in self._consumer.poll(0.5):
                if message.error() is None:
                    places.append((message.partition(), message.offset()))
                    self._consumer.acknowledge(message, AcknowledgeType.ACCEPT)
            self.received += [(asked_s, place) for place in places]
            if places:
                self._commit(places)
        self._consumer.close()

    def _commit(self, places: list[Place]) -> None:
        try:
            results = self._consumer.commit_sync(60.0)
        except KafkaException:
            return  # the records may be delivered again
        stored = {each.partition for each, error in results.items() if error is None}
        now_s = time.monotonic()
        self.accepted.update({place: now_s for place in places if place[0] in stored})


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


def turn_on(cluster: ZooKeeperCluster) -> None:
    """Raises share.version to 1, and configures the group to start at the first offset."""
    update = {"feature": "share.version", "max_version_level": 1, "upgrade_type": 1}
    setting = {"name": "share.auto.offset.reset", "config_operation": 0, "value": "earliest"}
    resource = {"resource_type": 32, "resource_name": GROUP, "configs": [setting]}
    with cluster.connect(cluster.controller()) as connection:
        asked = {"timeout_ms": 20_000, "feature_updates": [update], "validate_only": False}
        raised = connection.call("UpdateFeatures", 2, **asked)
        assert raised["error_code"] == 0, raised

        def is_set() -> bool:
            changed = connection.call(
                "IncrementalAlterConfigs", 1, resources=[resource], validate_only=False
            )
            return bool(changed["responses"][0]["error_code"] == 0)

        waiting.until("the group has its setting", is_set, 30)
    time.sleep(2)  # every broker follows the settings of groups within a second


def leader_of(cluster: ZooKeeperCluster, topic: str, partition: int) -> int:
    return int(cluster.state(topic, partition)["leader"])


def share_coordinator(cluster: ZooKeeperCluster) -> int:
    with cluster.connect(next(iter(cluster.processes))) as connection:
        asked = [{"topic_id": bytes(16), "name": TOPIC}]
        [topic] = connection.call("Metadata", 12, topics=asked, allow_auto_topic_creation=False)[
            "topics"
        ]
    key = coordinator_key(SharePartitionKey(GROUP, topic["topic_id"], 0))
    return leader_of(cluster, STATES, partition_for(key, STATE_PARTITIONS))


def accepted(members: list[Member]) -> dict[Place, float]:
    """Returns for each record the first time at which the broker confirmed that a member has
    accepted the record."""
    found: dict[Place, float] = {}
    for member in members:
        for place, at_s in list(member.accepted.items()):
            found[place] = min(at_s, found.get(place, at_s))
    return found


@pytest.mark.proves("share 14")
def test_accepted_records_do_not_return_when_brokers_of_a_share_group_are_killed(
    tmp_path: Path,
) -> None:
    with running(tmp_path, {1: MUSTER, 2: MUSTER, 3: MUSTER}, SETTINGS) as cluster:
        cluster.create(TOPIC, PARTITIONS, 3)
        turn_on(cluster)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        sent: set[Place] = set()

        def delivered(error: Any, message: Any) -> None:
            assert error is None, error
            sent.add((message.partition(), message.offset()))

        def send(count: int) -> None:
            for number in range(count):
                producer.produce(TOPIC, b"x", partition=number % PARTITIONS, on_delivery=delivered)
            assert producer.flush(60) == 0

        with group(cluster, 2) as members:

            def all_accepted() -> bool:
                return sent <= accepted(members).keys()

            send(100)
            waiting.until("the first records are accepted", all_accepted, 120)
            for role in (
                lambda: leader_of(cluster, TOPIC, 0),
                lambda: share_coordinator(cluster),
                lambda: leader_of(cluster, OFFSETS, partition_for(GROUP, 4)),
            ):
                killed = role()
                send(200)
                cluster.kill(killed)
                cluster.until_gone(killed)
                send(200)
                cluster.start(killed)
                cluster.until_settled()
            waiting.until("all records are accepted", all_accepted, 120)
        stored = accepted(members)
        again = [
            (member.name, place)
            for member in members
            for asked_s, place in member.received
            if asked_s > stored.get(place, asked_s)
        ]
        assert not again, again
        assert all(member.accepted for member in members)
