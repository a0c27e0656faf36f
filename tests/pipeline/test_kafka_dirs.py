"""The folders that Apache Kafka wrote, old and new, stopped and killed, through the data source.

What their clients were told comes out, exactly: every group and offset, every record.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.spark_open import open_source
from tests.pipeline.small_logs import KAFKA_DIR_NAMES, expected, unpacked

pytestmark = pytest.mark.pipeline


@pytest.fixture(scope="module", params=KAFKA_DIR_NAMES)
def kafka(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    name = request.param
    return name, unpacked(name, tmp_path_factory.mktemp(name))


def test_every_group_and_offset_comes_out(spark: SparkSession, kafka: tuple[str, Path]) -> None:
    name, data = kafka
    rows = open_source(spark, str(data)).events().collect()
    found: dict[str, dict[str, list[object]]] = {}
    for row in sorted(rows, key=lambda row: (row.log_partition, row.log_offset)):
        if row.kind == "commit":
            place = f"{row.topic}/{row.partition}"
            found.setdefault(row.group_id, {})[place] = [row.committed_offset, row.metadata]
    del found["live-group"]  # it had members when the broker stopped, and is not in the list
    assert found == expected(name)["groups"]
    assert {row.kind for row in rows} == {"commit", "group"}
    [*_, last] = [row for row in rows if row.kind == "group" and row.group_id == "live-group"]
    assert last.protocol_type == "consumer"
    assert {p for m in last.members for a in m.assignment for p in a.partitions} >= {0}


def test_every_record_comes_out_whatever_its_codec(
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


def test_batches_span_the_same_offsets(spark: SparkSession, kafka: tuple[str, Path]) -> None:
    name, data = kafka
    batches = open_source(spark, str(data)).batches().collect()
    records: dict[tuple[str, int], int] = {}
    for batch in batches:
        place = (batch.topic, batch.partition)
        records[place] = records.get(place, 0) + batch.last_offset - batch.base_offset + 1
        assert batch.max_at is not None
    assert records == {
        (topic, int(partition)): len(rows)
        for topic, partitions in expected(name)["topics"].items()
        for partition, rows in partitions.items()
    }
