"""Client commands in separate processes, as a user runs them: output and exit codes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from cli.client.cluster import Cluster, Connection, parse_address
from cli.client.group_member import REBALANCE_TIMEOUT_MS, GroupMember
from cli.client.offsets_at import LATEST, Partition, offsets_at
from cli.errors import CommandError
from offsets.partitioner import partition_for
from tests.brokers import CHECKOUT, KIND, Broker, free_port
from tests.waiting import until

pytestmark = pytest.mark.interop

OFFSETS_TOPIC = "__consumer_offsets"


def muster(
    broker: Broker | str, *words: str, stdin: str = "", code: int = 0
) -> subprocess.CompletedProcess[str]:
    bootstrap = broker if isinstance(broker, str) else broker.bootstrap
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", *words, "--bootstrap", bootstrap],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=CHECKOUT,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def as_json(broker: Broker, *words: str, stdin: str = "") -> Any:
    return json.loads(muster(broker, *words, "--json", stdin=stdin).stdout)


def test_topic_is_created_described_listed_and_deleted(broker: Broker, name: str) -> None:
    made = muster(broker, "topics", "create", name, "-p", "3", "-c", "retention.ms=86400000")
    [described] = as_json(broker, "topics", "describe", name)
    listed = {row["topic"]: row for row in as_json(broker, "topics", "list")}
    deleted = muster(broker, "topics", "delete", name, "--execute")
    gone = muster(broker, "topics", "describe", name, code=1)

    assert made.stdout == f"Created topic {name}\n"
    assert described["configs"] == {"retention.ms": "86400000"}
    assert [p["partition"] for p in described["partitions"]] == [0, 1, 2]
    assert {p["end_offset"] for p in described["partitions"]} == {0}
    assert described["topic_id"]
    assert listed[name]["partitions"] == 3
    assert deleted.stdout.endswith(f"\nDeleted topic {name}\n")
    assert "UNKNOWN_TOPIC_OR_PARTITION" in gone.stderr
    assert "muster topics list" in gone.stderr


def test_topics_create_of_an_existing_topic_fails_without_if_not_exists(
    broker: Broker, name: str
) -> None:
    muster(broker, "topics", "create", name)
    again = muster(broker, "topics", "create", name, code=1)
    fine = muster(broker, "topics", "create", name, "--if-not-exists")

    assert "TOPIC_ALREADY_EXISTS" in again.stderr
    assert fine.stdout == f"Topic {name} already exists\n"


def test_records_with_the_same_key_are_consumed_in_the_order_in_which_they_were_produced(
    broker: Broker, name: str
) -> None:
    muster(broker, "topics", "create", name, "-p", "2")
    said = muster(broker, "produce", name, "--key-separator", ":", stdin="a:one\nb:two\na:three\n")
    read = muster(broker, "consume", name, "--from-beginning", "-n", "3", "--keys")

    assert said.stdout.startswith(f"Produced 3 records to {name} (log end offset of partition ")
    assert sorted(read.stdout.splitlines()) == ["a\tone", "a\tthree", "b\ttwo"]
    assert [line for line in read.stdout.splitlines() if line[0] == "a"] == ["a\tone", "a\tthree"]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batch_is_produced_and_consumed_with_each_compression_codec(
    broker: Broker, name: str, codec: str
) -> None:
    muster(broker, "topics", "create", name, "-p", "1")
    muster(broker, "produce", name, "--compression", codec, stdin="x" * 500 + "\ny\n")
    read = muster(broker, "consume", name, "-o", "1", "-n", "1", "--json")

    record = json.loads(read.stdout)
    assert (record["offset"], record["value"], record["key"]) == (1, "y", None)


@pytest.mark.skipif(KIND == "kafka", reason="Kafka 4 has no message.format.version")
@pytest.mark.parametrize("version", ["0.9.0", "0.10.2"])
def test_records_of_old_message_formats_are_consumed(
    broker: Broker, name: str, version: str
) -> None:
    muster(broker, "topics", "create", name, "-c", f"message.format.version={version}")
    for codec in ("none", "gzip"):
        muster(broker, "produce", name, "--compression", codec, stdin="one\ntwo\n")
    read = muster(broker, "consume", name, "--from-beginning", "-n", "4")

    assert read.stdout == "one\ntwo\n" * 2


def test_consume_with_group_continues_at_the_committed_offsets(broker: Broker, name: str) -> None:
    muster(broker, "topics", "create", name, "-p", "1")
    muster(broker, "produce", name, stdin="1\n2\n3\n4\n")
    group = ["--group", name, "--from-beginning"]
    first = muster(broker, "consume", name, *group, "-n", "3")
    second = muster(broker, "consume", name, *group, "-n", "1")

    [described] = as_json(broker, "groups", "describe", name)
    listed = {row["group"]: row for row in as_json(broker, "groups", "list")}
    empty = {row["group"] for row in as_json(broker, "groups", "list", "--state", "Empty")}
    stable = {row["group"] for row in as_json(broker, "groups", "list", "--state", "Stable")}

    assert first.stdout.split() == ["1", "2", "3"]
    assert second.stdout.split() == ["4"]
    assert described["state"] == "Empty"
    assert described["members"] == []
    [offset] = described["offsets"]
    assert (offset["committed"], offset["end_offset"], offset["lag"]) == (4, 4, 0)
    assert listed[name]["protocol_type"] == "consumer"
    assert name in empty
    assert name not in stable


def test_consume_with_group_commits_only_changed_offsets(
    brokers: Callable[..., Broker], name: str
) -> None:
    broker = brokers()  # on a shared broker, an expiring group could write to the same partition
    muster(broker, "topics", "create", name, "-p", "2")
    cluster = Cluster(broker.bootstrap)
    member = GroupMember(cluster, name, [name])
    try:
        ours = member.join()
        log = (OFFSETS_TOPIC, partition_for(name, len(cluster.leaders([OFFSETS_TOPIC]))))

        def written(positions: dict[Partition, int]) -> int:
            before = offsets_at(cluster, [log], LATEST)[log]
            assert member.commit(positions)
            return offsets_at(cluster, [log], LATEST)[log] - before

        assert ours == [(name, 0), (name, 1)]
        assert written({(name, 0): 0, (name, 1): 0}) == 2
        assert written({(name, 0): 0, (name, 1): 0}) == 0
        assert written({(name, 0): 0, (name, 1): 7}) == 1
        assert member.committed() == {(name, 0): 0, (name, 1): 7}
        assert member.join() == ours
        assert written({(name, 0): 0, (name, 1): 7}) == 2, (
            "after a rebalance the member commits all its offsets"
        )
    finally:
        member.leave()
        cluster.close()


def test_interrupted_consume_leaves_the_group_while_its_join_group_is_parked(
    broker: Broker, name: str
) -> None:
    muster(broker, "topics", "create", name)
    cluster = Cluster(broker.bootstrap)
    silent = GroupMember(cluster, name, [name])
    silent.join()

    def members() -> int:
        silent.beat()  # the member heartbeats but does not rejoin
        [group] = as_json(broker, "groups", "describe", name)
        return len(group["members"])

    def ended() -> bool:
        silent.beat()
        return waiting.poll() is not None

    command = [sys.executable, "-m", "cli.main", "consume", name, "--group", name]
    waiting = subprocess.Popen([*command, "--bootstrap", broker.bootstrap], cwd=CHECKOUT)
    try:
        until("its join waits for the silent member", lambda: members() == 2, within_s=20)
        waiting.send_signal(signal.SIGINT)
        until("it has ended", ended, within_s=REBALANCE_TIMEOUT_MS / 2000)
        assert waiting.returncode == 130
        assert members() == 1
    finally:
        waiting.kill()
        waiting.wait()
        silent.leave()
        cluster.close()


def test_groups_describe_shows_the_partitions_of_each_member(broker: Broker, name: str) -> None:
    muster(broker, "topics", "create", name, "-p", "4")
    command = [sys.executable, "-m", "cli.main", "consume", name, "--group", name]
    command += ["--bootstrap", broker.bootstrap]
    members = [subprocess.Popen(command, cwd=CHECKOUT) for _ in range(2)]
    try:

        def owned() -> bool:
            [group] = as_json(broker, "groups", "describe", name)
            found = [each for member in group["members"] for each in member["partitions"]]
            return sorted(each["partitions"] for each in found) == [[0, 1], [2, 3]]

        assert until("each of two members owns two partitions", owned)
        table = muster(broker, "groups", "describe", name).stdout
    finally:
        for member in members:
            member.terminate()
            member.wait(10)

    assert "MEMBER" in table
    assert "muster-cli" in table


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["groups", "describe", "no-such-group"], 1, "GROUP_ID_NOT_FOUND"),
        (["topics", "delete", "no-such-topic"], 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        (["topics", "create", "bad name"], 1, "INVALID_TOPIC_EXCEPTION"),
        (["topics", "create", "x", "-c", "retention.ms"], 2, "write it as NAME=VALUE"),
        (["produce", "no-such-topic", "-v", "x"], 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        (["produce", "x", "--compression", "rar"], 2, "none, gzip, snappy, lz4, zstd"),
        (["consume", "x", "--offset", "3", "--last", "3"], 2, "choose one of --from-beginning"),
        (["consume", "x:0", "--group", "g"], 2, "omit partitions, --offset"),
    ],
)
def test_client_command_prints_its_error_without_a_traceback(
    broker: Broker, words: list[str], code: int, says: str
) -> None:
    done = muster(broker, *words, code=code)

    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_command_exits_3_when_no_broker_answers() -> None:
    done = muster(f"127.0.0.1:{free_port()}", "topics", "list", code=3)

    assert "no broker answers" in done.stderr
    assert "muster serve" in done.stderr


def test_connection_discards_the_late_response_of_a_timed_out_request(
    broker: Broker, name: str
) -> None:
    """For example, after Ctrl-C `muster consume` sends LeaveGroup before the response to its Fetch
    has arrived."""
    muster(broker, "topics", "create", name)
    host, port = parse_address(broker.bootstrap)
    connection = Connection(host, port, "muster-cli", 30)
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    waits = {
        "replica_id": -1,
        "max_wait_ms": 1000,
        "min_bytes": 1,
        "max_bytes": 1000,
        "isolation_level": 0,
        "topics": [{"topic": name, "partitions": [partition]}],
    }
    try:
        with pytest.raises(CommandError, match="did not respond to Fetch"):
            connection.call("Fetch", waits, timeout_s=0.1)
        answer = connection.call("FindCoordinator", {"key": name, "coordinator_keys": [name]})
        assert answer["coordinators"][0]["key"] == name
    finally:
        connection.close()
