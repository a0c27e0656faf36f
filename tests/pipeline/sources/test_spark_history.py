"""Tests of `muster_history`, a Spark data source, with a batch read and as a stream."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from pipeline.sources.open import open_source
from pipeline.sources.spark_history import FORMAT
from tests.brokers import make_broker
from tests.pipeline.many_commits import PARTITIONS, commit, prepare

pytestmark = [pytest.mark.pipeline, pytest.mark.timeout(600), pytest.mark.proves("pipeline 9")]


def test_folder_of_segments_is_read_as_events(spark: SparkSession, history: Path) -> None:
    found = spark.read.format(FORMAT).load(str(history)).toArrow().to_pylist()

    parts = open_source(str(history)).event_parts(None) or ()
    expected = pa.Table.from_batches([batch for part in parts for batch in part.read()])
    assert found
    assert sorted(found, key=str) == sorted(expected.to_pylist(), key=str)


def test_stream_of_a_broker_continues_at_its_checkpoint(
    spark: SparkSession, tmp_path: Path
) -> None:
    broker = make_broker(tmp_path / "data", {"offsets.topic.num.partitions": "3"}).start()
    try:
        prepare(broker)
        for groups in (range(2), range(2, 5)):
            commit(broker, groups)
            query = (
                spark.readStream.format(FORMAT)
                .load(broker.bootstrap)
                .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
                .trigger(availableNow=True)
                .start(str(tmp_path / "events"))
            )
            assert query.awaitTermination(120)
            assert query.exception() is None
    finally:
        broker.kill()

    rows = ds.dataset(tmp_path / "events", format="parquet").to_table().to_pylist()
    committed = [row for row in rows if row["kind"] == "commit"]
    assert len(committed) == 5 * PARTITIONS
    assert len({(row["log_partition"], row["log_offset"]) for row in rows}) == len(rows)
