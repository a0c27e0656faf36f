"""How far behind groups are, minute by minute, and whether they will ever catch up.

A group's offset as of a minute's end is the last that it had committed by then: minutes without
commits carry it forward, up to the end of the history, for a group that has stopped falls behind
too. That is bounded: no more than LAG_MINUTES, the last of the history, for a partition of a group.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pipeline.contract import COMMIT, COMMIT_TOMBSTONE, conform, of_kind
from pipeline.tables.moments import (
    MINUTE_MS,
    committed_at,
    day_of,
    minute_of,
    seconds_between,
    with_record_time,
)
from pipeline.tables.schemas import CATCH_UP, LAG

LAG_MINUTES: Final = 1440
"""A day."""
RECENT_MINUTES: Final = 10
"""The present rates are those of this many minutes, the last of the history."""
KEY = ("group_id", "topic", "partition")

CAUGHT_UP, CATCHING_UP, LEVEL = "caught up", "catching up", "level"
FALLING_BEHIND, STOPPED, UNKNOWN_RATE = "falling behind", "stopped", "not known"


def lag(
    events: DataFrame, batches: DataFrame | None, now: datetime, minutes: int = LAG_MINUTES
) -> DataFrame:
    """EVENTS and BATCHES to LAG: lag in records and in seconds at each minute's end.

    In seconds it is the age of the first record not read, exact to the batch. Both are null where
    the topic's batches are not known. Nothing after ``now`` counts; the last minute is as of the
    end of the history.
    """
    end = _end_of_history(events, batches, now)
    held = _held_by_minute(events, end, minutes)
    held = with_record_time(held, batches, "committed_offset", "unread_at")
    rows = (
        held.where(F.col("committed_offset").isNotNull())
        .withColumn(
            "minute", F.explode(F.sequence("minute", "_until", F.expr("interval 1 minute")))
        )
        .withColumn("as_of", F.least(_later("minute", MINUTE_MS), F.col("_end")))
    )
    rows = _with_end_offset(rows, batches)
    behind = F.greatest(F.try_subtract("end_offset", "committed_offset"), F.lit(0))
    known = F.col("end_offset").isNotNull()
    age = F.greatest(seconds_between(F.col("unread_at"), F.col("as_of")), F.lit(0.0))
    rows = (
        rows.withColumn("lag_records", F.when(known, behind))
        .withColumn("unread_at", F.when((F.col("lag_records") > 0), F.col("unread_at")))
        .withColumn(
            "lag_s",
            F.when(F.col("lag_records") == 0, F.lit(0.0)).when(
                F.col("lag_records") > 0, _known(age)
            ),
        )
        .withColumn("day", day_of("minute"))
    )
    return conform(rows, LAG)


def catch_up(lag: DataFrame, minutes: int = RECENT_MINUTES) -> DataFrame:
    """LAG to CATCH_UP: where each group's partition is heading, by the rates of the last minutes.

    `never` is set for one that falls behind, or has stopped with records unread. Partitions whose
    offsets were deleted before the end, or whose lag is not known, have no row.
    """
    last = lag.agg(F.max("minute").alias("_last"))
    recent = lag.crossJoin(F.broadcast(last)).where(
        F.col("end_offset").isNotNull() & (F.col("minute") >= _later("_last", -minutes * MINUTE_MS))
    )
    first, final = (
        F.struct("as_of", "committed_offset", "end_offset"),
        F.struct(
            "as_of", "committed_offset", "end_offset", "lag_records", "lag_s", "minute", "_last"
        ),
    )
    rows = (
        recent.groupBy(*KEY)
        .agg(F.min_by(first, "minute").alias("a"), F.max_by(final, "minute").alias("b"))
        .where(F.col("b.minute") == F.col("b._last"))
        .select(*KEY, "a", "b", "b.as_of", "b.lag_records", "b.lag_s")
        .withColumn("observed_s", seconds_between(F.col("a.as_of"), F.col("b.as_of")))
    )
    consumed = F.try_subtract("b.committed_offset", "a.committed_offset")
    produced = F.try_subtract("b.end_offset", "a.end_offset")
    rows = (
        rows.withColumn("consumed_per_s", F.try_divide(consumed, F.col("observed_s")))
        .withColumn("produced_per_s", F.try_divide(produced, F.col("observed_s")))
        .withColumn("grown_records", F.try_subtract(produced, consumed))
        .withColumn("verdict", _verdict())
    )
    gained = F.col("consumed_per_s") - F.col("produced_per_s")
    rows = rows.withColumn("never", F.col("verdict").isin(FALLING_BEHIND, STOPPED)).withColumn(
        "catch_up_s",
        F.when(F.col("verdict") == CAUGHT_UP, F.lit(0.0)).when(
            F.col("verdict") == CATCHING_UP, F.try_divide(F.col("lag_records"), gained)
        ),
    )
    return conform(rows, CATCH_UP)


def _end_of_history(events: DataFrame, batches: DataFrame | None, now: datetime) -> DataFrame:
    """One row, `_end`: the last thing that happened, in the log or in the topics, before now.

    A producer's clock may be far ahead, hence ``now``.
    """
    times = events.where(of_kind(COMMIT, COMMIT_TOMBSTONE)).select(committed_at().alias("at"))
    if batches is not None:
        times = times.unionByName(batches.select(F.col("max_at").alias("at")))
    return times.agg(F.least(F.max("at"), F.lit(now)).alias("_end"))


def _held_by_minute(events: DataFrame, end: DataFrame, minutes: int) -> DataFrame:
    """The last commit, or null for a tombstone, of each key and minute in which there was one.

    `_until` is the last minute that it holds for. What is older than the window counts in its
    first minute.
    """
    points = (
        events.where(of_kind(COMMIT, COMMIT_TOMBSTONE))
        .select(*KEY, "log_offset", "committed_offset", committed_at().alias("at"))
        .crossJoin(F.broadcast(end))
        .where(F.col("at") <= F.col("_end"))
        .withColumn("_last", minute_of("_end"))
        .withColumn(
            "minute", F.greatest(minute_of("at"), _later("_last", -(minutes - 1) * MINUTE_MS))
        )
    )
    held = (
        points.groupBy(*KEY, "minute", "_last", "_end")
        .agg(
            F.max_by(
                F.struct("committed_offset", F.col("at").alias("committed_at")), "log_offset"
            ).alias("_held")
        )
        .select("*", "_held.*")
    )
    next_minute = F.lead("minute").over(Window.partitionBy(*KEY).orderBy("minute"))
    before_next = F.timestamp_millis(F.unix_millis(next_minute) - MINUTE_MS)
    return held.withColumn("_until", F.coalesce(before_next, F.col("_last"))).drop("_held")


def _with_end_offset(rows: DataFrame, batches: DataFrame | None) -> DataFrame:
    """Add `end_offset`, that of the partition's log at the end of `minute`.

    A batch counts from the minute of its greatest timestamp. The batches of one minute are
    one row before they meet the rows, in one sort by minute.
    """
    if batches is None:
        return rows.withColumn("end_offset", F.lit(None).cast("long"))
    always = F.timestamp_millis(F.lit(0))
    ends = (
        batches.withColumn("minute", F.coalesce(minute_of("max_at"), always))
        .groupBy("topic", "partition", "minute")
        .agg((F.max("last_offset") + 1).alias("_ends"))
    )
    so_far = (
        Window.partitionBy("topic", "partition")
        .orderBy("minute")
        .rangeBetween(Window.unboundedPreceding, Window.currentRow)
    )
    return (
        rows.unionByName(ends, allowMissingColumns=True)
        .withColumn("end_offset", F.max("_ends").over(so_far))
        .where(F.col("_ends").isNull())
    )


def _verdict() -> Column:
    consumed, grown = F.col("consumed_per_s"), F.col("grown_records")
    return (
        F.when(F.col("lag_records") == 0, CAUGHT_UP)
        .when(consumed.isNull() | grown.isNull(), UNKNOWN_RATE)
        .when(consumed <= 0, STOPPED)
        .when(grown > 0, FALLING_BEHIND)
        .when(grown < 0, CATCHING_UP)
        .otherwise(LEVEL)
    )


def _known(age: Column) -> Column:
    """Records whose time is not known have no age."""
    return F.when(F.col("unread_at").isNotNull(), age)


def _later(column: str, by_ms: int) -> Column:
    return F.timestamp_millis(F.unix_millis(F.col(column)) + by_ms)
