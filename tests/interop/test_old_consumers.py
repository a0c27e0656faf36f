"""The old consumer (0.8 to 0.10) of Apache Kafka 0.10.2.2 on two Muster brokers and one Kafka
broker.

The old consumer needs no coordinator. Members, partition owners and offsets are nodes in ZooKeeper,
and brokers serve only records. With ``offsets.storage=kafka``, the consumer also commits to the
group coordinator.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from kazoo.client import KazooClient

from protocol.znodes import consumers
from tests import java, waiting
from tests.cli.running import run
from tests.interop.programs import Program
from tests.interop.zookeeper_cluster import KAFKA, MUSTER, ZooKeeperCluster, running
from tests.wire import Wire

pytestmark = pytest.mark.interop
PARTITIONS = 3
RECORDS = 10
"""The number of records that each call of `write` adds to each partition."""
KAFKAS_WAY = {"offsets.storage": "kafka", "dual.commit.enabled": "true"}
GIVEN = "--consumer-property"
FIRST, SECOND = "c10", "c2"
"""Consumer names whose order as strings differs from their order as numbers."""
CLUSTERS = [
    pytest.param({1: MUSTER, 2: KAFKA, 3: MUSTER}, id="a Kafka among Musters"),
    pytest.param(dict.fromkeys((1, 2, 3), MUSTER), id="three Musters", marks=pytest.mark.soak),
]


class OldConsumer(Program):
    """A console consumer of Kafka 0.10.2.2 that uses ZooKeeper. It prints the value of each record
    as a line."""

    def __init__(self, scene: Scene, name: str, *words: str, **config: str) -> None:
        properties = {
            "group.id": scene.group,
            "consumer.id": name,
            "auto.commit.interval.ms": "200",
            "rebalance.backoff.ms": "500",
            # The consumer gives up when the other consumer takes longer to release partitions.
            "rebalance.max.retries": "60",
            **config,
        }
        given = [
            word for each in properties.items() for word in ("--consumer-property", "=".join(each))
        ]
        where = ["--zookeeper", scene.cluster.zookeeper, "--topic", scene.topic]
        main = "kafka.tools.ConsoleConsumer"
        super().__init__(name, java.command(java.KAFKA_OLD, main, *where, *given, *words))


class Scene:
    """A topic with three partitions, a group and its nodes in ZooKeeper, and the produced
    values."""

    def __init__(self, cluster: ZooKeeperCluster, nodes: KazooClient, name: str) -> None:
        self.cluster = cluster
        self.nodes = nodes
        self.topic = self.group = name
        self.written: list[list[str]] = [[] for _ in range(PARTITIONS)]
        self._started: list[OldConsumer] = []
        cluster.create(name, PARTITIONS, 3)

    def start(self, name: str, *words: str, **config: str) -> OldConsumer:
        """Starts a consumer of the group. The consumer is killed at the end of the test."""
        self._started.append(OldConsumer(self, name, *words, **config))
        return self._started[-1]

    def kill(self) -> None:
        for each in self._started:
            each.kill()

    def write(self) -> None:
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap, "log_level": 0})
        for partition, before in enumerate(self.written):
            new = [f"{partition}-{len(before) + number}" for number in range(RECORDS)]
            for value in new:
                producer.produce(self.topic, value.encode(), partition=partition)
            before.extend(new)
        assert producer.flush(30) == 0

    @property
    def all_written(self) -> list[str]:
        """Returns all produced values, partition by partition."""
        return [value for values in self.written for value in values]

    def until_owned(self, **owned: list[int]) -> None:
        wanted = {
            partition: f"{self.group}_{name}-0"
            for name, each in owned.items()
            for partition in each
        }

        def so() -> bool:
            found = {
                partition: self.nodes.get(path)[0].decode()
                for partition in range(PARTITIONS)
                if self.nodes.exists(
                    path := consumers.owner_path(self.group, self.topic, partition)
                )
            }
            assert found == wanted
            return True

        waiting.until(f"partitions are owned as {owned}", so, 120)

    def until_in_zookeeper(self) -> None:
        """Waits until the consumer has committed all produced records to ZooKeeper: the offset node
        of each partition contains the log end offset as decimal text."""

        def so() -> bool:
            assert self.in_zookeeper() == [b"%d" % len(values) for values in self.written]
            return True

        waiting.until("all that was read is committed to ZooKeeper", so, 30)

    def in_zookeeper(self) -> list[bytes]:
        """Returns the content of the offset nodes in ZooKeeper."""
        return [
            self.nodes.get(consumers.offset_path(self.group, self.topic, partition))[0]
            for partition in range(PARTITIONS)
        ]

    def described(self) -> list[tuple[int, int, int, int, str]]:
        """Returns offset, log end offset, lag and owner of each partition, from the output of
        Kafka's old ConsumerGroupCommand."""
        words = ["--zookeeper", self.cluster.zookeeper, "--describe", "--group", self.group]
        done = java.run(java.KAFKA_OLD, "kafka.admin.ConsumerGroupCommand", *words)
        assert done.returncode == 0, done.stdout + done.stderr
        rows = re.findall(rf"^{self.topic} +(.+?) *$", done.stdout, re.MULTILINE)
        found = [row.split() for row in rows]
        return sorted((*map(int, row[:4]), row[4]) for row in found)  # type: ignore[misc]

    def in_kafka(self) -> list[int]:
        """Returns the offsets that the coordinator has stored, or -1 for a partition without an
        offset."""
        asked = [{"name": self.topic, "partition_indexes": list(range(PARTITIONS))}]
        with Wire(self.cluster.ports[coordinator(self.cluster, self.group)]) as wire:
            answer = wire.call("OffsetFetch", 1, {"group_id": self.group, "topics": asked})
        partitions = answer["topics"][0]["partitions"]
        assert {each["error_code"] for each in partitions} == {0}
        return [each["committed_offset"] for each in partitions]

    def fetched(self, broker: int) -> list[int]:
        """Returns the offsets in the OffsetFetch version 0 response of a broker."""
        asked = [{"name": self.topic, "partition_indexes": list(range(PARTITIONS))}]
        with Wire(self.cluster.ports[broker]) as wire:
            answer = wire.call("OffsetFetch", 0, {"group_id": self.group, "topics": asked})
        return [each["committed_offset"] for each in answer["topics"][0]["partitions"]]

    def commit(self, broker: int, version: int, offsets: list[int]) -> None:
        entries = [
            {"partition_index": index, "committed_offset": offset, "committed_metadata": "dropped"}
            for index, offset in enumerate(offsets)
        ]
        topics = [{"name": self.topic, "partitions": entries}]
        with Wire(self.cluster.ports[broker]) as wire:
            asked = {"group_id": self.group, "member_id": "", "topics": topics}
            answer = wire.call("OffsetCommit", version, asked)
        assert {each["error_code"] for each in answer["topics"][0]["partitions"]} == {0}


