"""What the report shows: collected from the tables, bounded however large they are.

Spark adds up and cuts; what comes back are plain rows, times in milliseconds since 1970 (UTC).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F

LINES: Final = 8
TIMELINES: Final = 12
GENERATIONS: Final = 300
"""The latest of each group in the timeline."""
HEAT_ROWS: Final = 20
HEAT_COLUMNS: Final = 120
ROWS: Final = 10

Tables = Callable[[str], DataFrame]


class Shown(NamedTuple):
    """So many of so many groups; what is shown are those with most of it."""

    groups: list[str]
    of: int


NOBODY: Final = Shown([], 0)


class Bar(NamedTuple):
    """A generation."""

    group_id: str
    generation: int
    began_ms: int
    ended_ms: int | None
    change: str
    members: int
    joined: list[str]
    left: list[str]
    moved: int
    protocol: str | None


@dataclass(frozen=True)
class Facts:
    """All that a report shows."""

    began_ms: int | None
    ended_ms: int | None
    counts: dict[str, int]
    lag: dict[str, list[tuple[int, int, float | None]]] = field(default_factory=dict)
    """Of each group: (end of the minute, records, age in seconds of the oldest unread)."""
    lag_shown: Shown = NOBODY
    bars: list[Bar] = field(default_factory=list)
    bars_shown: Shown = NOBODY
    heat: dict[tuple[str, int], int] = field(default_factory=dict)
    """Commits by (group, column)."""
    heat_shown: Shown = NOBODY
    heat_began_ms: int = 0
    heat_column_ms: int = 60_000
    rewinds: list[Row] = field(default_factory=list)
    churn: list[Row] = field(default_factory=list)
    restless: list[Row] = field(default_factory=list)
    behind: list[Row] = field(default_factory=list)
    expiring: list[Row] = field(default_factory=list)


def collect(tables: Tables) -> Facts:
    """Read the tables that a run of `all` has made."""
    began, ended, groups = _span(tables)
    lag, lag_shown = _lag(tables("lag"))
    bars, bars_shown = _bars(tables("generations"), tables("churn"))
    heat = _heat(tables("rates"))
    never = tables("catch_up").where("never")
    return Facts(
        began,
        ended,
        {"groups": groups, **_counts(tables)},
        lag,
        lag_shown,
        bars,
        bars_shown,
        *heat,
        rewinds=_top(tables("rewinds"), F.desc("rewound_records"), at=F.unix_millis("at")),
        churn=_top(tables("churn").where("rebalances > 0"), F.desc("rebalances")),
        restless=_top(tables("restless_members"), F.desc("rebalances")),
        behind=_top(never, F.desc("lag_records")),
        expiring=_expiring(tables("expiring_offsets")),
    )


def _counts(tables: Tables) -> dict[str, int]:
    """How many of each, in one query."""
    counted = {
        "commits": tables("commits"),
        "generations": tables("generations"),
        "rewinds": tables("rewinds"),
        "never": tables("catch_up").where("never"),
        "expired": tables("expiring_offsets").where("expired"),
        "dead": tables("dead_groups"),
    }
    each = [table.agg(F.lit(name), F.count("*")) for name, table in counted.items()]
    return {row[0]: row[1] for row in reduce(DataFrame.unionAll, each).collect()}


def _span(tables: Tables) -> tuple[int | None, int | None, int]:
    """From when to when the history goes, and how many groups it has."""
    times = tables("commits").select("group_id", F.col("at").alias("at"))
    times = times.unionByName(
        tables("generations").select("group_id", F.col("began_at").alias("at"))
    )
    row = times.agg(
        F.unix_millis(F.min("at")), F.unix_millis(F.max("at")), F.count_distinct("group_id")
    ).collect()[0]
    return row[0], row[1], row[2]


def _top_groups(frame: DataFrame, most: Column, limit: int) -> Shown:
    of = frame.groupBy("group_id").agg(most.alias("most"))
    best = of.orderBy(F.desc("most"), "group_id").limit(limit).collect()
    return Shown([row.group_id for row in best], of.count() if len(best) == limit else len(best))


def _of_groups(frame: DataFrame, shown: Shown) -> DataFrame:
    return frame.where(F.col("group_id").isin(*shown.groups))


def _lag(lag: DataFrame) -> tuple[dict[str, list[tuple[int, int, float | None]]], Shown]:
    per_group = (
        lag.where(F.col("lag_records").isNotNull())
        .groupBy("group_id", "as_of")
        .agg(F.try_sum("lag_records").alias("records"), F.max("lag_s").alias("seconds"))
    )
    shown = _top_groups(per_group, F.max("records"), LINES)
    lines: dict[str, list[tuple[int, int, float | None]]] = {name: [] for name in shown.groups}
    rows = _of_groups(per_group, shown).select(
        "group_id", F.unix_millis("as_of").alias("ms"), F.coalesce("records", F.lit(0)), "seconds"
    )
    for name, ms, records, seconds in rows.orderBy("ms").collect():
        lines[name].append((ms, records, seconds))
    return lines, shown


def _bars(generations: DataFrame, churn: DataFrame) -> tuple[list[Bar], Shown]:
    shown = _top_groups(churn, F.max("generations"), TIMELINES)
    latest = Window.partitionBy("group_id").orderBy(F.desc("life"), F.desc("log_offset"))
    rows = (
        _of_groups(generations, shown)
        .withColumn("_nth", F.row_number().over(latest))
        .where(F.col("_nth") <= GENERATIONS)
        .orderBy("group_id", F.desc("_nth"))
        .select(
            "group_id",
            "generation",
            F.unix_millis("began_at"),
            F.unix_millis("ended_at"),
            "change",
            "member_count",
            *[F.slice(F.col(f"{who}.client_id"), 1, ROWS) for who in ("joined", "left")],
            F.size("moved"),
            "protocol",
        )
    )
    return [Bar(*row) for row in rows.collect() if row[2] is not None], shown


def _heat(rates: DataFrame) -> tuple[dict[tuple[str, int], int], Shown, int, int]:
    shown = _top_groups(rates, F.sum("commits"), HEAT_ROWS)
    of = _of_groups(rates.where(F.col("minute").isNotNull()), shown)
    first, last = of.agg(F.unix_millis(F.min("minute")), F.unix_millis(F.max("minute"))).collect()[
        0
    ]
    if first is None:
        return {}, shown, 0, 60_000
    minutes = (last - first) // 60_000 + 1
    column_ms = -(-minutes // HEAT_COLUMNS) * 60_000
    column = F.floor((F.unix_millis("minute") - first) / column_ms)
    cells = of.groupBy("group_id", column.alias("column")).agg(F.sum("commits").alias("commits"))
    heat = {(row.group_id, int(row.column)): row.commits for row in cells.collect()}
    return heat, shown, first, column_ms


def _top(frame: DataFrame, order: Column, **columns: Column) -> list[Row]:
    for name, column in columns.items():
        frame = frame.withColumn(name, column)
    return frame.orderBy(order, "group_id").limit(ROWS).collect()


def _expiring(offsets: DataFrame) -> list[Row]:
    """The groups with the offsets that expire next."""
    soon = offsets.where(F.col("expires_at").isNotNull()).groupBy("group_id", "rule")
    return (
        soon.agg(
            F.count("*").alias("offsets"),
            F.count_if("expired").alias("expired"),
            F.unix_millis(F.min("expires_at")).alias("expires_ms"),
        )
        .orderBy("expires_ms", "group_id")
        .limit(ROWS)
        .collect()
    )
