"""The history through Spark's own Kafka connector, from Muster or Apache Kafka.

The connector's rows are decoded by the same code as the files' records, in Arrow batches. It reads
as plain consumers do: markers of transactions are passed over, and offsets of a transaction come
whether it was committed or aborted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline.contract import BATCHES, EVENTS, conform
from pipeline.sources.event_rows import NONE, EventRows

RECORDS_A_TASK = 100_000
"""Partitions of fewer records share a task: one costs more than a few of them."""
_COLUMNS = ("key", "value", "partition", "offset", "timestamp")


def read_topics(
    spark: SparkSession, bootstrap: str, ends: Mapping[str, Mapping[int, int]]
) -> DataFrame:
    """The connector's rows of topics, from their earliest records to ``ends``.

    Partitions that have never had a record are left alone, and few records are read in few tasks.
    """
    some = {
        topic: {partition: end for partition, end in found.items() if end}
        for topic, found in ends.items()
        if any(found.values())
    } or ends
    rows = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("assign", _as_json({topic: list(found) for topic, found in some.items()}))
        .option("startingOffsets", "earliest")
        .option("endingOffsets", _as_json(dict(some)))
        .load()
    )
    records = sum(end for found in some.values() for end in found.values())
    return rows.coalesce(-(-records // RECORDS_A_TASK)) if records else rows


def events_of(rows: DataFrame) -> DataFrame:
    """The connector's rows of the offsets topic as `EVENTS`."""
    return rows.select(*_COLUMNS).mapInArrow(decode_rows, EVENTS)


def batches_of(rows: DataFrame) -> DataFrame:
    """The connector's rows of ordinary topics as `BATCHES`: one row a partition and minute.

    ``size_bytes`` is that of keys and values.
    """
    size = F.coalesce(F.length("key"), F.lit(0)) + F.coalesce(F.length("value"), F.lit(0))
    time = F.when(F.col("timestamp") >= F.timestamp_seconds(F.lit(0)), F.col("timestamp"))
    grouped = (
        rows.select("topic", "partition", "offset", time.alias("at"), size.alias("size"))
        .groupBy("topic", "partition", F.date_trunc("minute", "at"))
        .agg(
            F.min("offset").alias("base_offset"),
            F.max("offset").alias("last_offset"),
            F.min_by("at", "offset").alias("first_at"),
            F.max("at").alias("max_at"),
            F.sum("size").alias("size_bytes"),
        )
    )
    return conform(grouped, BATCHES)


def decode_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Arrow batches of the connector's key, value, partition, offset, timestamp to `EVENTS`."""
    rows = EventRows()
    for batch in batches:
        millis = pc.divide(pc.cast(batch.column(4), pa.int64()), 1000)
        columns = [batch.column(i).to_pylist() for i in range(4)]
        for key, value, partition, offset, time in zip(*columns, millis.to_pylist(), strict=True):
            rows.log_partition = partition
            rows.add_record(offset, NONE if time is None else time, key, value)
        if len(rows):
            yield rows.take()


def _as_json(topics: Mapping[str, object]) -> str:
    """As the connector's options name partitions and offsets."""
    return json.dumps(topics)


def ordinary(topics: Iterable[str]) -> Sequence[str]:
    """Topics that are not Kafka's own."""
    return sorted(topic for topic in topics if not topic.startswith("__"))
