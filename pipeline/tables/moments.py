"""When things happened: times of events, minutes, and the times of a topic's records."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

MINUTE_MS = 60_000


def committed_at() -> Column:
    """When a commit or its tombstone reached the log; the value's own time where it does not say.

    A client of OffsetCommit v1 names the value's time itself, so that the record's comes first.
    """
    return F.coalesce(F.col("written_at"), F.col("commit_at"))


def grouped_at() -> Column:
    """When a group's record reached the log; else the time of the state that it has."""
    return F.coalesce(F.col("written_at"), F.col("state_at"))


def minute_of(at: str) -> Column:
    """The beginning of the minute."""
    return F.date_trunc("minute", F.col(at))


def day_of(at: str) -> Column:
    """The day in UTC, by which the large tables are laid out."""
    return F.to_date(F.col(at))


def seconds_between(earlier: Column, later: Column) -> Column:
    """Seconds, exact to the millisecond; negative when it went the other way."""
    return (F.unix_millis(later) - F.unix_millis(earlier)) / F.lit(1000.0)


def with_record_time(
    frame: DataFrame, batches: DataFrame | None, offset: str, into: str
) -> DataFrame:
    """Add ``into``: the time of the first record at or after the offset in column ``offset``.

    It is exact to the batch: an offset in its midst has the time of its first record. Null where
    no such record is known, or the offset is null. ``frame`` has columns topic and partition; it
    and ``batches`` go through one sort by offset from the end, so that no offset is joined with
    each batch. An offset in a hole that compaction made has the next batch's time.
    """
    if batches is None:
        return frame.withColumn(into, F.lit(None).cast("timestamp"))
    known = batches.select(
        "topic",
        "partition",
        F.col("last_offset").alias("_place"),
        F.struct(F.col("first_at").alias("at")).alias("_batch"),
    )
    asked = frame.withColumn("_place", F.col(offset)).withColumn("_asked", F.lit(True))
    from_the_end = (
        Window.partitionBy("topic", "partition")
        .orderBy(F.col("_place").desc_nulls_last(), F.col("_asked").asc_nulls_first())
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    nearest = F.last("_batch", ignorenulls=True).over(from_the_end)
    return (
        asked.unionByName(known, allowMissingColumns=True)
        .withColumn(into, F.when(F.col("_place").isNotNull(), nearest["at"]))
        .where(F.col("_asked"))
        .drop("_place", "_batch", "_asked")
    )
