"""What retention and compaction will do: offsets that expire, groups that are dead, space to save.

The rules are those of Kafka since KIP-211, as in offsets/expiry.py: a client's own expire timestamp
counts before all else; offsets of a group that is empty last from when it became so, those of a
group that nobody ever joined from their commit, those of topics to which no member of a living
consumer group subscribes from their commit too; all others are kept.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipeline.contract import (
    COMMIT,
    COMMIT_TOMBSTONE,
    DAMAGED,
    GROUP,
    GROUP_TOMBSTONE,
    conform,
    of_kind,
)
from pipeline.tables.moments import committed_at, grouped_at
from pipeline.tables.schemas import COMPACTION, DEAD_GROUPS, EXPIRING_OFFSETS

NAMED_BY_CLIENT: Final = "named by the client"
GROUP_EMPTY: Final = "its group is empty"
NO_MEMBERS_EVER: Final = "its group has no members of its own"
NOT_SUBSCRIBED: Final = "no member subscribes to the topic"
SUBSCRIBED: Final = "kept: a member subscribes to the topic"
HAS_MEMBERS: Final = "kept: its group has members"

DELETED: Final = "deleted"
NOTHING_KEPT: Final = "empty and nothing kept"
ALL_EXPIRED: Final = "empty and all its offsets have expired"

_RECORD_BYTES = 9
"""Lengths, deltas and counts of a small record of magic 2, without key and value."""


def expiring_offsets(events: DataFrame, now: datetime, retention: timedelta) -> DataFrame:
    """EVENTS to EXPIRING_OFFSETS: every offset that is kept now, and when it will go.

    `expires_at` is null for one that is kept as long as its group is what it is now; `expired`
    ones go when the coordinator next looks.
    """
    rows = (
        _last_offsets(events)
        .where(of_kind(COMMIT))
        .join(_last_groups(events), on=["log_partition", "group_id"], how="left")
    )
    joined = F.coalesce(F.col("protocol_type"), F.lit("")) != ""
    empty = F.size(F.col("members")) == 0
    subscriptions_known = F.forall("members", lambda m: m["subscription"].isNotNull())
    subscribed = F.exists("members", lambda m: F.array_contains(m["subscription"], F.col("topic")))
    consumers = (F.col("protocol_type") == "consumer") & subscriptions_known
    rule = (
        F.when(~joined, NO_MEMBERS_EVER)
        .when(empty, GROUP_EMPTY)
        .when(consumers & subscribed, SUBSCRIBED)
        .when(consumers, NOT_SUBSCRIBED)
        .otherwise(HAS_MEMBERS)
    )
    rows = rows.withColumn("rule", rule)
    goes = ~F.col("rule").startswith("kept")
    emptied = F.when(F.col("rule") == GROUP_EMPTY, F.col("state_at"))
    after = F.timestamp_millis(F.unix_millis("since") + int(retention.total_seconds() * 1000))
    rows = (
        rows.withColumn("since", F.when(goes, F.coalesce(emptied, "committed_at")))
        .withColumn("expires_at", F.when(goes, F.coalesce("expire_at", after)))
        .withColumn(
            "rule",
            F.when(goes & F.col("expire_at").isNotNull(), NAMED_BY_CLIENT).otherwise(F.col("rule")),
        )
        .withColumn("expired", F.coalesce(F.col("expires_at") <= F.lit(now), F.lit(False)))
    )
    return conform(rows, EXPIRING_OFFSETS)


def dead_groups(events: DataFrame, expiring_offsets: DataFrame) -> DataFrame:
    """EVENTS and EXPIRING_OFFSETS to DEAD_GROUPS: groups that are gone or abandoned."""
    offsets = expiring_offsets.groupBy("log_partition", "group_id").agg(
        F.count("*").alias("kept_offsets"),
        F.count_if(~F.col("expired")).alias("_lasting"),
    )
    commits = (
        events.where(of_kind(COMMIT, COMMIT_TOMBSTONE))
        .groupBy("log_partition", "group_id")
        .agg(
            F.max(F.when(of_kind(COMMIT), committed_at())).alias("last_commit_at"),
            F.max(committed_at()).alias("_offsets_at"),
        )
    )
    key = ["log_partition", "group_id"]
    rows = _last_groups(events).join(commits, key, "full").join(offsets, key, "left")
    kept = F.coalesce("kept_offsets", F.lit(0))
    rows = (
        rows.withColumn("kept_offsets", kept)
        .where(
            (F.coalesce(F.size("members"), F.lit(0)) <= 0) & (F.coalesce("_lasting", F.lit(0)) == 0)
        )
        .withColumn(
            "reason",
            F.when(kept > 0, ALL_EXPIRED)
            .when(F.col("members").isNotNull(), NOTHING_KEPT)
            .otherwise(DELETED),
        )
        .withColumn("last_at", F.greatest("at", "_offsets_at"))
    )
    return conform(rows, DEAD_GROUPS)


def compaction(events: DataFrame) -> DataFrame:
    """EVENTS to COMPACTION: what a cleaner would drop from each partition of the log.

    Superseded are all records of a key but the last; tombstones, where they are the last, go
    later, after `delete.retention.ms`. Bytes are estimated from what the records hold, before any
    compression.
    """
    rows = (
        events.where(~of_kind(DAMAGED))
        .withColumn(
            "_of",
            F.when(of_kind(COMMIT, COMMIT_TOMBSTONE), "offset")
            .when(of_kind(GROUP, GROUP_TOMBSTONE), "group")
            .otherwise("unknown"),
        )
        .withColumn("_bytes", _bytes())
        .groupBy("log_partition", "_of", "group_id", "topic", "partition", "raw_key")
        .agg(
            F.count("*").alias("records"),
            F.sum("_bytes").alias("bytes"),
            F.max_by(F.struct("kind", "_bytes"), "log_offset").alias("last"),
        )
        # without a key nothing is superseded
        .withColumn("live", F.when(_no_key(), F.col("records")).otherwise(F.lit(1)))
        .withColumn("live_bytes", F.when(_no_key(), F.col("bytes")).otherwise(F.col("last._bytes")))
        .groupBy("log_partition")
        .agg(
            F.sum("records").alias("records"),
            F.sum(F.col("records") - F.col("live")).alias("superseded_records"),
            F.count_if(F.col("last.kind").isin(COMMIT_TOMBSTONE, GROUP_TOMBSTONE)).alias(
                "tombstones"
            ),
            F.sum("bytes").alias("bytes_estimate"),
            F.sum(F.col("bytes") - F.col("live_bytes")).alias("superseded_bytes_estimate"),
        )
        .withColumn("saved_share", F.try_divide("superseded_bytes_estimate", "bytes_estimate"))
    )
    return conform(rows, COMPACTION)


def _last_offsets(events: DataFrame) -> DataFrame:
    """The last record of each group's partition."""
    key = ("log_partition", "group_id", "topic", "partition")
    value = F.struct(
        "kind",
        "committed_offset",
        "expire_at",
        F.coalesce("commit_at", "written_at").alias("committed_at"),
    )
    return (
        events.where(of_kind(COMMIT, COMMIT_TOMBSTONE))
        .groupBy(*key)
        .agg(F.max_by(value, "log_offset").alias("last"), F.max("log_offset").alias("log_offset"))
        .select(*key, "log_offset", "last.*")
    )


