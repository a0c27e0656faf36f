"""Commits, each with the one before it; who moved backwards; and rates by the minute."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pipeline.contract import COMMIT, COMMIT_TOMBSTONE, GROUP, GROUP_TOMBSTONE, conform, of_kind
from pipeline.tables.moments import (
    committed_at,
    day_of,
    minute_of,
    seconds_between,
    with_record_time,
)
from pipeline.tables.schemas import COMMITS, PERSON, RATES, REWINDS

KEY = ("log_partition", "group_id", "topic", "partition")
"""What identifies a chain of commits. A group lives in one partition of the log."""


def commits(events: DataFrame, batches: DataFrame | None = None) -> DataFrame:
    """EVENTS, or CHAINED (and BATCHES of the topics, for their own time) to COMMITS.

    Each commit knows the previous one of its group and partition in the log's order; the first,
    and the first after a tombstone, knows none.
    """
    rows = events.where(of_kind(COMMIT, COMMIT_TOMBSTONE)).select(
        *KEY,
        "log_offset",
        "kind",
        committed_at().alias("at"),
        "committed_offset",
        "leader_epoch",
        "metadata",
        "commit_at",
        "expire_at",
        *[name for name in ("previous_offset", "previous_at") if name in events.columns],
    )
    rows = with_record_time(rows, batches, "committed_offset", "record_at")
    if "previous_offset" in events.columns:
        rows = rows.where(of_kind(COMMIT))
        rows = with_record_time(rows, batches, "previous_offset", "_previous_record_at")
    else:
        rows = _with_previous(rows)
    rows = (
        rows.withColumn("since_previous_s", seconds_between(F.col("previous_at"), F.col("at")))
        .withColumn(
            # what a client commits is not checked by brokers: two far ends may not have a distance
            "advanced_records",
            F.try_subtract(F.col("committed_offset"), F.col("previous_offset")),
        )
        .withColumn("advanced_s", seconds_between(F.col("_previous_record_at"), F.col("record_at")))
        .withColumn("day", day_of("at"))
    )
    return conform(rows, COMMITS)


def _with_previous(rows: DataFrame) -> DataFrame:
    """The commits among the rows, with what the one before it of the same key had."""
    chain = Window.partitionBy(*KEY).orderBy("log_offset")

    def previous(name: str) -> Column:
        """Null for a tombstone."""
        value = F.when(F.col("kind") == COMMIT, F.col(name))
        return F.lag(value).over(chain)

    return rows.select(
        "*",
        previous("committed_offset").alias("previous_offset"),
        previous("at").alias("previous_at"),
        previous("record_at").alias("_previous_record_at"),
    ).where(of_kind(COMMIT))


def rewinds(commits: DataFrame, events: DataFrame) -> DataFrame:
    """COMMITS and EVENTS to REWINDS: commits below the one before, and who was in the group then.

    `owner` is the member that the partition was assigned to: null when nobody held it, as when an
    offset was set by an administrator, or when the assignment is not one of consumers.
    """
    back = commits.where(F.col("committed_offset") < F.col("previous_offset"))
    states = events.where(of_kind(GROUP, GROUP_TOMBSTONE)).select(
        "log_partition",
        "group_id",
        "log_offset",
        F.struct(
            F.when(of_kind(GROUP), F.col("generation")).alias("generation"),
            F.when(of_kind(GROUP), F.col("members")).alias("members"),
        ).alias("_state"),
    )
    life = (
        Window.partitionBy("log_partition", "group_id")
        .orderBy("log_offset")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    state = F.col("_then")
    both = (
        back.unionByName(states, allowMissingColumns=True)
        .withColumn("_then", F.last("_state", ignorenulls=True).over(life))
        .where(F.col("_state").isNull())
    )
    owners = F.filter(state["members"], _holds_the_partition)
    rows = (
        both.withColumn("generation", state["generation"])
        .withColumn("members", F.transform(state["members"], person))
        .withColumn("owner", F.get(F.transform(owners, person), F.lit(0)))
        .withColumn("rewound_records", F.try_subtract(F.lit(0), F.col("advanced_records")))
        .withColumn("rewound_s", -F.col("advanced_s"))
    )
    return conform(rows, REWINDS)


def rates(commits: DataFrame) -> DataFrame:
    """COMMITS to RATES: a row for each group, topic and minute in which there was a commit."""
    advance = F.col("advanced_records")
    rows = (
        commits.withColumn("minute", minute_of("at"))
        .groupBy("group_id", "topic", "minute")
        .agg(
            F.count_distinct("partition").alias("partitions"),
            F.count("*").alias("commits"),
            _sum(F.when(advance > 0, advance)).alias("advanced_records"),
            _sum(F.when(advance < 0, F.try_subtract(F.lit(0), advance))).alias("rewound_records"),
            F.sum("advanced_s").alias("advanced_s"),
        )
        .withColumn("day", day_of("minute"))
    )
    return conform(rows, RATES)


def person(member: Column) -> Column:
    """A member as people know it, in the shape of PERSON."""
    return F.struct(*[member[name].alias(name) for name in PERSON.fieldNames()])


def _holds_the_partition(member: Column) -> Column:
    return F.exists(
        member["assignment"],
        lambda held: (
            (held["topic"] == F.col("topic"))
            & F.array_contains(held["partitions"], F.col("partition"))
        ),
    )


def _sum(value: Column) -> Column:
    """0 for nothing; null where the sum does not fit a long."""
    return F.try_sum(F.coalesce(value, F.lit(0)))
