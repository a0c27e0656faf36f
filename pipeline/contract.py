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
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

COMMIT: Final = "commit"
"""An offset was committed."""
COMMIT_TOMBSTONE: Final = "commit_tombstone"
"""An offset was deleted or expired."""
GROUP: Final = "group"
"""A group's metadata: a generation, or an empty group."""
GROUP_TOMBSTONE: Final = "group_tombstone"
"""A group was deleted, or had nothing left."""
UNKNOWN: Final = "unknown"
"""A record with a key of an unknown type; kept as `raw_key` and `raw_value`."""
DAMAGED: Final = "damaged"
"""Bytes that could not be read; `damage` says where and why. They go to quarantine."""
KINDS: Final = (COMMIT, COMMIT_TOMBSTONE, GROUP, GROUP_TOMBSTONE, UNKNOWN, DAMAGED)


def _field(name: str, kind: object, nullable: bool = True) -> StructField:
    return StructField(name, kind, nullable)  # type: ignore[arg-type]


ASSIGNMENT: Final = ArrayType(
    StructType([_field("topic", StringType()), _field("partitions", ArrayType(IntegerType()))])
)

MEMBERS: Final = ArrayType(
    StructType(
        [
            _field("member_id", StringType()),
            _field("group_instance_id", StringType()),
            _field("client_id", StringType()),
            _field("client_host", StringType()),
            _field("rebalance_timeout_ms", IntegerType()),
            _field("session_timeout_ms", IntegerType()),
            _field("subscription", ArrayType(StringType())),
            _field("assignment", ASSIGNMENT),
        ]
    )
)
"""Subscription and assignment are null where the group's protocol type is not `consumer`."""

DAMAGE: Final = StructType(
    [
        _field("file", StringType()),
        _field("position", LongType()),
        _field("reason", StringType()),
    ]
)
"""File and byte position of a segment; both null for what came over the wire."""

EVENTS: Final = StructType(
    [
        _field("log_partition", IntegerType(), False),
        _field("log_offset", LongType(), False),
        _field("written_at", TimestampType()),
        _field("kind", StringType(), False),
        _field("value_version", ShortType()),
        _field("group_id", StringType()),
        # of a commit or its tombstone
        _field("topic", StringType()),
        _field("partition", IntegerType()),
        _field("committed_offset", LongType()),
        _field("leader_epoch", IntegerType()),
        _field("metadata", StringType()),
        _field("commit_at", TimestampType()),
        _field("expire_at", TimestampType()),
        # of a group
        _field("protocol_type", StringType()),
        _field("generation", IntegerType()),
        _field("protocol", StringType()),
        _field("leader", StringType()),
        _field("state_at", TimestampType()),
        _field("members", MEMBERS),
        # of what is not understood
        _field("raw_key", BinaryType()),
        _field("raw_value", BinaryType()),
        _field("damage", DAMAGE),
    ]
)
"""One record of `__consumer_offsets`. `written_at` is the record's timestamp, `commit_at` the
value's; `leader_epoch` is null when unset; a damaged row has the offset where reading stopped."""

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

SEGMENT_RECORDS: Final = StructType(
    [
        _field("key", BinaryType()),
        _field("value", BinaryType()),
        _field("topic", StringType()),
        _field("partition", IntegerType()),
        _field("offset", LongType()),
        _field("timestamp", TimestampType()),
        _field("timestampType", IntegerType()),
        _field(
            "headers",
            ArrayType(StructType([_field("key", StringType()), _field("value", BinaryType())])),
        ),
        _field("damage", DAMAGE),
    ]
)
"""Records of any topic's segments, with the columns of Spark's Kafka connector and `damage`."""


def conform(frame: DataFrame, schema: StructType) -> DataFrame:
    """Select exactly the columns of a schema, cast to its types: how each transform closes."""
    return frame.select(*[F.col(f.name).cast(f.dataType).alias(f.name) for f in schema.fields])


def of_kind(*kinds: str) -> Column:
    """Rows of these kinds."""
    return F.col("kind").isin(*kinds)