def _last_groups(events: DataFrame) -> DataFrame:
    """The last record of each group; members are null after a tombstone."""
    alive = of_kind(GROUP)
    value = F.struct(
        *[F.when(alive, F.col(n)).alias(n) for n in ("protocol_type", "generation", "state_at")],
        F.when(alive, F.coalesce(F.col("members"), F.array())).alias("members"),
        grouped_at().alias("at"),
    )
    return (
        events.where(of_kind(GROUP, GROUP_TOMBSTONE))
        .groupBy("log_partition", "group_id")
        .agg(F.max_by(value, "log_offset").alias("last"))
        .select("log_partition", "group_id", "last.*")
    )


def _no_key() -> Column:
    return (F.col("_of") == "unknown") & F.col("raw_key").isNull()


def _bytes() -> Column:
    """A record's size: docs/consumer-offsets.md has the fields. A string's length takes two."""
    offset = 10 + _size("group_id") + _size("topic")
    group = 4 + _size("group_id")
    members = F.aggregate(
        F.coalesce(F.col("members"), F.array()), F.lit(0), lambda total, m: total + _member_bytes(m)
    )
    return F.lit(_RECORD_BYTES) + (
        F.when(of_kind(COMMIT), offset + 24 + _size("metadata"))
        .when(of_kind(COMMIT_TOMBSTONE), offset)
        .when(of_kind(GROUP_TOMBSTONE), group)
        .when(
            of_kind(GROUP),
            group + 24 + _size("protocol_type") + _size("protocol") + _size("leader") + members,
        )
        .otherwise(_size("raw_key") + _size("raw_value"))
    )


def _member_bytes(member: Column) -> Column:
    names = ("member_id", "group_instance_id", "client_id", "client_host")
    total = F.lit(24 + 20)
    for name in names:
        total = total + _size(member[name])
    topics = F.coalesce(member["subscription"], F.array().cast("array<string>"))
    held = F.coalesce(member["assignment"], F.array())
    return (
        total
        + F.aggregate(topics, F.lit(0), lambda sum_, topic: sum_ + 2 + _size(topic))
        + F.aggregate(
            held,
            F.lit(0),
            lambda sum_, each: sum_ + 6 + _size(each["topic"]) + 4 * F.size(each["partitions"]),
        )
    )


def _size(column: str | Column) -> Column:
    return F.coalesce(F.octet_length(column), F.lit(0))
