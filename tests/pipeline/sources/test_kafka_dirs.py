"""Tests that data folders of old and new Apache Kafka versions are readable sources, after a stop
and after a kill.

The reader returns exactly the groups, offsets and records that the clients recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline.engines.engine import Part
from pipeline.sources.open import open_source
from pipeline.sources.source import TimesAsked
from tests.cli.running import run
from tests.pipeline.given import table
from tests.pipeline.small_logs import KAFKA_DIR_NAMES, expected, unpacked

pytestmark = pytest.mark.proves("pipeline 1")


@pytest.fixture(scope="module", params=KAFKA_DIR_NAMES)
def kafka(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    name = request.param
    return name, unpacked(name, tmp_path_factory.mktemp(name))


def rows_of(parts: Sequence[Part] | None) -> list[dict[str, Any]]:
    return [row for part in parts or () for batch in part.read() for row in batch.to_pylist()]


def test_every_group_and_offset_of_a_kafka_folder_is_read(kafka: tuple[str, Path]) -> None:
    name, data = kafka
    rows = rows_of(open_source(str(data)).event_parts(None))
    found: dict[str, dict[str, list[object]]] = {}
    for row in sorted(rows, key=lambda row: (row["log_partition"], row["log_offset"])):
        if row["kind"] == "commit":
            place = f"{row['topic']}/{row['partition']}"
            found.setdefault(row["group_id"], {})[place] = [
                row["committed_offset"],
                row["metadata"],
            ]
    # the clients did not list this group, because it had members when the broker stopped
    del found["live-group"]
    assert found == expected(name)["groups"]
    assert {row["kind"] for row in rows} == {"commit", "group"}
    [*_, last] = [row for row in rows if row["kind"] == "group" and row["group_id"] == "live-group"]
    assert last["protocol_type"] == "consumer"
    held = {p for m in last["members"] for a in m["assignment"] for p in a["partitions"]}
    assert held >= {0}


@pytest.mark.pipeline
def test_every_record_of_a_kafka_folder_is_read_with_any_codec(
    spark: SparkSession, kafka: tuple[str, Path]
) -> None:
    name, data = kafka
    topics = expected(name)["topics"]
    reader = spark.read.format("kafka_segments").option("topic", ",".join(topics))
    rows = reader.load(str(data)).orderBy("topic", "partition", "offset").collect()
    found: dict[str, dict[str, list[object]]] = {}
    for row in rows:
        assert row.damage is None
        partitions = found.setdefault(row.topic, {})
        key, value = (part and part.decode() for part in (row.key, row.value))
        partitions.setdefault(str(row.partition), []).append([row.offset, key, value])
    assert found == topics


@pytest.mark.pipeline
def test_spark_reads_offsets_and_batches_from_the_data_folder_of_kafka(
    spark: SparkSession, kafka: tuple[str, Path]
) -> None:
    name, data = kafka
    reader = spark.read.format("kafka_segments")
    assert {row.kind for row in reader.option("as", "offsets").load(str(data)).collect()} == {
        "commit",
        "group",
    }
    batches = reader.option("as", "batches").option("topic", "*").load(str(data))
    last = batches.groupBy("topic", "partition").agg({"last_offset": "max"}).collect()
    ends = {(row.topic, row.partition): row[2] for row in last}
    assert ends == {
        (topic, int(partition)): rows[-1][0]
        for topic, partitions in expected(name)["topics"].items()
        for partition, rows in partitions.items()
    }


def test_stretches_cover_every_record_of_the_topics(kafka: tuple[str, Path]) -> None:
    name, data = kafka
    source = open_source(str(data))
    records: dict[tuple[str, int], int] = {}
    for row in rows_of(source.stretch_parts(TimesAsked(source.topics() or (), 0))):
        place = (row["topic"], row["partition"])
        records[place] = records.get(place, 0) + row["last_offset"] - row["base_offset"] + 1
        assert row["last_at"] is not None or row["last_offset"] < row["base_offset"]
    assert records == {
        (topic, int(partition)): len(rows)
        for topic, partitions in expected(name)["topics"].items()
        for partition, rows in partitions.items()
    }


@pytest.mark.campaign
def test_tables_of_all_jobs_have_the_offsets_that_the_clients_recorded(
    kafka: tuple[str, Path], tmp_path: Path
) -> None:
    from pipeline.run.catalog import TABLES

    name, data = kafka
    wanted = expected(name)

    made = run("pipeline", "all", "--source", str(data), "--out", str(tmp_path), "--json")

    assert made.code == 0, made.err
    assert (made.json["damaged"], made.json["unknown"]) == (0, 0)

    def rows(table_name: str) -> list[dict[str, Any]]:
        found = table(tmp_path, table_name, TABLES[table_name].schema)
        return [row for row in found if row["group_id"] != "live-group"]

    last: dict[str, dict[str, list[object]]] = {}
    for row in sorted(rows("commits"), key=lambda row: (row["log_partition"], row["log_offset"])):
        place = f"{row['topic']}/{row['partition']}"
        last.setdefault(row["group_id"], {})[place] = [row["committed_offset"], row["metadata"]]
    assert last == wanted["groups"]
    kept = {
        (row["group_id"], f"{row['topic']}/{row['partition']}"): row["committed_offset"]
        for row in rows("expiring_offsets")
    }
    told = {
        (group, place): offset
        for group, places in wanted["groups"].items()
        for place, (offset, _) in places.items()
    }
    assert kept == told
    live = [
        row
        for row in table(tmp_path, "generations", TABLES["generations"].schema)
        if row["group_id"] == "live-group"
    ]
    assert max(live, key=lambda row: row["log_offset"])["member_count"] > 0
