"""The generations of groups: who was in, what changed, for how long; and who unsettles a group.

A log holds several records of one generation: Kafka writes a group anew when a static member comes
back under a new member id. A generation's row begins with its first record and has what its last
one says. A group that was deleted begins again at generation 1: its `life` counts how often it had
been deleted. Windows and groups all hash by (log_partition, group_id), so that Spark shuffles once.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pipeline.contract import GROUP, GROUP_TOMBSTONE, conform, of_kind
from pipeline.tables.commits import person
from pipeline.tables.moments import grouped_at, seconds_between
from pipeline.tables.schemas import (
    CHURN,
    GENERATION_MEMBERS,
    GENERATIONS,
    HOLDING,
    MOVES,
    PERSON,
    PERSONS,
    RESTLESS_MEMBERS,
)

GROUP_KEY = ("log_partition", "group_id")
LIFE = (*GROUP_KEY, "life")

FIRST, FIRST_SEEN, EMPTIED = "first", "first seen", "emptied"
JOINED, LEFT, JOINED_AND_LEFT = "joined", "left", "joined and left"
SAME_MEMBERS = "same members"
"""A member asked for it: its subscription changed, or the leader joined again."""


def generations(events: DataFrame) -> DataFrame:
    """EVENTS to GENERATIONS: one row for each group, life and generation."""
    found = _numbered(_folded(events))
    changes = _member_changes(found).unionByName(_moves(found), allowMissingColumns=True)
    changed = changes.groupBy(*LIFE, "nth").agg(
        *[F.sort_array(F.collect_list(name)).alias(name) for name in ("joined", "left", "moved")]
    )
    rows = found.join(changed, on=[*LIFE, "nth"], how="left")
    for name, kind in (("joined", PERSONS), ("left", PERSONS), ("moved", MOVES)):
        rows = rows.withColumn(name, F.coalesce(F.col(name), F.array().cast(kind)))
    rows = (
        rows.withColumn("change", _change())
        .withColumn("duration_s", seconds_between(F.col("began_at"), F.col("ended_at")))
        .withColumn("hosts", F.array_sort(F.array_distinct(F.col("members.client_host"))))
        .withColumn(
            "assigned_partitions",
            F.aggregate(
                F.flatten(F.transform("members", _holdings)),
                F.lit(0),
                lambda total, held: total + F.coalesce(F.size(held["partitions"]), F.lit(0)),
            ),
        )
    )
    return conform(rows, GENERATIONS)


def churn(generations: DataFrame) -> DataFrame:
    """GENERATIONS to CHURN: how restless each group was, over all that the log has of it.

    `rebalances` counts generations that passed between those seen too, by their numbers; the rate
    is null where there is but one.
    """
    latest = F.struct("life", "log_offset")
    rows = generations.groupBy("group_id").agg(
        F.count_distinct("life").alias("lives"),
        F.count("*").alias("generations"),
        (F.count("*") + F.sum("unseen") - F.count_distinct("life")).alias("rebalances"),
        F.sum(F.size("joined")).alias("members_joined"),
        F.sum(F.size("left")).alias("members_left"),
        F.sum(F.size("moved")).alias("partitions_moved"),
        F.median("duration_s").alias("median_generation_s"),
        F.max_by("member_count", latest).alias("member_count"),
        F.max_by("change", latest).alias("last_change"),
        F.min("began_at").alias("first_at"),
        F.max("began_at").alias("last_at"),
    )
    hours = seconds_between(F.col("first_at"), F.col("last_at")) / 3600
    rows = rows.withColumn("rebalances_per_hour", F.try_divide(F.col("rebalances"), hours))
    return conform(rows, CHURN)


def restless_members(generations: DataFrame) -> DataFrame:
    """GENERATIONS to RESTLESS_MEMBERS: the members that made the most generations.

    A member is known by client id, host and instance id: its member id is new each time it comes.
    `share` is of all generations of the group.
    """
    whole = generations.groupBy("group_id").agg(F.count("*").alias("_all"))
    changed = generations.select(
        "group_id",
        "life",
        "generation",
        "began_at",
        F.explode(F.concat(_changed("joined", True), _changed("left", False))).alias("changed"),
    ).select("*", "changed.joined", "changed.who.*")
    rows = (
        changed.groupBy("group_id", "client_id", "client_host", "group_instance_id")
        .agg(
            F.count_distinct("life", "generation").alias("rebalances"),
            F.count_if(F.col("joined")).alias("joins"),
            F.count_if(~F.col("joined")).alias("leaves"),
            F.count_distinct("member_id").alias("member_ids"),
            F.min("began_at").alias("first_at"),
            F.max("began_at").alias("last_at"),
        )
        .join(whole, "group_id")
        .withColumn("share", F.col("rebalances") / F.col("_all"))
    )
    return conform(rows, RESTLESS_MEMBERS)


def _folded(events: DataFrame) -> DataFrame:
    """One row for each generation, of its records; `deleted_at` is when its life ended."""
    before = (
        Window.partitionBy(*GROUP_KEY)
        .orderBy("log_offset")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    deleted = F.when(of_kind(GROUP_TOMBSTONE), F.lit(1))
    records = (
        events.where(of_kind(GROUP, GROUP_TOMBSTONE))
        .select(
            *GROUP_KEY,
            "log_offset",
            "kind",
            grouped_at().alias("at"),
            *("generation", "protocol_type", "protocol", "leader"),
            F.coalesce(F.transform("members", _member), F.array().cast(GENERATION_MEMBERS)).alias(
                "members"
            ),
        )
        .withColumn("life", F.coalesce(F.sum(deleted).over(before), F.lit(0)))
        .withColumn(
            "deleted_at",
            F.min(F.when(of_kind(GROUP_TOMBSTONE), F.col("at"))).over(Window.partitionBy(*LIFE)),
        )
    )
    last = F.struct("protocol_type", "protocol", "leader", "members")
    return (
        records.where(of_kind(GROUP))
        .groupBy(*LIFE, "generation")
        .agg(
            F.min("log_offset").alias("log_offset"),
            F.min_by("at", "log_offset").alias("began_at"),
            F.count("*").alias("records"),
            F.first("deleted_at").alias("deleted_at"),
            F.max_by(last, "log_offset").alias("last"),
        )
        .select("*", "last.*")
    )


def _numbered(rows: DataFrame) -> DataFrame:
    """What the generation before it was decides much about each one; `nth` counts from 1."""
    order = Window.partitionBy(*LIFE).orderBy("log_offset")
    leading = F.get(
        F.filter("members", lambda member: member["member_id"] == F.col("leader")), F.lit(0)
    )

    def changed(value: Column) -> Column:
        return F.coalesce(F.lag(value).over(order) != value, F.lit(False))

    return (
        rows.withColumn("member_count", F.size("members"))
        .withColumn("nth", F.row_number().over(order))
        .withColumn("ended_at", F.coalesce(F.lead("began_at").over(order), F.col("deleted_at")))
        .withColumn("leader_changed", changed(_identity(leading)))
        .withColumn("protocol_changed", changed(F.col("protocol")))
        .withColumn(
            "unseen",
            F.greatest(
                F.coalesce(
                    F.try_subtract("generation", F.lag("generation").over(order)) - 1, F.lit(0)
                ),
                F.lit(0),
            ),
        )
    )


def _member_changes(found: DataFrame) -> DataFrame:
    """(life, nth, joined or left): who was not there the generation before, or is no more.

    Who is in the first generation seen has joined in it only if it is the group's first.
    """
    there = found.select(*LIFE, "nth", "generation", F.explode("members").alias("member")).select(
        "*", _identity(F.col("member")).alias("who"), person(F.col("member")).alias("person")
    )
    stay = Window.partitionBy(*LIFE, "who").orderBy("nth")
    there = there.withColumn("_before", F.lag("nth").over(stay)).withColumn(
        "_after", F.lead("nth").over(stay)
    )
    came = ~F.col("_before").eqNullSafe(F.col("nth") - 1)
    known = (F.col("nth") > 1) | (F.col("generation") <= 1)
    went = ~F.col("_after").eqNullSafe(F.col("nth") + 1)
    joined = there.where(came & known).select(*LIFE, "nth", F.col("person").alias("joined"))
    left = there.where(went).select(
        *LIFE, (F.col("nth") + 1).alias("nth"), F.col("person").alias("left")
    )
    return joined.unionByName(left, allowMissingColumns=True)


def _moves(found: DataFrame) -> DataFrame:
    """(life, nth, moved): partitions that had another owner the generation before."""
    held = (
        found.select(*LIFE, "nth", F.explode("members").alias("member"))
        .select("*", F.explode("member.assignment").alias("held"))
        .select(
            *LIFE,
            "nth",
            "held.topic",
            F.explode("held.partitions").alias("partition"),
            _identity(F.col("member")).alias("who"),
            F.col("member.member_id").alias("member_id"),
        )
    )
    hands = Window.partitionBy(*LIFE, "topic", "partition").orderBy("nth")
    held = (
        held.withColumn("_nth", F.lag("nth").over(hands))
        .withColumn("_who", F.lag("who").over(hands))
        .withColumn("_member_id", F.lag("member_id").over(hands))
    )
    return held.where((F.col("_nth") == F.col("nth") - 1) & (F.col("_who") != F.col("who"))).select(
        *LIFE,
        "nth",
        F.struct(
            "topic",
            "partition",
            F.col("_member_id").alias("from_member"),
            F.col("member_id").alias("to_member"),
        ).alias("moved"),
    )


def _change() -> Column:
    """Why there was this generation, as far as its members show."""
    came, went = F.size("joined") > 0, F.size("left") > 0
    return (
        F.when((F.col("nth") == 1) & (F.col("generation") > 1), FIRST_SEEN)
        .when(F.col("nth") == 1, FIRST)
        .when(F.col("member_count") == 0, EMPTIED)
        .when(came & went, JOINED_AND_LEFT)
        .when(came, JOINED)
        .when(went, LEFT)
        .otherwise(SAME_MEMBERS)
    )


def _identity(member: Column) -> Column:
    """What identifies a member that joins again: of a static one its instance id."""
    instance = member["group_instance_id"]
    return F.when(instance.isNotNull(), F.concat(F.lit("i:"), instance)).otherwise(
        F.concat(F.lit("m:"), member["member_id"])
    )


def _member(member: Column) -> Column:
    return F.struct(
        *[member[name].alias(name) for name in PERSON.fieldNames()],
        member["assignment"].alias("assignment"),
    )


def _holdings(member: Column) -> Column:
    return F.coalesce(member["assignment"], F.array().cast(HOLDING))


def _changed(column: str, joined: bool) -> Column:
    return F.transform(
        column, lambda who: F.struct(F.lit(joined).alias("joined"), who.alias("who"))
    )
