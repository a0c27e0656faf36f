"""Kafka's admin tools on two clusters: three Muster brokers, and two Muster brokers with one Apache
Kafka 3.9.2."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from time import monotonic

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import ConfigResource

from tests import java, waiting
from tests.cli.running import run
from tests.interop.cluster import Cluster
from tests.interop.programs import Program
from tests.interop.zookeeper_cluster import KAFKA, MUSTER, ZooKeeperCluster, running
from tests.raw_connection import RawConnection

pytestmark = [pytest.mark.interop, pytest.mark.proves("clusters 31")]
TOOLS = "org.apache.kafka.tools"
MOVING = f"{TOOLS}.reassign.ReassignPartitionsCommand"
KINDS: Mapping[str, Mapping[int, str]] = {
    "musters": {1: MUSTER, 2: MUSTER, 3: MUSTER},
    "with kafka": {1: MUSTER, 2: MUSTER, 3: KAFKA},
}


@pytest.fixture(scope="module", params=KINDS)
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ZooKeeperCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with running(folder, KINDS[request.param]) as there:
        yield there


def tool(cluster: ZooKeeperCluster, main_class: str, words: str, code: int = 0) -> str:
    """Runs a tool of Kafka 3.9.2 and returns its output. ``words`` contains all arguments."""
    arguments = ["--bootstrap-server", cluster.bootstrap, *words.split()]
    done = java.run(java.KAFKA_LAST_TO_SERVE_OLD_CLIENTS, main_class, *arguments)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + (done.stderr if code else "")


def topics(cluster: ZooKeeperCluster, words: str, code: int = 0) -> str:
    return tool(cluster, f"{TOOLS}.TopicCommand", words, code)


def replicas(described: str) -> list[list[int]]:
    """Returns the replicas of each partition, in order, from the output of kafka-topics
    --describe."""
    found = re.findall(r"Partition: \d+\tLeader: -?\d+\tReplicas: ([\d,]+)", described)
    return [[int(each) for each in one.split(",")] for one in found]


def known_to_all(cluster: ZooKeeperCluster, name: str, partitions: int) -> None:
    """Waits until each broker knows the partitions of a topic.

    A tool sends its request to an arbitrary broker, which may learn of a change 0.2 s after the
    response of the controller.
    """

    def known(port: int) -> bool:
        broker = Cluster(f"127.0.0.1:{port}")
        asked = {"topics": [{"name": name}], "allow_auto_topic_creation": False}
        (topic,) = broker.call("Metadata", 4, **asked)["topics"]
        return len(topic["partitions"]) == partitions

    for broker, port in cluster.ports.items():
        waiting.until(f"broker {broker} knows {name}", partial(known, port))


def test_kafka_topics_creates_extends_and_deletes_topics(
    cluster: ZooKeeperCluster, name: str
) -> None:
    topics(cluster, f"--create --topic {name} --partitions 6 --replication-factor 3")
    known_to_all(cluster, name, 6)
    created = topics(cluster, f"--describe --topic {name}")
    there = replicas(created)
    assert "ReplicationFactor: 3" in created
    assert all(sorted(each) == [1, 2, 3] for each in there)
    assert sorted(each[0] for each in there) == [1, 1, 2, 2, 3, 3]

    topics(cluster, f"--alter --topic {name} --partitions 8")
    known_to_all(cluster, name, 8)
    grown = replicas(topics(cluster, f"--describe --topic {name}"))
    assert grown[:6] == there
    assert [grown[6][0], grown[7][0]] == [grown[0][0], grown[1][0]]
    topics(cluster, f"--delete --topic {name}")
    waiting.until("it is gone", lambda: name not in topics(cluster, "--list"))


def test_kafka_topics_creates_replicas_at_the_assigned_brokers(
    cluster: ZooKeeperCluster, name: str
) -> None:
    topics(cluster, f"--create --topic {name} --replica-assignment 1:2,2:3")
    known_to_all(cluster, name, 2)
    assert replicas(topics(cluster, f"--describe --topic {name}")) == [[1, 2], [2, 3]]
    topics(cluster, f"--alter --topic {name} --partitions 3 --replica-assignment 1:2,2:3,3:1")
    known_to_all(cluster, name, 3)
    assert replicas(topics(cluster, f"--describe --topic {name}"))[2] == [3, 1]


def test_kafka_topics_reports_rejected_creations(cluster: ZooKeeperCluster, name: str) -> None:
    wide = topics(cluster, f"--create --topic {name} --partitions 1 --replication-factor 4", 1)
    assert "InvalidReplicationFactorException" in wide
    cluster.create(name, 1, 1)
    again = topics(cluster, f"--create --topic {name} --partitions 1", 1)
    assert "TopicExistsException" in again


def test_altered_settings_are_described_by_every_broker(
    cluster: ZooKeeperCluster, name: str
) -> None:
    cluster.create(name, 1, 3)
    change = f"--entity-type topics --entity-name {name} --alter --add-config retention.ms=77000"
    tool(cluster, "kafka.admin.ConfigCommand", change)
    everyone = (
        "--entity-type brokers --entity-default --alter --add-config log.segment.bytes=7777777"
    )
    tool(cluster, "kafka.admin.ConfigCommand", everyone)

    def told(address: str) -> bool:
        words = f"--entity-type topics --entity-name {name} --describe --all"
        arguments = ["--bootstrap-server", address, *words.split()]
        done = java.run(
            java.KAFKA_LAST_TO_SERVE_OLD_CLIENTS, "kafka.admin.ConfigCommand", *arguments
        )
        return "retention.ms=77000 " in done.stdout and "segment.bytes=7777777 " in done.stdout

    for broker, port in cluster.ports.items():
        address = f"127.0.0.1:{port}"
        waiting.until(f"broker {broker} has the settings", lambda at=address: told(at), 60)  # type: ignore[misc]


def test_preferred_replicas_lead_partitions_after_a_reassignment(
    cluster: ZooKeeperCluster, name: str, tmp_path: Path
) -> None:
    topics(cluster, f"--create --topic {name} --replica-assignment 1:2,2:1")
    known_to_all(cluster, name, 2)
    plan = tmp_path / "plan.json"
    wanted = [
        {"topic": name, "partition": 0, "replicas": [3, 1]},
        {"topic": name, "partition": 1, "replicas": [1, 2]},
    ]
    plan.write_text(json.dumps({"version": 1, "partitions": wanted}))
    tool(cluster, MOVING, f"--reassignment-json-file {plan} --execute")

    def done() -> bool:
        said = tool(cluster, MOVING, f"--reassignment-json-file {plan} --verify")
        return said.count("is completed") == 2

    waiting.until("the reassignment is completed", done, 60)
    assert replicas(topics(cluster, f"--describe --topic {name}")) == [[3, 1], [1, 2]]
    election = f"--election-type preferred --topic {name} --partition 1"
    tool(cluster, f"{TOOLS}.LeaderElectionCommand", election)
    waiting.until("the preferred replica leads", lambda: cluster.partitions(name)[1][0] == 1)


RATE = 500_000
"""The throttle of a reassignment, in bytes per second."""
MOVED = 4_000_000


def test_reassignment_respects_its_throttle(
    cluster: ZooKeeperCluster, name: str, tmp_path: Path
) -> None:
    """The third broker is first throttled as a follower, and then as a leader."""
    topics(cluster, f"--create --topic {name} --replica-assignment 1")
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0, "acks": "1"})
    for number in range(MOVED // 10_000):
        producer.produce(name, os.urandom(10_000), str(number), partition=0)
    assert producer.flush(60) == 0
    for broker in (3, 2):
        plan = tmp_path / f"to-{broker}.json"
        wanted = {"topic": name, "partition": 0, "replicas": [broker]}
        plan.write_text(json.dumps({"version": 1, "partitions": [wanted]}))
        move = f"--reassignment-json-file {plan}"
        began = monotonic()
        tool(cluster, MOVING, f"{move} --execute --throttle {RATE}")
        assert throttles(cluster, name), "nothing is throttled"
        waiting.until(
            f"broker {broker} has it",
            lambda to=broker: cluster.partitions(name)[0] == (to, [to]),
            120,
        )
        took = monotonic() - began
        # Kafka applies the throttle after it sends: the first response arrives at once.
        assert took > (MOVED - (1 << 20)) / RATE * 0.9
        said = tool(cluster, MOVING, f"{move} --verify")
        assert "is completed" in said
        waiting.until("nothing is throttled", lambda: throttles(cluster, name) == [])


def throttles(cluster: ZooKeeperCluster, topic: str) -> list[str]:
    """Returns the current throttle settings of a topic and of all brokers."""
    admin = cluster.admin()
    wanted = [ConfigResource(ConfigResource.Type.TOPIC, topic)]
    wanted += [ConfigResource(ConfigResource.Type.BROKER, str(broker)) for broker in cluster.kinds]
    found = [admin.describe_configs([each])[each].result(30) for each in wanted]
    return sorted(
        f"{setting}={entry.value}"
        for entries in found
        for setting, entry in entries.items()
        if "replication.throttled" in setting and entry.value
    )


def test_replica_verification_tool_finds_no_lag(cluster: ZooKeeperCluster, name: str) -> None:
    """The tool reads all replicas continuously, until the test stops it."""
    cluster.create(name, 3, 3)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0, "acks": "all"})
    for number in range(30):
        producer.produce(name, str(number), partition=number % 3)
    assert producer.flush(60) == 0
    words = ["--broker-list", cluster.bootstrap, "--topics-include", name, "--time", "-2"]
    main_class = f"{TOOLS}.ReplicaVerificationTool"
    often = ["--report-interval-ms", "1000"]
    jars = java.KAFKA_LAST_TO_SERVE_OLD_CLIENTS
    verification = Program(main_class, java.command(jars, main_class, *words, *often))
    try:
        verification.until_says(r"max lag is 0 for partition \S+ at offset 10 among 3 partitions")
    finally:
        verification.kill()


def old(cluster: ZooKeeperCluster, main_class: str, words: str) -> str:
    """Runs a tool of Kafka 0.10.2.2 and returns its output. Such a tool writes to ZooKeeper
    itself."""
    arguments = ["--zookeeper", cluster.zookeeper, *words.split()]
    done = java.run(java.KAFKA_OLD, f"kafka.admin.{main_class}", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_topic_changes_that_old_tools_write_to_zookeeper_take_effect(
    cluster: ZooKeeperCluster, name: str, tmp_path: Path
) -> None:
    old(cluster, "TopicCommand", f"--create --topic {name} --replica-assignment 1:2,2:1")
    cluster.until_whole(name, 2)
    assert replicas(old(cluster, "TopicCommand", f"--describe --topic {name}")) == [[1, 2], [2, 1]]
    old(cluster, "TopicCommand", f"--alter --topic {name} --partitions 3")
    grown = waiting.until(
        "there is one more",
        lambda: len(cluster.partitions(name)) == 3 and cluster.until_whole(name, 2),
    )
    assert {index: leader for index, (leader, _) in grown.items() if index < 2} == {0: 1, 1: 2}

    change = f"--entity-type topics --entity-name {name} --alter --add-config retention.ms=66000"
    old(cluster, "ConfigCommand", change)
    settings = f"--entity-type topics --entity-name {name} --describe"

    def told() -> bool:
        return "retention.ms=66000 " in tool(cluster, "kafka.admin.ConfigCommand", settings)

    waiting.until("the settings are told", told, 60)

    plan = tmp_path / "plan.json"
    wanted = [{"topic": name, "partition": 0, "replicas": [3, 2]}]
    plan.write_text(json.dumps({"version": 1, "partitions": wanted}))
    old(cluster, "ReassignPartitionsCommand", f"--reassignment-json-file {plan} --execute")
    waiting.until("it has moved", lambda: sorted(cluster.partitions(name)[0][1]) == [2, 3], 60)
    old(cluster, "PreferredReplicaLeaderElectionCommand", "")
    waiting.until("the preferred leads", lambda: cluster.partitions(name)[0][0] == 3, 60)
    old(cluster, "TopicCommand", f"--delete --topic {name}")
    waiting.until("it is gone", lambda: name not in cluster.admin().list_topics(timeout=10).topics)


def test_quotas_and_credentials_that_old_tools_write_take_effect(
    cluster: ZooKeeperCluster,
) -> None:
    """The tools only write to ZooKeeper. Kafka 3.9.2 also applies credentials that it finds in
    ZooKeeper."""
    alter = "--alter --entity-type"
    rates = "producer_byte_rate=100000000,consumer_byte_rate=100000000"
    secret = "SCRAM-SHA-256=[iterations=4096,password=never-told]"
    old(cluster, "ConfigCommand", f"{alter} clients --entity-name app --add-config {rates}")
    both = "users --entity-name a*~b --entity-type clients --entity-default"
    old(cluster, "ConfigCommand", f"{alter} {both} --add-config {rates}")
    old(cluster, "ConfigCommand", f"{alter} users --entity-name alice --add-config {secret}")

    def quotas() -> set[tuple[tuple[str, str | None], ...]]:
        """Returns the entities with quotas that a Muster broker describes."""
        with RawConnection(cluster.ports[1]) as connection:
            found = connection.call("DescribeClientQuotas", 1, components=[], strict=False)
        return {
            tuple((part["entity_type"], part["entity_name"]) for part in entry["entity"])
            for entry in found["entries"]
        }

    def users() -> set[str]:
        with RawConnection(cluster.ports[1]) as connection:
            found = connection.call("DescribeUserScramCredentials", 0, users=None)
        return {each["user"] for each in found["results"]}

    wanted = {(("client-id", "app"),), (("user", "a*~b"), ("client-id", None))}
    waiting.until("quotas are known", lambda: quotas() == wanted, 60)
    waiting.until("the user is known", lambda: users() == {"alice"}, 60)

    def faults() -> list[object]:
        checked = run("cluster", "check", "--json", "-b", cluster.bootstrap)
        return list(checked.json["faults"])

    waiting.until("nothing is wrong", lambda: faults() == [], 60)
    assert "stored_key" not in cluster.log(1).read_text()
    for entity, names in (
        ("clients --entity-name app", "producer_byte_rate,consumer_byte_rate"),
        (both, "producer_byte_rate,consumer_byte_rate"),
        ("users --entity-name alice", "SCRAM-SHA-256"),
    ):
        old(cluster, "ConfigCommand", f"{alter} {entity} --delete-config {names}")
    waiting.until("no quota is left", lambda: quotas() == set(), 60)
    waiting.until("no user is left", lambda: users() == set(), 60)


def newest(
    cluster: ZooKeeperCluster, main_class: str, words: str, text_in: str = "", command: str = ""
) -> str:
    """Runs an admin tool of Kafka 4.3.1 and returns its output. The subcommand ``command`` precedes
    the options."""
    arguments = [*command.split(), "--bootstrap-server", cluster.bootstrap, *words.split()]
    done = java.run(java.KAFKA_NEW, main_class, *arguments, text_in=text_in)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_tools_of_kafka_4_3_1_change_topics_and_leaders(
    cluster: ZooKeeperCluster, name: str, tmp_path: Path
) -> None:
    there = f"--topic {name}"
    command = f"{TOOLS}.TopicCommand"
    newest(cluster, command, f"--create {there} --replica-assignment 1:2,2:1")
    known_to_all(cluster, name, 2)
    entity = f"--entity-type topics --entity-name {name}"
    alter = f"{entity} --alter --add-config retention.ms=55000"
    newest(cluster, java.config_command(), alter)

    def is_described() -> bool:
        found = newest(cluster, command, f"--describe {there}")
        assert replicas(found) == [[1, 2], [2, 1]]
        return "retention.ms=55000" in found

    waiting.until("the broker that is asked has the setting", is_described)

    plan = tmp_path / "plan.json"
    wanted = [{"topic": name, "partition": 0, "replicas": [3, 1]}]
    plan.write_text(json.dumps({"version": 1, "partitions": wanted}))
    newest(cluster, MOVING, f"--reassignment-json-file {plan} --execute")

    def done() -> bool:
        said = newest(cluster, MOVING, f"--reassignment-json-file {plan} --verify")
        return "is completed" in said and "No partition reassignments" in newest(
            cluster, MOVING, "--list"
        )

    waiting.until("the reassignment is completed", done, 90)
    waiting.until("all replicas are in sync", lambda: cluster.until_whole(name, 2))
    election = f"--election-type preferred {there} --partition 0"
    newest(cluster, f"{TOOLS}.LeaderElectionCommand", election)
    # The command returns when the controller has elected; brokers learn of the election a moment
    # later.
    waiting.until("the preferred replica leads", lambda: cluster.partitions(name)[0][0] == 3)
    newest(cluster, command, f"--delete {there}")
    assert name not in newest(cluster, command, "--list")


def test_tools_of_kafka_4_3_1_produce_consume_and_describe(
    cluster: ZooKeeperCluster, name: str
) -> None:
    cluster.create(name, 2, 3)
    values = [f"value-{number}" for number in range(20)]
    lines = "".join(f"{value}\n" for value in values)
    newest(cluster, f"{TOOLS}.ConsoleProducer", f"--topic {name}", lines)
    group = f"--group {name}"
    read = newest(
        cluster,
        f"{TOOLS}.consumer.ConsoleConsumer",
        f"--topic {name} {group} --from-beginning --max-messages 20 --timeout-ms 60000",
    )
    assert sorted(read.split()) == sorted(values)

    ends = newest(cluster, f"{TOOLS}.GetOffsetShell", f"--topic {name}")
    assert sum(int(line.rsplit(":", 1)[1]) for line in ends.split()) == len(values)
    described = newest(
        cluster, f"{TOOLS}.consumer.group.ConsumerGroupCommand", f"--describe {group}"
    )
    lags = re.findall(rf"^{name} +{name} +\d +\d+ +\d+ +(\d+)", described, re.MULTILINE)
    assert set(lags) == {"0"}
    assert name in newest(cluster, f"{TOOLS}.consumer.group.ConsumerGroupCommand", "--list")

    directories = newest(cluster, f"{TOOLS}.LogDirsCommand", f"--describe --topic-list {name}")
    told = json.loads(directories.splitlines()[-1])["brokers"]
    sizes = {each["broker"]: each["logDirs"][0]["partitions"] for each in told}
    assert {broker: len(partitions) for broker, partitions in sizes.items()} == {1: 2, 2: 2, 3: 2}


def test_tools_of_kafka_4_3_1_describe_the_cluster(cluster: ZooKeeperCluster) -> None:
    identity = newest(cluster, f"{TOOLS}.ClusterTool", "", command="cluster-id")
    assert cluster.node("/cluster/id")["id"] in identity
    versions = newest(cluster, f"{TOOLS}.BrokerApiVersionsCommand", "")
    for broker, port in cluster.ports.items():
        assert f"127.0.0.1:{port} (id: {broker}" in versions
    assert "Producer" in newest(cluster, f"{TOOLS}.TransactionsCommand", "list")
