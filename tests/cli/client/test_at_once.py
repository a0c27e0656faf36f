"""Concurrent requests to brokers with `at_once`, and the number of requests for many groups."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from cli.client.at_once import LANES, Call, at_once
from cli.client.cluster import Cluster, Connection
from cli.client.group_reads import GROUPS_AT_ONCE, groups_with_offsets
from cli.client.lag import logs_of, partitions_of
from cli.errors import CommandError
from tests.brokers import Broker
from tests.cli.running import run
from tests.interop.cluster import Cluster as Asked
from tests.waiting import until

Value = dict[str, Any]


class Lane:
    """A connection that returns responses only when the given number of requests are in flight at
    once."""

    def __init__(self, together: threading.Barrier) -> None:
        self.together = together

    def call(self, name: str, value: Value) -> Value:
        if "wrong" in value:
            raise CommandError("refused")
        self.together.wait(20)
        return value


class Lanes:
    """A fake cluster that opens further connections (`Lane`). For each call of `lanes`, ``made``
    has the number of requested connections."""

    def __init__(self, together: int) -> None:
        self.barrier = threading.Barrier(together)
        self.made: list[int] = []

    def lanes(self, connection: Lane, number: int) -> list[Lane]:
        self.made.append(number)
        return [connection, *(Lane(self.barrier) for _ in range(number - 1))]


def ask(cluster: Lanes, values: Iterable[Value]) -> list[Value]:
    lane = Lane(cluster.barrier)
    calls = [Call(lane, "Test", value) for value in values]  # type: ignore[arg-type]
    return at_once(cluster, calls)  # type: ignore[arg-type]


def test_function_at_once_uses_concurrent_connections_and_returns_results_in_call_order() -> None:
    cluster = Lanes(together=LANES)
    values = [{"number": number} for number in range(3 * LANES)]

    assert ask(cluster, values) == values
    assert cluster.made == [LANES]


def test_function_at_once_opens_no_additional_connection_for_a_single_call() -> None:
    cluster = Lanes(together=1)

    assert ask(cluster, [{"number": 1}]) == [{"number": 1}]
    assert cluster.made == []


def test_function_at_once_raises_the_error_of_a_rejected_call() -> None:
    with pytest.raises(CommandError, match="refused"):
        ask(Lanes(together=1), [{"wrong": 1}, *({"number": n} for n in range(50))])


GROUPS = 250
PARTITIONS = 4


@pytest.mark.interop
def test_offsets_of_many_groups_are_fetched_in_batches(
    broker: Broker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command sends one OffsetFetch for each batch of groups, and two ListOffsets to each
    leader."""
    Asked(broker.bootstrap).create_topic(name, PARTITIONS)
    cluster = Cluster(broker.bootstrap)
    asked: Counter[str] = Counter()
    call = Connection.call

    def counted(self: Connection, api: str, *more: Any, **named: Any) -> Value:
        asked[api] += 1
        return call(self, api, *more, **named)

    try:
        groups = [f"{name}-{number}" for number in range(GROUPS)]
        for group in groups:
            until("the offsets are committed", lambda group=group: commit(cluster, group, name))
        monkeypatch.setattr(Connection, "call", counted)
        known = groups_with_offsets(cluster, groups)
        bounds = logs_of(cluster, partitions_of(known))
        reading = dict(asked)
        asked.clear()
        rows = run("groups", "lag", f"{name}-*", "--json", "-b", broker.bootstrap).json
    finally:
        cluster.close()

    assert [len(committed) for _, committed in known.values()] == [PARTITIONS] * GROUPS
    assert len(bounds) == PARTITIONS
    batches = -(-GROUPS // GROUPS_AT_ONCE)
    assert len(rows) == GROUPS * PARTITIONS
    assert asked.total() <= 2 * batches + 12, "no API is called once per group"
    assert reading == {
        "FindCoordinator": 1,
        "DescribeGroups": batches,
        "OffsetFetch": batches,
        "Metadata": 1,
        "ListOffsets": 2,
    }


def commit(cluster: Cluster, group: str, topic: str) -> bool:
    partitions = [
        {
            "partition_index": number,
            "committed_offset": 0,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        for number in range(PARTITIONS)
    ]
    answer = cluster.coordinator(group).call(
        "OffsetCommit",
        {
            "group_id": group,
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": [{"name": topic, "partitions": partitions}],
        },
    )
    return not any(p["error_code"] for t in answer["topics"] for p in t["partitions"])
