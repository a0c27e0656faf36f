"""Tests of the lag on a real broker, whose log is read with requests and from files. The lag must
match the offsets that the producers and consumers recorded."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from prometheus_client.parser import text_string_to_metric_families

from pipeline.engines.duck import DuckEngine
from pipeline.model.tables import CATCH_UP, EXPIRING_OFFSETS, LAG, REWINDS
from pipeline.run.as_of import Span
from pipeline.run.catalog import JOBS
from pipeline.run.jobs import Options, run_job
from pipeline.run.selection import Selection
from pipeline.sources.open import open_source
from pipeline.storage.store import Store
from tests.brokers import Broker
from tests.interop.cluster import Cluster
from tests.pipeline.given import table
from tests.pipeline.report_pages import listed
from tests.waiting import until

pytestmark = pytest.mark.pipeline

NOW_MS = time.time_ns() // 1_000_000


class Truth(NamedTuple):
    """The true number of unread and lost records of a group, and the write time of the first unread
    record."""

    records: int
    lost: int
    unread_ms: int | None
    """The write time of the first unread record in ms. None if its timestamp is wrong."""


TRUTH = {
    "lag-even": Truth(3, 0, NOW_MS - 300),
    "lag-long": Truth(618, 0, NOW_MS - 618_000),
    "lag-future": Truth(20, 0, None),
    "lag-old-copy": Truth(60, 0, NOW_MS - 1_000),
    "lag-above": Truth(-10_000, 0, None),
    "lag-lost": Truth(60, 30, NOW_MS - 49_600),
    "lag-copies-among": Truth(150, 0, NOW_MS - 13_950),
    "lag-copies-many": Truth(2020, 0, NOW_MS - 13_980),
    "lag-copies-first": Truth(550, 0, None),
    "lag-copies-alone": Truth(500, 0, None),
    "lag-mirror": Truth(300, 0, None),
}
YEAR_MS = 31_536_000_000


def produce(broker: Broker, topic: str, times_ms: Iterable[int], together: int = 100) -> None:
    settings: dict[str, Any] = {
        "bootstrap.servers": broker.bootstrap,
        "linger.ms": 500,
        "batch.num.messages": together,
    }
    producer = Producer(settings)
    for ms in times_ms:
        producer.produce(topic, bytes(50), partition=0, timestamp=ms)
    assert producer.flush(60) == 0


def commit(broker: Broker, name: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": name})
    consumer.commit(offsets=[TopicPartition(name, 0, offset)], asynchronous=False)
    consumer.close()


# the scope equals the broker's, because a worker can return to this module
@pytest.fixture(scope="session")
def committed(broker: Broker) -> Broker:
    cluster = Cluster(broker.bootstrap)
    for name in TRUTH:
        cluster.create_topic(name, 1)
    produce(broker, "lag-even", range(NOW_MS - 1_800_000, NOW_MS, 100))
    produce(broker, "lag-long", range(NOW_MS - 1_118_000, NOW_MS, 1000), together=2000)
    produce(broker, "lag-future", range(NOW_MS - 60_000, NOW_MS, 100))
    produce(broker, "lag-future", range(NOW_MS + 3_600_000, NOW_MS + 3_600_020))
    produce(broker, "lag-old-copy", range(NOW_MS - 100_000, NOW_MS, 100))
    produce(broker, "lag-old-copy", range(NOW_MS - 30_000_000_000, NOW_MS - 29_999_999_950))
    produce(broker, "lag-above", [NOW_MS] * 10)
    produce(broker, "lag-lost", range(NOW_MS - 50_000, NOW_MS - 49_000, 10))
    live, old = range(NOW_MS - 14_000, NOW_MS), range(NOW_MS - YEAR_MS, NOW_MS)
    for dates in (live[:50], old[:100], live[50:100]):
        produce(broker, "lag-copies-among", dates)
    for dates in (live[:20], old[:2000], live[20:40]):
        produce(broker, "lag-copies-many", dates)
    for dates in (old[:500], live[:50]):
        produce(broker, "lag-copies-first", dates)
    produce(broker, "lag-copies-alone", old[:500])
    produce(broker, "lag-mirror", old[:300_000:1000])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for deleted in admin.delete_records([TopicPartition("lag-lost", 0, 40)]).values():
        deleted.result(30)
    for name, offset in (
        ("lag-even", 17_997), ("lag-long", 500), ("lag-future", 600), ("lag-old-copy", 990),
        ("lag-above", 10_010), ("lag-lost", 10), ("lag-copies-among", 50), ("lag-copies-many", 20),
        ("lag-copies-first", 0), ("lag-copies-alone", 0), ("lag-mirror", 0),
    ):  # fmt: skip
        commit(broker, name, offset)
    return broker


def lag_of(where: str, tmp_path: Path, **span: int) -> dict[str, dict[str, Any]]:
    """Returns the latest lag row of each group."""
    tmp_path.mkdir(exist_ok=True)
    engine = DuckEngine(str(tmp_path))
    options = Options(selection=Selection(["lag-*"], span=Span(**span)))
    run_job(engine, JOBS["lag"], open_source(where), Store(str(tmp_path / "out")), options)
    rows = table(tmp_path / "out", "lag", LAG)
    return {row["group_id"]: row for row in sorted(rows, key=lambda row: row["minute"])}


@pytest.mark.parametrize("over_the_wire", [True, False])
def test_lag_equals_the_unread_records_that_clients_recorded(
    committed: Broker, tmp_path: Path, over_the_wire: bool
) -> None:
    where = committed.bootstrap if over_the_wire else str(committed.data)

    rows = lag_of(where, tmp_path)

    assert {name: (row["lag_records"], row["lost_records"]) for name, row in rows.items()} == {
        name: (truth.records, truth.lost) for name, truth in TRUTH.items()
    }
    for name, truth in TRUTH.items():
        row = rows[name]
        if truth.unread_ms is None:
            continue
        age_s = row["as_of"].timestamp() - truth.unread_ms / 1000
        assert abs(row["lag_s"] - age_s) <= min(row["lag_precision_s"], 1) + 0.02, name
        assert not over_the_wire or row["lag_precision_s"] <= 0.02
    future = rows["lag-future"]
    assert 0 <= future["lag_s"] <= future["lag_s"] + future["lag_precision_s"]
    first = rows["lag-copies-first"]
    assert first["unread_at"].timestamp() == pytest.approx(NOW_MS / 1000 - 14, abs=0.1)
    assert first["lag_precision_s"] is None, "it is as old at least"
    for name in ("lag-copies-alone", "lag-mirror"):
        assert (rows[name]["lag_s"], rows[name]["lag_precision_s"]) == (None, None)


def test_lag_of_a_past_time_is_read_from_the_broker(committed: Broker, tmp_path: Path) -> None:
    """The test reads the lag at two as-of times. No record was written between them, so the age of
    an unread record differs by the time between the two as-of times."""
    then_ms = time.time_ns() // 1_000_000

    now, then = (
        lag_of(committed.bootstrap, tmp_path / name, **span)
        for name, span in (("now", {}), ("then", {"until_ms": then_ms}))
    )

    for name in ("lag-even", "lag-long"):
        assert now[name]["lag_records"] == then[name]["lag_records"]
        later_s = (now[name]["as_of"] - then[name]["as_of"]).total_seconds()
        assert now[name]["lag_s"] - then[name]["lag_s"] == pytest.approx(later_s, abs=0.05)
        assert then[name]["as_of"].timestamp() == pytest.approx(then_ms / 1000)


@pytest.fixture(scope="module")
def deleted(broker: Broker) -> Broker:
    """Returns a broker with a group that had a member and was deleted. Afterwards, offsets were
    committed for the group without a member."""
    name = "gone-group"
    Cluster(broker.bootstrap).create_topic(name, 1)
    produce(broker, name, [NOW_MS] * 10)
    member = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": name})
    member.subscribe([name])
    until("it has its partition", lambda: member.poll(0.1) or member.assignment(), 60)
    member.close()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_consumer_groups([name])[name].result(30)
    commit(broker, name, 5)
    commit(broker, name, 3)
    return broker


@pytest.mark.parametrize("over_the_wire", [True, False])
def test_member_count_is_unknown_for_a_recreated_group_that_has_only_commits(
    deleted: Broker, tmp_path: Path, over_the_wire: bool
) -> None:
    out = tmp_path / "out"
    source = open_source(deleted.bootstrap if over_the_wire else str(deleted.data))
    options = Options(selection=Selection(["gone-*"]))

    run_job(DuckEngine(str(tmp_path)), JOBS["all"], source, Store(str(out)), options)

    [row] = table(out, "catch_up", CATCH_UP)
    assert (row["member_count"], row["lag_records"]) == (None, 7)
    assert row["verdict"] in {"stopped", "not known"}, "not known in the group's first minute"
    [offset] = table(out, "expiring_offsets", EXPIRING_OFFSETS)
    assert offset["rule"] == "its group has no members of its own"
    [rewind] = table(out, "rewinds", REWINDS)
    assert (rewind["owner"], rewind["members"]) == (None, [])
    page = (out / "report.html").read_text()
    assert "<bdi>a client outside the group</bdi>" in page
    assert listed(page)["gone-group"]["members"] == "-"


@pytest.mark.parametrize("over_the_wire", [True, False])
def test_lag_job_writes_a_textfile_and_returns_the_groups_in_the_states_that_fail_on_names(
    committed: Broker, tmp_path: Path, over_the_wire: bool
) -> None:
    where = committed.bootstrap if over_the_wire else str(committed.data)
    file = tmp_path / "lag.prom"
    options = Options(selection=Selection(["lag-*"]), textfile=str(file), fail_on=("out of range",))

    made = run_job(
        DuckEngine(str(tmp_path)), JOBS["lag"], open_source(where), Store(str(tmp_path)), options
    )

    assert [each.group_id for each in made.failing] == ["lag-above"]
    assert made.textfile == str(file)
    told = {
        sample.labels["consumergroup"]: sample.value
        for family in text_string_to_metric_families(file.read_text())
        for sample in family.samples
        if family.name == "muster_pipeline_lag_records"
    }
    assert told == {name: truth.records for name, truth in TRUTH.items()}