@pytest.fixture(scope="module", params=CLUSTERS)
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ZooKeeperCluster]:
    with running(tmp_path_factory.mktemp("old"), request.param) as there:
        waiting.until("groups are coordinated", lambda: coordinator(there, "nobody"))
        there.until_whole("__consumer_offsets", 3)
        yield there


@pytest.fixture
def scene(cluster: ZooKeeperCluster, name: str) -> Iterator[Scene]:
    nodes = KazooClient(cluster.zookeeper)
    nodes.start()
    made = Scene(cluster, nodes, name)
    try:
        yield made
    finally:
        made.kill()
        nodes.stop()
        nodes.close()


def until_read(read: dict[OldConsumer, list[str]]) -> None:
    """Waits until each consumer has read exactly its values in ``read``, in order within each
    partition."""
    for consumer, values in read.items():
        consumer.until(
            f"{consumer.name} has read all",
            lambda consumer=consumer, values=values: len(consumer.lines) >= len(values),
            120,
        )
        by_partition = [
            [value for value in consumer.lines if value.startswith(f"{partition}-")]
            for partition in range(PARTITIONS)
        ]
        assert [value for each in by_partition for value in each] == values, consumer.story()


@pytest.mark.proves("clusters 28")
def test_old_consumers_share_partitions_and_replace_a_stopped_consumer(scene: Scene) -> None:
    """The old consumers sort consumer ids as strings. The offset nodes in ZooKeeper contain the
    next offset as text."""
    scene.write()
    first = scene.start(FIRST, "--from-beginning")
    scene.until_owned(**{FIRST: [0, 1, 2]})
    until_read({first: scene.all_written})
    scene.until_in_zookeeper()
    assert [scene.fetched(broker) for broker in (1, 2, 3)] == [[RECORDS] * PARTITIONS] * 3
    registered = scene.nodes.get(f"{consumers.ids_path(scene.group)}/{scene.group}_{FIRST}")[0]
    member = consumers.decode_member(scene.group, FIRST, registered)
    assert member.subscription == {scene.topic: 1}

    second = scene.start(SECOND)
    scene.until_owned(**{FIRST: [0, 1], SECOND: [2]})
    scene.write()
    zero, one, two = scene.written
    until_read({first: zero + one + two[:RECORDS], second: two[RECORDS:]})
    scene.until_in_zookeeper()
    assert scene.described() == [
        (partition, 2 * RECORDS, 2 * RECORDS, 0, f"{scene.group}_{owner}")
        for partition, owner in enumerate((FIRST, FIRST, SECOND))
    ]

    first.stop()
    scene.until_owned(**{SECOND: [0, 1, 2]})
    scene.write()
    until_read({second: zero[2 * RECORDS :] + one[2 * RECORDS :] + two[RECORDS:]})
    scene.until_in_zookeeper()
    second.stop()
    assert not scene.nodes.get_children(consumers.ids_path(scene.group))


