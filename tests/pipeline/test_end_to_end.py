"""Every job on real histories: real clients on a running Muster, and Apache Kafka's folders."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from pipeline.catalog import JOBS, TABLES
from pipeline.jobs import Options, run_job
from pipeline.spark_open import open_source
from pipeline.store import Store
from tests.brokers import Broker, running
from tests.cli.running import run
from tests.interop.cluster import Cluster, Feed
from tests.interop.group_members import Group
from tests.pipeline.history import shape, told
from tests.pipeline.small_logs import KAFKA_DIR_NAMES, expected, unpacked
from tests.waiting import until

pytestmark = pytest.mark.pipeline

TOPIC, GROUP, PARTITIONS = "orders", "billing", 3
WHOLE = "kafka-4.3.1-killed"
"""The one on which every job is run."""


def last_offsets(table: DataFrame) -> dict[str, dict[str, list[Any]]]:
    """By group and place the offset, and the metadata where the table has it."""
    found: dict[str, dict[str, list[Any]]] = {}
    for row in table.orderBy("log_partition", "log_offset").collect():
        found.setdefault(row.group_id, {})[f"{row.topic}/{row.partition}"] = [
            row.committed_offset,
            *([row.metadata] if "metadata" in table.columns else []),
        ]
    return found


@pytest.mark.parametrize("name", [name for name in KAFKA_DIR_NAMES if name != WHOLE])
def test_commits_of_kafkas_folders(spark: SparkSession, tmp_path: Path, name: str) -> None:
    source = open_source(spark, str(unpacked(name, tmp_path / "data")))
    store = Store(spark, str(tmp_path / "tables"))

    summary = run_job(spark, JOBS["commits"], source, store, Options(with_batches=False))

    last = last_offsets(store.read("commits"))
    del last["live-group"]  # it had members when the broker stopped, and is not in the list
    assert last == expected(name)["groups"]
    assert (summary.damaged, summary.unknown) == (0, 0)


def test_every_job_on_kafkas_folder(spark: SparkSession, tmp_path: Path) -> None:
    wanted = expected(WHOLE)
    source = open_source(spark, str(unpacked(WHOLE, tmp_path / "data")))
    store = Store(spark, str(tmp_path / "tables"))

    run_job(spark, JOBS["all"], source, store)

    last = last_offsets(store.read("commits"))
    del last["live-group"]
    assert last == wanted["groups"]
    kept = last_offsets(store.read("expiring_offsets").where("group_id != 'live-group'"))
    assert kept == {
        group: {place: value[:1] for place, value in places.items()}
        for group, places in wanted["groups"].items()
    }
    lag = store.read("lag").where("group_id != 'live-group'")
    final = {
        (row.group_id, f"{row.topic}/{row.partition}"): row.lag_records
        for row in lag.orderBy("minute").collect()
    }
    ends = wanted["topics"]
    assert final == {  # some committed offsets that are not there yet
        (group, place): max(len(ends[place.split("/")[0]][place.split("/")[1]]) - offset, 0)
        for group, places in wanted["groups"].items()
        for place, (offset, _) in places.items()
    }
    [*_, live] = (
        store.read("generations").where("group_id = 'live-group'").orderBy("log_offset").collect()
    )
    assert live.member_count > 0


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Broker]:
    """Two members join in turn, one is killed, the other leaves; then an offset is set back."""
    broker = Broker(tmp_path / "data", {"offsets.topic.num.partitions": "5"})
    with running(broker):
        cluster = Cluster(broker.bootstrap)
        cluster.create_topic(TOPIC, PARTITIONS)
        feed = Feed(broker.bootstrap, TOPIC, PARTITIONS)
        with Group(
            "confluent", broker.bootstrap, GROUP, topics=[TOPIC], session_timeout_ms=2000
        ) as group:
            alice = group.start("alice")
            group.balanced(cluster, PARTITIONS)
            group.until_seen(feed.send(30))
            alice.commit()
            bob = group.start("bob")
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


def test_every_job_on_real_clients_and_a_running_muster(
    spark: SparkSession, shop: Broker, tmp_path: Path
) -> None:
    out = tmp_path / "tables"
    store = Store(spark, str(out))

    made = run("pipeline", "all", "--source", shop.bootstrap, "--out", str(out), "--json")

    assert made.code == 0, made.err
    assert [table["name"] for table in made.json["tables"]] == list(TABLES)
    for name, table in TABLES.items():
        assert sorted(shape(store.read(name).schema)) == sorted(shape(table.schema)), name
    last = {
        (row.topic, row.partition): row.committed_offset
        for row in store.read("commits").orderBy("log_offset").collect()
    }
    assert last == Cluster(shop.bootstrap).committed(GROUP)
    assert last == {(TOPIC, 0): 5, (TOPIC, 1): 20, (TOPIC, 2): 20}

    [rewind] = store.read("rewinds").collect()
    assert (rewind.partition, rewind.previous_offset, rewind.committed_offset) == (0, 20, 5)
    assert (rewind.owner, rewind.members) == (None, [])

    generations = store.read("generations")
    changes = [
        (change, [who[2] for who in joined], [who[2] for who in left], members)
        for change, joined, left, members in told(
            generations, "change", "joined", "left", "member_count"
        )
        if change != "first"
    ]
    assert changes == [
        ("joined", ["bob"], [], 2),
        ("left", [], ["bob"], 1),
        ("emptied", [], ["alice"], 0),
    ]
    assert {row.client_id: row.rebalances for row in store.read("restless_members").collect()} == {
        "alice": 2,
        "bob": 2,
    }
    lag = store.read("lag").orderBy("minute").collect()
    last_minute = [row for row in lag if row.minute == lag[-1].minute]
    assert {row.partition: row.lag_records for row in last_minute} == {0: 16, 1: 1, 2: 1}
    assert {row.rule for row in store.read("expiring_offsets").collect()} == {"its group is empty"}
    [saved] = store.read("compaction").agg({"superseded_records": "sum"}).collect()
    assert saved[0] > 0
    page = out / "report.html"
    assert f"<bdi>{GROUP}</bdi>" in page.read_text()
    assert f"Offsets of <bdi>{shop.bootstrap}</bdi>" in page.read_text()

    page.write_text("an old one")
    refused = run("pipeline", "report", "--out", str(out))
    assert (refused.code, page.read_text()) == (1, "an old one")
    assert "already has report.html: replace it with --overwrite" in refused.err
    anew = run("pipeline", "report", "--out", str(out), "--overwrite")
    assert (anew.code, anew.out) == (0, f"The report is {page}\n"), anew.err
    assert f"<bdi>{GROUP}</bdi>" in page.read_text()
