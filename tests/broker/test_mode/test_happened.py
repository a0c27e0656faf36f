"""The HTTP verbs that return records, committed offsets with lag, group members, requests and the
journal."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import confluent_kafka
from confluent_kafka import TopicPartition

from tests.brokers import CHECKOUT, COMMAND
from tests.tested import Tested


def produced(muster: Tested, *values: bytes, partition: int = 0) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": muster.bootstrap})
    for value in values:
        producer.produce("orders", value, key=b"k", headers={"h": b"\xff"}, partition=partition)
    assert producer.flush(30) == 0


def consumer(muster: Tested, **more: Any) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer(
        {"bootstrap.servers": muster.bootstrap, "group.id": "billing", **more}
    )


def test_records_verb_returns_complete_records_in_order_from_an_offset(muster: Tested) -> None:
    muster.post("/topics", topics=[{"name": "orders", "partitions": 2}])
    long = b"x" * 10_000
    produced(muster, b"1", b"\xff\xfe", long)
    produced(muster, b"other", partition=1)

    records = muster.get("/records?topic=orders")["records"]

    assert [(each["partition"], each["offset"]) for each in records] == [
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 0),
    ]
    assert records[0]["key"] == {"text": "k"}
    assert records[0]["headers"] == [["h", {"base64": "/w=="}]]
    assert records[1]["value"] == {"base64": "//4="}
    assert records[2]["value"] == {"text": long.decode()}
    later = muster.get("/records?topic=orders&partition=0&from=1&limit=1")
    assert [each["offset"] for each in later["records"]] == [1]
    assert later["truncated"]
    assert "existing topics: orders" in muster.refused("GET", "/records?topic=order")[1]
    assert "2 partitions" in muster.refused("GET", "/records?topic=orders&partition=2")[1]


def test_committed_offsets_request_of_test_mode_returns_offsets_with_lag(muster: Tested) -> None:
    muster.post("/topics", topics=[{"name": "orders"}])
    produced(muster, b"1", b"2", b"3")
    assert muster.get("/committed?group=billing") == {"offsets": []}
    client = consumer(muster)
    client.commit(offsets=[TopicPartition("orders", 0, 1, "note")], asynchronous=False)
    client.close()

    (row,) = muster.get("/committed?group=billing")["offsets"]

    assert row["commit_ms"] > 0
    assert (row["topic"], row["partition"], row["offset"], row["lag"]) == ("orders", 0, 1, 2)


def test_verb_members_returns_assignments_and_verb_journal_returns_the_text_of_events(
    muster: Tested,
) -> None:
    muster.post("/topics", topics=[{"name": "orders", "partitions": 2}])
    client = consumer(muster, **{"client.id": "app-1", "group.instance.id": "orders-1"})
    client.subscribe(["orders"])
    while not client.assignment():
        client.poll(0.1)

    (group,) = muster.get("/groups")["groups"]
    (member,) = muster.get("/members?group=billing")["members"]
    events = muster.get("/journal?group=billing")["events"]
    http = muster.told["http"].removeprefix("http://")
    where = (f"--bootstrap={muster.bootstrap}", f"--http={http}")
    told = subprocess.run(
        [*COMMAND, "groups", "why", "billing", *where],
        cwd=CHECKOUT,
        env={**os.environ, "COLUMNS": "10000"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    client.close()

    assert (group["kind"], group["state"], group["members"]) == ("classic", "Stable", 1)
    assert group["coordinator"] == muster.bootstrap
    assert (member["client_id"], member["host"]) == ("app-1", "127.0.0.1")
    assert member["group_instance_id"] == "orders-1"
    assert member["subscription"] == ["orders"]
    assert member["assignment"] == [["orders", 0], ["orders", 1]]
    spoken = [each["sentence"] for each in events if each["what"] in ("rebalance", "generation")]
    assert len(spoken) == 2
    for sentence in spoken:
        assert sentence in told


def test_requests_members_and_journal_return_empty_lists_for_an_unknown_group(
    muster: Tested,
) -> None:
    assert muster.get("/groups?group=billing") == {"groups": []}
    assert muster.get("/members?group=billing") == {"members": []}
    assert muster.get("/journal?group=billing") == {"events": []}
    assert "group is missing" in muster.refused("GET", "/members")[1]


def test_requests_verb_returns_requests_from_a_sequence_number(muster: Tested) -> None:
    muster.post("/topics", topics=[{"name": "orders"}])
    produced(muster, b"1", b"2")

    told = muster.get("/requests?api=produce")
    records = told["requests"][-1]["request"]["topic_data"][0]["partition_data"][0]["records"]

    assert [each["value"] for each in records["records"]][-1] == {"text": "2"}
    assert told["dropped"] == 0
    produced(muster, b"3")
    seqs = [each["seq"] for each in muster.get(f"/requests?since={told['next']}")["requests"]]
    assert min(seqs) == told["next"]
    assert seqs == sorted(seqs)
