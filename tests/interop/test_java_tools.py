"""Apache's kafka-consumer-groups and kafka-topics on a running broker."""

from __future__ import annotations

import re

import pytest

from tests import java
from tests.brokers import Broker
from tests.interop.cluster import Cluster, Feed
from tests.interop.group_members import Group

pytestmark = pytest.mark.interop
PARTITIONS = 3


def _groups(broker: Broker, *arguments: str) -> str:
    done = java.run(
        java.KAFKA_NEW,
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        "--bootstrap-server",
        broker.bootstrap,
        *arguments,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _table(text: str) -> list[dict[str, str]]:
    """Returns the rows of a table that a tool has printed, by column title."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    start = next(i for i, line in enumerate(lines) if line[0] in ("GROUP", "TOPIC"))
    return [dict(zip(lines[start], row, strict=False)) for row in lines[start + 1 :]]


def _offsets(text: str) -> dict[str, tuple[str, str, str]]:
    """Returns current offset, log end offset and lag of each partition, from the output of
    kafka-consumer-groups."""
    return {
        row["PARTITION"]: (row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"])
        for row in _table(text)
    }


@pytest.mark.smoke
def test_consumer_groups_tool_of_4_3_1_manages_groups(broker: Broker, name: str) -> None:
    cluster = Cluster(broker.bootstrap)
    cluster.create_topic(name, PARTITIONS)
    feed = Feed(broker.bootstrap, name, PARTITIONS)
    group_id = f"{name}-group"
    of_group = ("--group", group_id)
    with Group("confluent", broker.bootstrap, group_id, topics=[name]) as group:
        # The sessions outlast the pause, however slowly the tool starts.
        members = [group.start(each, session_timeout_ms=60_000) for each in "ab"]
        group.balanced(cluster, 1, 2)
        group.until_seen(feed.send(9))
        for member in members:
            member.commit()
        for member in members:
            member.pause()  # records produced from now on stay unread while the command runs
        try:
            feed.send(3)
            offsets = _groups(broker, "--describe", *of_group, "--offsets")
            by_members = _groups(broker, "--describe", *of_group, "--members", "--verbose")
        finally:
            for member in members:
                member.go_on()
        assert _offsets(offsets) == {str(p): ("3", "4", "1") for p in range(PARTITIONS)}
        assert {row["CLIENT-ID"] for row in _table(offsets)} == {"a", "b"}
        assert {row["HOST"] for row in _table(offsets)} == {"/127.0.0.1"}
        rows = {row["CLIENT-ID"]: row for row in _table(by_members)}
        assert sorted(row["#PARTITIONS"] for row in rows.values()) == ["1", "2"]
        assert {row["CURRENT-ASSIGNMENT"] for row in rows.values()} == {f"{name}:0,1", f"{name}:2"}

        group.balanced(cluster, 1, 2)
        state = _groups(broker, "--describe", *of_group, "--state")
        assert re.search(
            rf"{group_id}\s+127\.0\.0\.1:{broker.port}\s+\(\d+\)\s+range\s+Stable\s+2", state
        )
        # Groups of other tests on the shared broker have names that break the tool's lines.
        listed = {
            row["GROUP"]: row.get("STATE") for row in _table(_groups(broker, "--list", "--state"))
        }
        assert listed[group_id] == "Stable"
        refused = _groups(
            broker, "--reset-offsets", *of_group, "--topic", name, "--to-earliest", "--execute"
        )
        assert "can only be reset if the group" in refused
        assert "GroupNotEmptyException" in _groups(broker, "--delete", *of_group)
        group.until_seen(list(feed.sent))
        group.leave_in_turn(cluster, *members)

    reset = _groups(
        broker,
        "--reset-offsets",
        *of_group,
        "--topic",
        f"{name}:0",
        "--to-offset",
        "1",
        "--execute",
    )
    assert _table(reset) == [
        {"GROUP": group_id, "TOPIC": name, "PARTITION": "0", "NEW-OFFSET": "1"}
    ]
    deleted = _groups(broker, "--delete-offsets", *of_group, "--topic", f"{name}:1")
    assert _table(deleted) == [{"TOPIC": name, "PARTITION": "1", "STATUS": "Successful"}]
    assert _offsets(_groups(broker, "--describe", *of_group, "--offsets")) == {
        "0": ("1", "4", "3"),
        "2": ("4", "4", "0"),
    }
    assert "was successful" in _groups(broker, "--delete", *of_group)
    assert group_id not in _groups(broker, "--list").split()


def test_consumer_groups_tool_of_0_10_2_2_describes_groups(
    old_client_broker: Broker, name: str
) -> None:
    cluster = Cluster(old_client_broker.bootstrap)
    cluster.create_topic(name, PARTITIONS)
    feed = Feed(old_client_broker.bootstrap, name, PARTITIONS)
    group_id = f"{name}-group"

    def command(*arguments: str) -> str:
        done = java.run(
            java.KAFKA_OLD,
            "kafka.admin.ConsumerGroupCommand",
            "--new-consumer",
            "--bootstrap-server",
            old_client_broker.bootstrap,
            *arguments,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    with Group("confluent", old_client_broker.bootstrap, group_id, topics=[name]) as group:
        member = group.start("a")
        group.balanced(cluster, PARTITIONS)
        group.until_seen(feed.send(9))
        member.commit()
        assert group_id in command("--list").split()
        rows = _table(command("--describe", "--group", group_id))
        assert _offsets(command("--describe", "--group", group_id)) == {
            str(p): ("3", "3", "0") for p in range(PARTITIONS)
        }
        assert {row["CLIENT-ID"] for row in rows} == {"a"}
        member.leave()


def test_topics_tool_of_4_3_1_manages_topics(broker: Broker, name: str) -> None:
    def topics(*arguments: str) -> str:
        done = java.run(
            java.KAFKA_NEW,
            "org.apache.kafka.tools.TopicCommand",
            "--bootstrap-server",
            broker.bootstrap,
            *arguments,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    topics(
        "--create",
        "--topic",
        name,
        "--partitions",
        "3",
        "--replication-factor",
        "1",
        "--config",
        "retention.ms=3600000",
    )
    described = topics("--describe", "--topic", name)
    assert re.search(
        r"PartitionCount: 3\s+ReplicationFactor: 1\s+Configs: .*retention.ms=3600000", described
    )
    assert len(re.findall(r"Leader: \d+\s+Replicas: \d+\s+Isr: \d+", described)) == 3
    topics("--alter", "--topic", name, "--partitions", "5")
    assert len(Cluster(broker.bootstrap).end_offsets(name, 5)) == 5
    assert name in topics("--list").split()
    topics("--delete", "--topic", name)
    assert name not in topics("--list").split()