def test_old_consumer_continues_when_a_leader_is_killed(scene: Scene) -> None:
    """The consumer cannot parse a Metadata version 0 response if a partition names a broker that
    the broker list of the response does not contain. The test kills broker 2, so that only Muster
    brokers can answer."""
    scene.write()
    consumer = scene.start(FIRST, "--from-beginning")
    until_read({consumer: scene.all_written})

    scene.cluster.kill(2)
    try:
        scene.write()
        until_read({consumer: scene.all_written})
        consumer.stop()
    finally:
        scene.cluster.start(2)
        scene.cluster.until_whole(scene.topic, PARTITIONS)
        scene.cluster.until_whole("__consumer_offsets", 3)


def test_commit_of_version_0_writes_zookeeper_nodes_at_every_broker(scene: Scene) -> None:
    for broker in scene.cluster.kinds:
        scene.commit(broker, 0, [broker, 10 * broker, 100 * broker])
        assert scene.in_zookeeper() == [b"%d" % broker, b"%d0" % broker, b"%d00" % broker]
        found = [scene.fetched(each) for each in scene.cluster.kinds]
        assert found == [[broker, 10 * broker, 100 * broker]] * 3
    assert scene.in_kafka() == [-1] * PARTITIONS


def test_old_consumer_with_dual_commit_continues_at_the_higher_committed_offset(
    scene: Scene,
) -> None:
    scene.write()
    consumer = scene.start(FIRST, "--from-beginning", **KAFKAS_WAY)
    until_read({consumer: scene.all_written})
    scene.until_in_zookeeper()
    waiting.until("Kafka has it too", lambda: scene.in_kafka() == [RECORDS] * PARTITIONS)
    consumer.stop()

    scene.nodes.set(consumers.offset_path(scene.group, scene.topic, 0), b"4")
    scene.commit(coordinator(scene.cluster, scene.group), 2, [10, 4, 10])
    assert scene.in_kafka() == [10, 4, 10]
    scene.write()
    again = scene.start(FIRST, **KAFKAS_WAY)
    until_read({again: [value for each in scene.written for value in each[RECORDS:]]})
    scene.until_in_zookeeper()
    waiting.until("Kafka has it too", lambda: scene.in_kafka() == [2 * RECORDS] * PARTITIONS)
    again.stop()


def test_group_migrates_from_zookeeper_to_kafka_while_its_consumers_read(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the command writes its plan into the working directory
    scene.write()
    old = scene.start(FIRST, "--from-beginning")
    until_read({old: scene.all_written})
    scene.until_in_zookeeper()

    # The group is reported as running; the offsets that are moved now are a first part.
    assert "still commits to ZooKeeper with 1 consumer" in migrate(scene)
    assert scene.in_kafka() == [RECORDS] * PARTITIONS
    scene.write()
    until_read({old: scene.all_written})
    scene.until_in_zookeeper()
    old.stop()

    assert "3 behind" in migrate(scene)
    scene.write()
    newer = Consumer(
        {
            "bootstrap.servers": scene.cluster.bootstrap,
            "log_level": 0,
            "group.id": scene.group,
            "auto.offset.reset": "error",
        }
    )
    try:
        newer.subscribe([scene.topic])
        messages = newer.consume(PARTITIONS * RECORDS, 30)
        assert [each.error() for each in messages] == [None] * PARTITIONS * RECORDS
        values = sorted((each.value() or b"").decode() for each in messages)
        assert values == sorted(value for each in scene.written for value in each[2 * RECORDS :])
    finally:
        newer.close()
    assert scene.in_kafka() == [3 * RECORDS] * PARTITIONS


def migrate(scene: Scene) -> str:
    """Runs the migration of the group's offsets and returns the output of the command."""
    words = ["--zookeeper", scene.cluster.zookeeper, "-b", scene.cluster.bootstrap]
    ran = run("pipeline", "migrate", *words, scene.group, "--execute")
    assert ran.code == 0, ran.err
    return ran.err


def coordinator(cluster: ZooKeeperCluster, group: str) -> int:
    with Wire(cluster.ports[1]) as wire:
        answer = wire.call("FindCoordinator", 0, {"key": group})
    assert answer["error_code"] == 0
    return int(answer["node_id"])
