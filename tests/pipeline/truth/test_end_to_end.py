"""Tests that every job succeeds on the history of real clients on a running Muster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pipeline.run.catalog import TABLES
from tests.brokers import Broker, running
from tests.cli.running import run
from tests.interop.cluster import Cluster, Feed
from tests.interop.group_members import Group
from tests.pipeline.given import table
from tests.waiting import until

pytestmark = [pytest.mark.pipeline, pytest.mark.proves("pipeline 1")]

TOPIC, GROUP, PARTITIONS = "orders", "billing", 3


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Broker]:
    """Yields a broker with a history: two members join one after the other, one is killed, and the
    other leaves. Afterwards an offset is reset."""
    broker = Broker(tmp_path / "data", {"offsets.topic.num.partitions": "5"})
    with running(broker):
        cluster = Cluster(broker.bootstrap)
        cluster.create_topic(TOPIC, PARTITIONS)
        feed = Feed(broker.bootstrap, TOPIC, PARTITIONS)
        with Group(
            "confluent", broker.bootstrap, GROUP, topics=[TOPIC], session_timeout_ms=60_000
        ) as group:
            alice = group.start("alice")
            group.balanced(cluster, PARTITIONS)
            group.until_seen(feed.send(30))
            alice.commit()
            bob = group.start("bob", session_timeout_ms=2000)
            group.balanced(cluster, 1, 2)
            bob.kill()
            group.balanced(cluster, PARTITIONS)
            group.until_seen(feed.send(30))
            alice.commit()
            alice.leave()
        until("the group is empty", lambda: cluster.describe(GROUP).state == "Empty")
        back = {"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": -1,
                "committed_metadata": "set back"}  # fmt: skip
        answer = cluster.call(
            "OffsetCommit", 7, group_id=GROUP, generation_id_or_member_epoch=-1, member_id="",
            group_instance_id=None, topics=[{"name": TOPIC, "partitions": [back]}],
        )  # fmt: skip
        assert answer["topics"][0]["partitions"][0]["error_code"] == 0
        feed.send(3)
        yield broker


def test_every_job_succeeds_on_real_clients_and_a_running_muster(
    shop: Broker, tmp_path: Path
) -> None:
    out = tmp_path / "tables"

    def rows(name: str, *order: str) -> list[dict[str, Any]]:
        found = table(out, name, TABLES[name].schema)
        return sorted(found, key=lambda row: [row[column] for column in order])

    made = run("pipeline", "all", "--source", shop.bootstrap, "--out", str(out), "--json")

    assert made.code == 0, made.err
    assert [table["name"] for table in made.json["tables"]] == list(TABLES)
    for name, each in TABLES.items():
        assert set(pq.read_table(out / name).column_names) == set(each.schema.names), name
    last = {
        (row["topic"], row["partition"]): row["committed_offset"]
        for row in rows("commits", "log_offset")
    }
    assert last == Cluster(shop.bootstrap).committed(GROUP)
    assert last == {(TOPIC, 0): 5, (TOPIC, 1): 20, (TOPIC, 2): 20}

    [rewind] = rows("rewinds")
    assert (rewind["partition"], rewind["previous_offset"], rewind["committed_offset"]) == (
        0,
        20,
        5,
    )
    assert (rewind["owner"], rewind["members"]) == (None, [])

    changes = [
        (
            row["change"],
            [who["client_id"] for who in row["joined"]],
            [who["client_id"] for who in row["members_left"]],
            row["member_count"],
        )
        for row in rows("generations", "log_offset")
        if row["change"] != "first"
    ]
    assert changes == [
        ("joined", ["bob"], [], 2),
        ("left", [], ["bob"], 1),
        ("emptied", [], ["alice"], 0),
    ]
    restless = {row["client_id"]: row["rebalances"] for row in rows("restless_members")}
    assert restless == {"alice": 2, "bob": 2}
    lag = rows("lag", "as_of")
    end = [row for row in lag if row["as_of"] == lag[-1]["as_of"]]
    assert {row["partition"]: row["lag_records"] for row in end} == {0: 16, 1: 1, 2: 1}
    assert {row["rule"] for row in rows("expiring_offsets")} == {"its group is empty"}
    assert sum(row["superseded_records"] for row in rows("compaction")) > 0
    page = (out / "report.html").read_text()
    assert f"<bdi>{GROUP}</bdi>" in page
    assert f"Offsets of <bdi>{shop.bootstrap}</bdi>" in page
