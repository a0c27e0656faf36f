"""Consumer groups (KIP-848) with programs of Apache Kafka 4.3.1: VerifiableConsumer, console
consumer, `kafka-consumer-groups` and `kafka-configs`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from time import time

import pytest

from tests import java, waiting
from tests.brokers import Broker, make_broker, running
from tests.interop.cluster import Cluster, Feed
from tests.interop.programs import Program, ending, java_program
from tests.interop.verifiable_consumers import QUICK, VerifiableGroup, described

pytestmark = pytest.mark.interop
PARTITIONS = 6
TOOLS = "org.apache.kafka.tools"
PATTERN_CONSUMER = Path(__file__).parent / "programs" / "PatternConsumer.java"


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Yields a broker with settings by which consumer groups rebalance within a second."""
    broker = make_broker(tmp_path_factory.mktemp("quick") / "data", QUICK)
    with running(broker):
        yield broker


def tool(broker: Broker, main_class: str, *arguments: str, code: int = 0) -> str:
    """Runs a tool of Kafka 4.3.1 and returns its output."""
    done = java.run(java.KAFKA_NEW, main_class, "--bootstrap-server", broker.bootstrap, *arguments)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + (done.stderr if code else "")


def groups(broker: Broker, *words: str) -> str:
    """Runs `kafka-consumer-groups` and returns its output. Each string may contain several
    options."""
    arguments = [word for words_ in words for word in words_.split()]
    return tool(broker, f"{TOOLS}.consumer.group.ConsumerGroupCommand", *arguments)


def configs(broker: Broker, *words: str, code: int = 0) -> str:
    """Runs `kafka-configs` and returns its output. Each string may contain several options."""
    arguments = [word for words_ in words for word in words_.split()]
    return tool(broker, java.config_command(), *arguments, code=code)


