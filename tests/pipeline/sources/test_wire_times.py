"""Tests of record times that the pipeline looks up with ListOffsets. The times are exact, and no
record is fetched."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pytest
from confluent_kafka import Producer

from pipeline.engines.duck import DuckEngine
from pipeline.engines.engine import Engine
from pipeline.engines.spark import SparkEngine
from pipeline.model.events import EVENTS, STRETCHES
from pipeline.run.catalog import JOBS
from pipeline.run.jobs import run_job
from pipeline.sources.open import open_source
from pipeline.sources.source import TimesAsked
from pipeline.sources.wire.times import CLOSE_MS, LEAST_BYTES
from pipeline.storage.store import Store
from tests.brokers import Broker
from tests.interop.cluster import Cluster
from tests.pipeline.committing import commit

TOPIC, UNREAD = "wire-times", "wire-unread"
RECORDS = 6_000
EVERY_MS = 97
"""The interval in milliseconds between the timestamps of successive records."""
HELD = (0, 1, 618, 2_999, 3_000, 5_998, 5_999)
BEGAN_MS = time.time_ns() // 1_000_000 - RECORDS * EVERY_MS - 5_000


def time_of(offset: int) -> int:
    """Returns the timestamp of a record. The records are evenly spaced, except for a pause of four
    seconds in the middle."""
    return BEGAN_MS + EVERY_MS * offset + (0 if offset < RECORDS // 2 else 4_000)


# the scope equals the broker's, because a worker can return to this module
@pytest.fixture(scope="session")
def topics(broker: Broker) -> None:
    """Creates two topics. The first topic has long batches, in an uncompressed and a compressed
    partition. In the second topic, no group has commits."""
    cluster = Cluster(broker.bootstrap)
    cluster.create_topic(TOPIC, 2)
    cluster.create_topic(UNREAD, 1)
    for partition, codec in enumerate(("none", "zstd")):
        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "compression.type": codec,
                "linger.ms": 500,
                "batch.num.messages": 2000,
            }
        )
        for offset in range(RECORDS):
            producer.produce(TOPIC, bytes(100), partition=partition, timestamp=time_of(offset))
        for _ in range(3_000):
            producer.produce(UNREAD, bytes(1_000))
        assert producer.flush(60) == 0
    for number, offset in enumerate(HELD):
        places = [(TOPIC, partition, offset) for partition in range(2)]
        commit({"bootstrap.servers": broker.bootstrap}, f"times-{number}", places)


@pytest.mark.usefixtures("topics")
def test_broker_source_has_the_exact_times_of_records_at_committed_offsets(
    broker: Broker,
) -> None:
    source = open_source(broker.bootstrap)
    before = source.moved_bytes()
    now_ms = time.time_ns() // 1_000_000
    offsets = {(TOPIC, partition): HELD for partition in range(2)}

    parts = source.stretch_parts(TimesAsked([TOPIC], now_ms, None, offsets))

    rows: list[dict[str, Any]] = [
        row
        for part in parts or ()
        for batch in part.read()
        for row in pa.Table.from_batches([batch], STRETCHES).to_pylist()
    ]
    for partition in range(2):
        own = [row for row in rows if row["partition"] == partition]
        assert [row["base_offset"] for row in own] == [0, *(r["last_offset"] + 1 for r in own[:-1])]
        beginning, *stretches, ending = own
        assert (beginning["last_offset"], beginning["last_at"]) == (-1, None)
        assert (ending["base_offset"], ending["first_at"]) == (RECORDS, None)
        for row in stretches:
            assert ms_of(row["first_at"]) == time_of(row["base_offset"])
            assert ms_of(row["last_at"]) >= time_of(row["last_offset"])
        for held in HELD:
            [row] = [r for r in stretches if r["base_offset"] <= held <= r["last_offset"]]
            close = ms_of(row["last_at"]) - ms_of(row["first_at"]) <= CLOSE_MS
            assert close or row["base_offset"] == held, "its own time, or as good"
        minutes = RECORDS * EVERY_MS // 60_000
        assert minutes <= len(stretches) <= 3 * minutes + 20 * len(HELD)
    assert source.moved_bytes() - before < 200_000


def ms_of(at: Any) -> int:
    return round(at.timestamp() * 1000)


@pytest.mark.usefixtures("topics")
def test_job_transfers_at_most_twice_the_bytes_of_the_offsets_topic(
    broker: Broker, tmp_path: Path
) -> None:
    """The size of the other topics has no effect, because a job does not read their records."""
    source = open_source(broker.bootstrap)
    log_bytes = sum(file.stat().st_size for file in broker.data.glob("__consumer_offsets-*/*.log"))
    engine = DuckEngine(str(tmp_path))

    summary = run_job(engine, JOBS["commits"], source, Store(str(tmp_path / "out")))

    assert summary.events >= 2 * len(HELD)
    assert 0 < summary.moved_bytes <= 2 * log_bytes + LEAST_BYTES + 200_000
    assert summary.moved_bytes < 2_000_000 < 2 * 3_000 * 1_000
    made = pyarrow.dataset.dataset(str(tmp_path / "out" / "commits"), partitioning="hive")
    rows = made.to_table(filter=pyarrow.dataset.field("topic") == TOPIC).to_pylist()
    assert len(rows) == 2 * len(HELD)
    for row in rows:
        off_ms = abs(ms_of(row["record_at"]) - time_of(row["committed_offset"]))
        assert off_ms <= 1000 * row["record_at_precision_s"] <= EVERY_MS


@pytest.mark.campaign
@pytest.mark.usefixtures("topics")
@pytest.mark.parametrize(
    "how", ["in this process", "in two", pytest.param("by Spark", marks=pytest.mark.pipeline)]
)
def test_transferred_bytes_of_every_process_are_counted(
    broker: Broker, tmp_path: Path, request: pytest.FixtureRequest, how: str
) -> None:
    source = open_source(broker.bootstrap)
    parts = [part for number in range(50) for part in source.event_parts([number]) or ()]
    assert len(parts) > 1
    engine: Engine
    if how == "by Spark":
        engine = SparkEngine(request.getfixturevalue("spark"))
    else:
        engine = DuckEngine(str(tmp_path), 2 if how == "in two" else 1)

    engine.read("history", parts, EVENTS)
    [found] = engine.ask("SELECT count(*) AS records FROM history")
    engine.close()

    assert found["records"] >= 2 * len(HELD)
    assert engine.moved_bytes >= 100 * len(parts)
