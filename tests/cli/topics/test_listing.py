"""`muster topics list` and `describe`: records, bytes and groups of topics."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from cli.client.cluster import Cluster, Connection
from cli.client.group_member import GroupMember
from client.connection import Value
from tests.cli.running import run
from tests.cli.topics.committing import commit

pytestmark = pytest.mark.interop


@pytest.fixture
def shop(bootstrap: str, name: str) -> str:
    """Creates a topic NAME-orders with three records and an empty topic NAME-empty. Returns their
    common prefix."""
    run("topics", "create", f"{name}-orders", "-p", "2", "-c", "retention.ms=86400000")
    run("topics", "create", f"{name}-empty")
    run("produce", f"{name}-orders", "-p", "0", "-v", "a")
    run("produce", f"{name}-orders", "-p", "1", "-v", "b", "-v", "c")
    return name


def test_topics_are_listed_with_records_and_bytes(shop: str) -> None:
    rows = run("topics", "list", f"{shop}-*", "--json").json

    assert [row["topic"] for row in rows] == [f"{shop}-empty", f"{shop}-orders"]
    assert [row["records"] for row in rows] == [0, 3]
    assert rows[0]["bytes"] == 0
    assert rows[1]["bytes"] > 100


def test_topics_list_shows_the_number_of_groups_and_its_json_has_the_group_names(
    bootstrap: str, shop: str
) -> None:
    commit(f"{shop}-idle", f"{shop}-orders:0=1", f"{shop}-orders:1=2")
    member = GroupMember(Cluster(bootstrap), f"{shop}-live", [f"{shop}-orders"])
    try:
        member.join()
        rows = run("topics", "list", f"{shop}-*", "--groups", "--json").json
        table = run("topics", "list", f"{shop}-*", "--groups", "--sort", "groups").out
        [described] = run("topics", "describe", f"{shop}-orders", "--groups", "--json").json
    finally:
        member.leave()

    idle = {"group": f"{shop}-idle", "offsets": 2, "members": 0}
    live = {"group": f"{shop}-live", "offsets": 0, "members": 1}
    assert [row["groups"] for row in rows] == [[], [idle, live]]
    assert described["groups"] == [idle, live]
    cells = [line.split() for line in table.splitlines()]
    assert (cells[0][-2], cells[1][0], cells[1][-2]) == ("GROUPS", f"{shop}-orders", "2")


def test_sort_by_bytes_lists_the_largest_topics_first(shop: str) -> None:
    rows = run("topics", "list", f"{shop}-*", "--sort", "bytes", "--top", "1", "--json").json

    assert [row["topic"] for row in rows] == [f"{shop}-orders"]


def test_topics_describe_shows_offsets_bytes_and_settings(shop: str) -> None:
    [described] = run("topics", "describe", f"{shop}-ord*", "--json").json
    first = run("topics", "describe", f"{shop}-ord*", "--sort", "records").out.splitlines()

    assert described["configs"] == {"retention.ms": "86400000"}
    assert described["records"] == 3
    assert described["bytes"] == sum(p["bytes"] for p in described["partitions"]) > 0
    assert [(p["start_offset"], p["end_offset"]) for p in described["partitions"]] == [
        (0, 1),
        (0, 2),
    ]
    assert "  3 records  " in first[0]
    assert [line.split()[0] for line in first[2:]] == ["1", "0"]


@pytest.mark.parametrize("command", ["list", "describe"])
def test_topics_command_fails_when_a_topic_name_is_unknown(shop: str, command: str) -> None:
    ran = run("topics", command, f"{shop}-orders", f"{shop}-*x", f"{shop}-none")

    assert (ran.code, ran.out) == (1, "")
    assert f"topic {shop}-none and topics like {shop}-*x: not found" in ran.err


def test_internal_topics_are_listed_only_with_the_option_internal(shop: str) -> None:
    commit(shop, f"{shop}-orders:0=1")
    plain = {row["topic"] for row in run("topics", "list", "--json").json}
    internal = {row["topic"] for row in run("topics", "list", "--internal", "--json").json}

    assert "__consumer_offsets" in internal - plain


def test_number_of_requests_does_not_depend_on_the_number_of_topics(
    shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: Counter[str] = Counter()
    call = Connection.call

    def counts(connection: Connection, api: str, *more: Any) -> Value:
        asked[api] += 1
        return call(connection, api, *more)

    run("topics", "create", *(f"{shop}-{number}" for number in range(20)))
    monkeypatch.setattr(Connection, "call", counts)
    assert len(run("topics", "list", f"{shop}-*", "--json").json) == 22
    assert asked == {"Metadata": 1, "ListOffsets": 2, "DescribeLogDirs": 1}

    asked.clear()
    assert len(run("topics", "describe", f"{shop}-*", "--json").json) == 22
    assert asked == {"Metadata": 1, "ListOffsets": 2, "DescribeLogDirs": 1, "DescribeConfigs": 1}