def table(text: str) -> list[dict[str, str]]:
    """Returns the rows of a table that a tool has printed, by column title."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    start = next(i for i, line in enumerate(lines) if line[0] in ("GROUP", "TOPIC"))
    return [dict(zip(lines[start], row, strict=False)) for row in lines[start + 1 :]]


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_java_group_consumes_all_records_when_members_and_broker_are_killed(
    brokers: Callable[..., Broker], name: str, tmp_path: Path, assignor: str
) -> None:
    broker = brokers(QUICK)
    cluster = Cluster(broker.bootstrap)
    cluster.create_topic(name, PARTITIONS)
    feed = Feed(broker.bootstrap, name, PARTITIONS)
    feed.send(60)
    option = ("--group-remote-assignor", assignor) if assignor != "uniform" else ()
    with VerifiableGroup(broker.bootstrap, f"{name}-group", name, tmp_path) as group:
        a, b = group.start("a", *option), group.start("b", *option)
        found = group.balanced(3, 3)
        assert found.assignor == assignor
        if assignor == "range":
            assert sorted(sorted(p for _, p in member.assigned) for member in (a, b)) == [
                [0, 1, 2],
                [3, 4, 5],
            ]
        group.until_read(cluster.end_offsets(name, PARTITIONS))

        moves = a.moves + b.moves
        broker.kill()
        broker.start()
        assert waiting.until("it is served", lambda: described(cluster, group.group)) == found
        feed.send(30)
        group.until_read(cluster.end_offsets(name, PARTITIONS))
        assert a.moves + b.moves == moves, group.story()

        assert a.stop(20) in (0, 143), a.story()
        assert a.assigned == set()
        left = group.balanced(6)
        assert left.epoch > found.epoch
        c = group.start("c", *option)
        group.balanced(3, 3)
        feed.send(30)
        group.until_read(cluster.end_offsets(name, PARTITIONS))
        b.kill()
        feed.send(30)
        group.balanced(6)
        group.until_read(cluster.end_offsets(name, PARTITIONS))
        assert c.stop(20) in (0, 143), c.story()
        assert described(cluster, group.group).state == "Empty"
    assert len(group.seen()) == len(set(group.seen())), "records were seen twice"


def test_console_consumer_with_a_regex_reads_topics_that_are_created_later(
    quick: Broker, name: str
) -> None:
    cluster = Cluster(quick.bootstrap)
    cluster.create_topic(f"{name}-1", 2)
    cluster.create_topic(f"other-{name}", 1)
    Feed(quick.bootstrap, f"other-{name}", 1).send(2)
    expected = set(Feed(quick.bootstrap, f"{name}-1", 2).send(10))
    properties = {
        "group.id": name,
        "group.protocol": "consumer",
        "auto.offset.reset": "earliest",
        "metadata.max.age.ms": "500",
    }
    consumer = java_program(
        java.KAFKA_NEW,
        f"{TOOLS}.consumer.ConsoleConsumer",
        *("--bootstrap-server", quick.bootstrap, "--include", f"{name}-.*"),
        *(part for k, v in properties.items() for part in ("--command-property", f"{k}={v}")),
    )
    with ending(consumer):
        consumer.until("the records are read", lambda: expected <= set(consumer.lines), 30)
        cluster.create_topic(f"{name}-2", 3)
        expected |= set(Feed(quick.bootstrap, f"{name}-2", 3).send(9))
        consumer.until("the new topic is read", lambda: expected <= set(consumer.lines), 30)
        [member] = described(cluster, name).members.values()
        assert member.names == (f"{name}-1", f"{name}-2"), "the client matches its regex itself"
        assert len(member.assigned) == 5
        consumer.stop(20)
    assert sorted(consumer.lines) == sorted(expected)
    assert sum(cluster.committed(name).values()) == 19


def test_subscription_pattern_of_java_reads_topics_that_the_broker_matches(
    quick: Broker, name: str
) -> None:
    cluster = Cluster(quick.bootstrap)
    cluster.create_topic(f"{name}-1", 2)
    cluster.create_topic(f"other-{name}-1", 1)
    Feed(quick.bootstrap, f"other-{name}-1", 1).send(2)
    regex = f"{name}-[0-9]+"

    def lines(topic: str, partitions: int, count: int) -> set[str]:
        return {f"{topic} {v}" for v in Feed(quick.bootstrap, topic, partitions).send(count)}

    expected = lines(f"{name}-1", 2, 10)
    arguments = (quick.bootstrap, name, regex)
    consumer = Program("pattern", java.source(java.KAFKA_NEW, PATTERN_CONSUMER, *arguments))
    with ending(consumer):
        consumer.until("the records are read", lambda: expected <= set(consumer.lines), 30)
        [member] = described(cluster, name).members.values()
        assert (member.names, member.regex) == ((), regex)
        assert member.assigned == {(f"{name}-1", 0), (f"{name}-1", 1)}
        cluster.create_topic(f"{name}-2", 3)  # found at most 10 s after the last resolution
        expected |= lines(f"{name}-2", 3, 9)
        consumer.until("the new topic is read", lambda: expected <= set(consumer.lines), 30)
        consumer.stop(20)
    assert sorted(consumer.lines) == sorted(expected)


def test_consumer_groups_tool_describes_but_cannot_reset_a_group_with_members(
    quick: Broker, name: str, tmp_path: Path
) -> None:
    cluster = Cluster(quick.bootstrap)
    cluster.create_topic(name, PARTITIONS)
    feed = Feed(quick.bootstrap, name, PARTITIONS)
    feed.send(18)
    group_id = f"{name}-group"
    of_group = f"--group {group_id}"
    with VerifiableGroup(quick.bootstrap, group_id, name, tmp_path) as group:
        group.start("a", "--group-instance-id", "first")
        group.start("b")
        found = group.balanced(3, 3)
        group.until_read(cluster.end_offsets(name, PARTITIONS))

        listed = {
            row["GROUP"]: row for row in table(groups(quick, "--list --state --type consumer"))
        }
        assert (listed[group_id]["TYPE"], listed[group_id]["STATE"]) == ("Consumer", "Stable")
        assert group_id not in groups(quick, "--list --type classic")
        assert group_id in groups(quick, "--list --state stable")

        rows = table(groups(quick, "--describe --offsets", of_group))
        assert {row["PARTITION"]: row["LAG"] for row in rows} == dict.fromkeys("012345", "0")
        assert {row["CURRENT-OFFSET"] for row in rows} == {"3"}
        assert {row["CLIENT-ID"] for row in rows} == {"a", "b"}

        plain = groups(quick, "--describe --members", of_group)
        for member_id, member in found.members.items():
            instance = "first" if member.client_id == "a" else ""
            row = rf"{member_id}\s+{instance}\s*/127\.0\.0\.1\s+{member.client_id}\s+3\s"
            assert re.search(row, plain), plain
        verbose = groups(quick, "--describe --members --verbose", of_group)
        for member in found.members.values():
            held = ",".join(str(p) for _, p in sorted(member.assigned))
            line = next(x for x in verbose.splitlines() if f" {member.client_id} " in x)
            assert line.count(f"{name}:{held}") == 2, "the current and the target assignment"
            assert re.search(rf"\s{member.epoch}\s", line), line
            assert ("first" in line) == (member.client_id == "a")

        state = groups(quick, "--describe --state", of_group)
        assert re.search(
            rf"{group_id}\s+127.0.0.1:{quick.port}\s+\(1\)\s+uniform\s+Stable\s+2", state
        )
        state = groups(quick, "--describe --state --verbose", of_group)
        epochs = rf"{found.epoch}\s+{found.assignment_epoch}"
        assert re.search(rf"uniform\s+Stable\s+{epochs}\s+2", state), state

        to_earliest = f"--reset-offsets {of_group} --topic {name} --to-earliest --execute"
        assert "can only be reset if the group" in groups(quick, to_earliest)
        assert "GroupNotEmptyException" in groups(quick, "--delete", of_group)
        refused = groups(quick, "--delete-offsets", of_group, f"--topic {name}:1")
        assert "GROUP_SUBSCRIBED_TO_TOPIC" in refused or "subscribed to" in refused, refused
        assert cluster.committed(group_id) == cluster.end_offsets(name, PARTITIONS)


def test_consumer_groups_tool_resets_and_deletes_offsets_of_an_empty_group(
    quick: Broker, name: str, tmp_path: Path
) -> None:
    cluster = Cluster(quick.bootstrap)
    cluster.create_topic(name, 2)
    feed = Feed(quick.bootstrap, name, 2)
    feed.send(8)
    group_id = f"{name}-group"
    of_group = f"--group {group_id}"
    with VerifiableGroup(quick.bootstrap, group_id, name, tmp_path) as group:
        member = group.start("a")
        group.until_read(cluster.end_offsets(name, 2))
        member.stop(20)
        assert f"{group_id} Consumer Empty".split() in [
            line.split() for line in groups(quick, "--list --state --type").splitlines()
        ]
        moved = groups(
            quick, f"--reset-offsets {of_group} --topic {name}:0 --to-offset 1 --execute"
        )
        assert table(moved) == [
            {"GROUP": group_id, "TOPIC": name, "PARTITION": "0", "NEW-OFFSET": "1"}
        ]
        groups(quick, f"--reset-offsets {of_group} --topic {name}:1 --shift-by -2 --execute")
        assert cluster.committed(group_id) == {(name, 0): 1, (name, 1): 2}
        assert described(cluster, group_id).state == "Empty", "it is still a consumer group"
        again = group.start("again")
        group.until_read(cluster.end_offsets(name, 2))
        assert sorted(again.seen) == [
            (name, 0, 1),
            (name, 0, 2),
            (name, 0, 3),
            (name, 1, 2),
            (name, 1, 3),
        ]
        again.stop(20)
    deleted = groups(quick, "--delete-offsets", of_group, f"--topic {name}:1")
    assert table(deleted) == [{"TOPIC": name, "PARTITION": "1", "STATUS": "Successful"}]
    assert cluster.committed(group_id) == {(name, 0): 4}
    assert "was successful" in groups(quick, "--delete", of_group)
    assert group_id not in groups(quick, "--list").split()
    assert cluster.committed(group_id) == {}


def test_kafka_configs_changes_the_session_timeout_of_one_group(
    quick: Broker, name: str, tmp_path: Path
) -> None:
    Cluster(quick.bootstrap).create_topic(name, 2)
    group_id = f"{name}-group"
    entity = f"--entity-type groups --entity-name {group_id}"
    assert "consumer.session" not in configs(quick, entity, "--describe")
    configs(quick, entity, "--alter --add-config consumer.session.timeout.ms=2000")
    assert "consumer.session.timeout.ms=2000" in configs(quick, entity, "--describe")
    every = configs(quick, "--entity-type groups --describe")
    assert f"configs for group {group_id}" in every or group_id in every
    refused = configs(
        quick, entity, "--alter --add-config consumer.session.timeout.ms=999999", code=1
    )
    assert "InvalidConfigurationException" in refused, refused
    with VerifiableGroup(quick.bootstrap, group_id, name, tmp_path) as group:
        a, b = group.start("a"), group.start("b")
        group.balanced(1, 1)
        killed = time()
        a.kill()
        group.balanced(2)
        assert time() - killed < 5, "the broker's session timeout is 6 s"
        assert len(b.assigned) == 2
    configs(quick, entity, "--alter --delete-config consumer.session.timeout.ms")
    assert "consumer.session" not in configs(quick, entity, "--describe")
