"""`muster topics trim`: the records that it deletes, the affected groups, and the result per
partition."""

from __future__ import annotations

from typing import Any

import pytest

from cli.client.cluster import Cluster, Connection
from cli.times import instant
from client.connection import Value
from protocol import errors
from protocol.records.batch import encode_batch
from protocol.records.section import Record
from tests.cli.running import Ran, run
from tests.cli.topics.committing import commit
from tests.waiting import until

pytestmark = pytest.mark.interop

FIRST_MS = 1_700_000_000_000


@pytest.fixture
def orders(bootstrap: str, name: str) -> str:
    """Creates a topic with three partitions of 10, 5 and 0 records, whose timestamps are 1 s apart.
    Returns its name."""
    run("topics", "create", name, "-p", "3")
    for partition, count in ((0, 10), (1, 5)):
        append(bootstrap, name, partition, count)
    return name


def append(bootstrap: str, topic: str, partition: int, count: int) -> None:
    cluster = Cluster(bootstrap)
    records = [Record(i, FIRST_MS + 1000 * i, None, b"v", ()) for i in range(count)]
    data = {"index": partition, "records": encode_batch(records, base_offset=0)}
    asked = {
        "transactional_id": None,
        "acks": -1,
        "timeout_ms": 10_000,
        "topic_data": [{"name": topic, "partition_data": [data]}],
    }
    leader = cluster.leaders([topic])[topic, partition]

    def appended() -> bool:
        answer = leader.call("Produce", asked)
        return answer["responses"][0]["partition_responses"][0]["error_code"] == 0

    assert until("the leader takes records", appended)
    cluster.close()


def starts(topic: str) -> list[int]:
    [described] = run("topics", "describe", topic, "--json").json
    return [each["start_offset"] for each in described["partitions"]]


def news(ran: Ran) -> list[int]:
    return [row["after"] for row in ran.json["changes"]]


def test_topics_trim_plan_names_groups_with_unread_records(
    orders: str,
) -> None:
    commit(orders, f"{orders}:0=2", f"{orders}:1=5")
    plan = run("topics", "trim", orders, "--before-offset", "7", "--dry-run", "--json").json
    shown = run("topics", "trim", orders, "--before-offset", "7", "--dry-run").out
    before = starts(orders)
    ran = run("topics", "trim", orders, "--before-offset", "7", "--execute")

    rows = plan["changes"]
    assert [row["records"] for row in rows] == [7, 5, 0]
    after = "offset 7 is after the log end"
    assert [row["note"] for row in rows] == [None, after, after]
    assert rows[0]["groups"] == [{"group": orders, "committed": 2, "unread": 5}]
    assert rows[1]["groups"] == []
    assert "Groups with committed offsets before the new log start" in shown
    assert before == [0, 0, 0]
    assert ran.out.endswith(f"Trimmed {orders}:0-1: 12 records deleted\n")
    assert starts(orders) == [7, 5, 0]


def test_topics_trim_before_a_time_deletes_older_records_and_prints_the_time(orders: str) -> None:
    when = instant(FIRST_MS + 3500, to_the_ms=True)
    shown = run("topics", "trim", f"{orders}:0", "--before", when, "--dry-run")
    ran = run("topics", "trim", f"{orders}:0-1", "--before", when, "--execute", "--json")

    assert shown.out.startswith(f"Records before {when}\nNothing is trimmed (--dry-run)\n")
    assert ran.json["as_of_ms"] == FIRST_MS + 3500
    assert starts(orders) == [4, 4, 0]


def test_topics_trim_to_committed_deletes_only_records_read_by_all_groups(orders: str) -> None:
    commit(f"{orders}-a", f"{orders}:0=6", f"{orders}:1=5")
    commit(f"{orders}-b", f"{orders}:0=4")
    ran = run("topics", "trim", orders, "--to-committed", "--execute", "--json")

    assert news(ran) == [4, 5, 0]
    assert ran.json["changes"][2]["note"] == "no group has a committed offset in the partition"
    assert [row["groups"] for row in ran.json["changes"]] == [[], [], []]
    assert starts(orders) == [4, 5, 0]


def test_topics_trim_to_end_deletes_all_records(orders: str) -> None:
    run("topics", "trim", orders, "--to-end", "--execute")
    again = run("topics", "trim", orders, "--to-end")

    assert starts(orders) == [10, 5, 0]
    assert (again.code, again.out.splitlines()[-1]) == (0, "Nothing to trim")


def test_topics_trim_in_a_pipe_without_option_execute_deletes_no_record(orders: str) -> None:
    ran = run("topics", "trim", orders, "--to-end")

    assert (ran.code, starts(orders)) == (2, [0, 0, 0])
    assert "nothing was trimmed: add --execute" in ran.err


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["TOPIC"], 2, "choose one of --before-offset"),
        (["TOPIC", "--to-end", "--to-committed"], 2, "choose one of --before-offset"),
        (["TOPIC:7", "--to-end"], 1, "partition TOPIC:7 does not exist"),
        (["TOPIC:0-", "--to-end"], 2, "write it as TOPIC or TOPIC:0-1,5"),
        (["TOPIC", "no-such", "--to-end"], 1, "topic no-such: not found; nothing was trimmed"),
        (["TOPIC", "--before", "yesterday"], 2, "--before yesterday: write the time as"),
    ],
)
def test_topics_trim_with_invalid_options_deletes_no_record(
    orders: str, words: list[str], code: int, says: str
) -> None:
    ran = run("topics", "trim", *(word.replace("TOPIC", orders, 1) for word in words), "--execute")

    assert (ran.code, ran.out) == (code, "")
    assert says.replace("TOPIC:7", f"{orders}:7") in ran.err
    assert starts(orders) == [0, 0, 0]


def test_topics_trim_reports_rejected_and_trimmed_partitions(
    orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Connection.call

    def refuses(connection: Connection, api: str, value: Value, *more: Any) -> Value:
        answer = asked(connection, api, value, *more)
        for topic in answer["topics"] if api == "DeleteRecords" else ():
            for partition in topic["partitions"]:
                if partition["partition_index"] == 0:
                    partition["error_code"] = errors.POLICY_VIOLATION
        return answer

    monkeypatch.setattr(Connection, "call", refuses)
    ran = run("topics", "trim", orders, "--to-end", "--execute")

    assert ran.code == 1
    assert ran.out.endswith(
        f"Trimmed {orders}:1: 5 records deleted\nNot trimmed: {orders}:0: POLICY_VIOLATION\n"
    )
    assert ran.err == f"muster: 1 of 2 partitions could not be trimmed: {orders}:0\n"
