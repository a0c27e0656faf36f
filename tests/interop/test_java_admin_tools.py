"""Apache's admin tools on a running broker, for configs, topics, records, log directories and
offsets."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import java
from tests.brokers import Broker
from tests.interop.cluster import Cluster, Feed

pytestmark = pytest.mark.interop
TOOLS = "org.apache.kafka.tools"


def tool(broker: Broker, main_class: str, *arguments: str, code: int = 0) -> str:
    """Runs a tool of Kafka 4.3.1 and returns its output."""
    done = java.run(java.KAFKA_NEW, main_class, "--bootstrap-server", broker.bootstrap, *arguments)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + (done.stderr if code else "")


def configs(broker: Broker, *words: str, code: int = 0) -> str:
    """Runs `kafka-configs` and returns its output. Each string may contain several options."""
    arguments = [word for words_ in words for word in words_.split()]
    return tool(broker, java.config_command(), *arguments, code=code)


def told(text: str) -> dict[str, tuple[str, list[str]]]:
    """Parses the output of `kafka-configs --describe`. Returns the value of each setting, and the
    sources of its synonyms."""
    return {
        name: (value, re.findall(r"([A-Z_]+):[\w.]+=", synonyms))
        for name, value, synonyms in re.findall(
            r"^  ([\w.]+)=(.*) sensitive=(?:true|false) synonyms=\{(.*)\}$", text, re.MULTILINE
        )
    }


def test_kafka_configs_alters_and_describes_topics(broker: Broker, name: str) -> None:
    Cluster(broker.bootstrap).create_topic(name, 2)
    topic = f"--entity-type topics --entity-name {name}"

    configs(broker, topic, "--alter --add-config retention.ms=9000,cleanup.policy=[compact,delete]")
    assert told(configs(broker, topic, "--describe")) == {
        "cleanup.policy": ("compact,delete", ["DYNAMIC_TOPIC_CONFIG", "DEFAULT_CONFIG"]),
        "retention.ms": ("9000", ["DYNAMIC_TOPIC_CONFIG"]),
    }
    configs(broker, topic, "--alter --delete-config cleanup.policy --add-config segment.ms=8000")
    everything = told(configs(broker, topic, "--describe --all"))
    assert len(everything) > 30
    assert everything["cleanup.policy"] == ("delete", ["DEFAULT_CONFIG"])
    assert everything["segment.ms"][0] == "8000"
    refused = configs(broker, topic, "--alter --add-config retention.ms=soon", code=1)
    assert "InvalidConfigurationException" in refused


def test_kafka_configs_alters_and_describes_brokers(brokers: Callable[..., Broker]) -> None:
    broker = brokers()
    one, every = "--entity-type brokers --entity-name 1", "--entity-type brokers --entity-default"

    configs(broker, one, "--alter --add-config log.retention.ms=9000,max.connections=500")
    configs(broker, every, "--alter --add-config log.retention.ms=8000")
    assert told(configs(broker, one, "--describe")) == {
        "log.retention.ms": (
            "9000",
            ["DYNAMIC_BROKER_CONFIG", "DYNAMIC_DEFAULT_BROKER_CONFIG", "DEFAULT_CONFIG"],
        ),
        "max.connections": ("500", ["DYNAMIC_BROKER_CONFIG", "DEFAULT_CONFIG"]),
    }
    of_every_one = told(configs(broker, every, "--describe"))
    assert of_every_one["log.retention.ms"] == ("8000", ["DYNAMIC_DEFAULT_BROKER_CONFIG"])
    configs(broker, one, "--alter --delete-config log.retention.ms,max.connections")
    assert told(configs(broker, one, "--describe")) == {}
    refused = configs(broker, one, "--alter --add-config num.partitions=3", code=1)
    assert re.search("Cannot update .*dynamically", refused)


def test_get_offsets_shows_the_start_offset_that_delete_records_set(
    broker: Broker, name: str, tmp_path: Path
) -> None:
    Cluster(broker.bootstrap).create_topic(name, 2)
    Feed(broker.bootstrap, name, 2).send(10)

    def offsets(*arguments: str) -> dict[str, str]:
        text = tool(broker, f"{TOOLS}.GetOffsetShell", "--topic", name, *arguments)
        return {line.split(":")[1]: line.split(":")[2] for line in text.split()}

    assert offsets() == {"0": "5", "1": "5"}
    file = tmp_path / "offsets.json"
    wanted = [
        {"topic": name, "partition": 0, "offset": 3},
        {"topic": name, "partition": 1, "offset": -1},
    ]
    file.write_text(json.dumps({"partitions": wanted, "version": 1}))
    said = tool(broker, f"{TOOLS}.DeleteRecordsCommand", "--offset-json-file", str(file))
    assert re.search(rf"partition: {name}-0\s+low_watermark: 3", said), said
    assert re.search(rf"partition: {name}-1\s+low_watermark: 5", said), said
    assert offsets("--time", "earliest") == {"0": "3", "1": "5"}


def test_kafka_log_dirs_shows_the_sizes_of_partitions(broker: Broker, name: str) -> None:
    Cluster(broker.bootstrap).create_topic(name, 2)
    Feed(broker.bootstrap, name, 2).send(10)

    said = tool(broker, f"{TOOLS}.LogDirsCommand", "--describe", "--topic-list", name)

    (answer,) = (json.loads(line) for line in said.splitlines() if line.startswith("{"))
    (of_broker,) = answer["brokers"]
    (directory,) = of_broker["logDirs"]
    assert directory["logDir"] == str(broker.data.resolve())
    assert directory["error"] is None
    sizes = {entry["partition"]: entry["size"] for entry in directory["partitions"]}
    assert set(sizes) == {f"{name}-0", f"{name}-1"}
    assert all(sizes.values())


def test_kafka_topics_describes_altered_topics(broker: Broker, name: str) -> None:
    Cluster(broker.bootstrap).create_topic(name, 2)
    topic = ("--topic", name)
    tool(broker, f"{TOOLS}.TopicCommand", "--alter", *topic, "--partitions", "3")
    configs(broker, f"--entity-type topics --entity-name {name} --alter --add-config flush.ms=5000")

    said = tool(broker, f"{TOOLS}.TopicCommand", "--describe", *topic)

    assert re.search(r"PartitionCount: 3\s+ReplicationFactor: 1\s+Configs: .*flush.ms=5000", said)
    assert len(re.findall(r"Leader: 1\s+Replicas: 1\s+Isr: 1", said)) == 3


def test_election_and_reassignment_tools_report_no_pending_work(broker: Broker, name: str) -> None:
    Cluster(broker.bootstrap).create_topic(name, 1)

    elected = tool(
        broker,
        f"{TOOLS}.LeaderElectionCommand",
        "--election-type",
        "preferred",
        "--topic",
        name,
        "--partition",
        "0",
    )
    assert f"Valid replica already elected for partitions {name}-0" in elected
    moving = tool(broker, f"{TOOLS}.reassign.ReassignPartitionsCommand", "--list")
    assert "No partition reassignments found" in moving
