"""Special cases of the lag that `muster groups lag`, `groups describe` and `offsets get` print."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cli.client import group_member
from cli.client.cluster import Cluster as Commands
from cli.errors import FOUND
from tests.brokers import Broker
from tests.cli.running import Ran, run
from tests.interop.cluster import Cluster, Feed
from tests.waiting import until

pytestmark = pytest.mark.interop

RECORDS = 6


@pytest.fixture
def topic(broker: Broker, name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Creates a topic with two partitions of six records each. Sets MUSTER_BOOTSTRAP to the
    broker's address."""
    monkeypatch.setenv("MUSTER_BOOTSTRAP", broker.bootstrap)
    Cluster(broker.bootstrap).create_topic(name, 2)
    Feed(broker.bootstrap, name, 2).send(2 * RECORDS)
    return name


def trim(broker: Broker, topic: str, partition: int, start: int) -> None:
    asked = {"name": topic, "partitions": [{"partition_index": partition, "offset": start}]}
    answer = Cluster(broker.bootstrap).call("DeleteRecords", 1, topics=[asked], timeout_ms=20000)
    assert answer["topics"][0]["partitions"][0]["error_code"] == 0


def commit(group: str, *offsets: str) -> None:
    line = ("offsets", "set", group, *offsets, "--force", "--execute")
    until("the offsets are committed", lambda: run(*line).code == 0)


@pytest.fixture
def outside(broker: Broker, topic: str) -> str:
    """Commits two offsets of a group: one above the log end offset of partition 0, and one below
    the log start offset of partition 1. Returns the group id."""
    commit(topic, f"{topic}:0=10006", f"{topic}:1=1")
    trim(broker, topic, 1, 4)
    return topic


def test_every_lag_table_marks_committed_offsets_outside_the_log(outside: str) -> None:
    [above, below] = run("groups", "lag", outside, "--json").json
    [described] = run("groups", "describe", outside, "--json").json
    table = run("groups", "lag", outside).out
    got = run("offsets", "get", outside, "--json").json

    assert (above["lag"], above["lost_records"], above["verdict"]) == (-10_000, 0, "OUT_OF_RANGE")
    assert (below["lag"], below["lost_records"], below["verdict"]) == (2, 3, "OUT_OF_RANGE")
    assert [row["lag"] for row in described["offsets"]] == [-10_000, 2]
    assert [(row["lag"], row["lost_records"]) for row in got] == [(-10_000, 0), (2, 3)]
    assert table.count("OUT_OF_RANGE") == 2
    assert "-10000" in table


def test_groups_lag_with_fail_above_fails_when_a_committed_offset_is_outside_the_log(
    outside: str,
) -> None:
    line = ("groups", "lag", outside, "--fail-above", "1000000")
    total = run("groups", "lag", outside, "--total", "--json").json

    assert [(row["lag"], row["out_of_range"]) for row in total] == [(2, 2)]
    for found in (run(*line), run(*line, "--total")):
        assert found.code == FOUND
        assert f"offsets are outside the log: {outside}" in found.err


def test_lag_table_has_no_lost_records_column_when_all_offsets_are_in_their_logs(
    topic: str,
) -> None:
    commit(topic, f"{topic}:0=2", f"{topic}:1=6")

    assert "LOST-RECORDS" not in run("groups", "lag", topic).out
    assert "LOST-RECORDS" not in run("offsets", "get", topic).out


@pytest.fixture
def reader(broker: Broker, topic: str) -> Iterator[group_member.GroupMember]:
    """Yields a member that owns both partitions and has committed an offset of partition 0 only."""
    commands = Commands(broker.bootstrap)
    member = group_member.GroupMember(commands, topic, [topic])
    try:
        member.join()
        assert member.commit({(topic, 0): RECORDS})
        yield member
        member.leave()
    finally:
        commands.close()


def lag_above_0(group: str) -> Ran:
    return run("groups", "lag", group, "--fail-above", "0")


@pytest.mark.usefixtures("reader")
def test_lag_without_a_committed_offset_is_0_only_when_the_partition_is_empty(
    broker: Broker, topic: str
) -> None:
    unread = lag_above_0(topic)
    trim(broker, topic, 1, RECORDS)
    empty = lag_above_0(topic)
    [_, never] = run("groups", "lag", topic, "--json").json

    assert unread.code == FOUND, "a log with records but without a committed offset has unknown lag"
    assert empty.code == 0, empty.err
    assert (never["committed"], never["lag"]) == (None, 0)


def test_group_that_never_committed_has_unknown_lag(broker: Broker, topic: str) -> None:
    member = group_member.GroupMember(Commands(broker.bootstrap), topic, [topic])
    member.join()
    [owned] = run("groups", "list", topic, "--json").json
    member.leave()
    until("it is empty", lambda: run("groups", "list", topic, "--json").json[0]["state"] == "Empty")
    [listed] = run("groups", "list", topic, "--json").json
    [total] = run("groups", "lag", topic, "--total", "--json").json
    checks = [lag_above_0(topic), run("groups", "lag", topic, "--total", "--fail-above", "9")]

    assert (owned["lag"], listed["lag"], total["lag"]) == (None, None, None)
    for each in checks:
        assert each.code == FOUND
        assert f"lag is unknown: {topic}" in each.err
