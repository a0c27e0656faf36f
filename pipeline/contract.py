"""The contract between sources and tables: the columns of the history, and of topics' batches.

Every source gives `EVENTS`: one row for each record of `__consumer_offsets`, in the log's order
within a partition. Times are timestamps in UTC, cut to milliseconds as Kafka keeps them; one that
Kafka writes as -1 is null. (`log_partition`, `log_offset`) is a row's identity: a log holds each
offset once, so that a row read twice is known as one.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import (
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pipeline.model import events

COMMIT: Final = events.COMMIT
COMMIT_TOMBSTONE: Final = events.COMMIT_TOMBSTONE
GROUP: Final = events.GROUP
GROUP_TOMBSTONE: Final = events.GROUP_TOMBSTONE
UNKNOWN: Final = events.UNKNOWN
DAMAGED: Final = events.DAMAGED


def _field(name: str, kind: object, nullable: bool = True) -> StructField:
    return StructField(name, kind, nullable)  # type: ignore[arg-type]


EVENTS: Final = from_arrow_schema(events.EVENTS)

CHAINED: Final = StructType(
    [
        *[
            EVENTS[name]
            for name in (
                "log_partition",
                "log_offset",
                "written_at",
                "kind",
                "group_id",
                "topic",
                "partition",
                "committed_offset",
                "leader_epoch",
                "metadata",
                "commit_at",
                "expire_at",
            )
        ],
        _field("previous_offset", LongType()),
        _field("previous_at", TimestampType()),
    ]
)
"""Rows of `EVENTS`, of all kinds, with a commit's columns; and of a commit what its group had
committed there before it, null for the first, and for the first after a tombstone."""

BATCHES: Final = StructType(
    [
        _field("topic", StringType(), False),
        _field("partition", IntegerType(), False),
        _field("base_offset", LongType(), False),
        _field("last_offset", LongType(), False),
        _field("first_at", TimestampType()),
        _field("max_at", TimestampType()),
        _field("size_bytes", LongType(), False),
    ]
)
"""One batch (or, over the wire, one stretch of records) of an ordinary topic: how offsets and time
belong together. `first_at` is the first record's timestamp, `max_at` the greatest."""

SEGMENT_RECORDS: Final = from_arrow_schema(events.SEGMENT_RECORDS)


def conform(frame: DataFrame, schema: StructType) -> DataFrame:
    """Select exactly the columns of a schema, cast to its types: how each transform closes."""
    return frame.select(*[F.col(f.name).cast(f.dataType).alias(f.name) for f in schema.fields])


def of_kind(*kinds: str) -> Column:
    """Rows of these kinds."""
    return F.col("kind").isin(*kinds)
