"""How many rows each table has and a few figures about it, for the summary and the report's head.

One query a table: what is asked are aggregates of one row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from pipeline.times import instant


class Figure(NamedTuple):
    """One number with its name."""

    label: str
    text: str


class Query(NamedTuple):
    """What is asked of a table, and the figures that the answer makes."""

    columns: Callable[[], list[Column]]
    """Aggregates."""
    figures: Callable[[Row], list[Figure]]
    folded: Callable[[DataFrame], DataFrame] = lambda table: table.withColumn("_rows", F.lit(1))
    """What the aggregates are over: rows that stand for as many as `_rows` says."""


def figures_of(name: str, table: DataFrame) -> tuple[int, tuple[Figure, ...]]:
    """The number of rows of a table, and its figures, in one query."""
    query = FIGURES.get(name)
    if query is None:
        return table.count(), ()
    over = query.folded(table)
    row = over.agg(F.coalesce(F.sum("_rows"), F.lit(0)), *query.columns()).collect()[0]
    rows: int = row[0]
    return rows, tuple(query.figures(Row(*row[1:]))) if rows else ()


def _by_topic(table: DataFrame) -> DataFrame:
    """Counted distinct at once, each row would become two."""
    return table.groupBy("group_id", "topic").agg(
        F.count("*").alias("_rows"), F.min("at").alias("first_at"), F.max("at").alias("last_at")
    )


def _commits(row: Row) -> list[Figure]:
    return [
        Figure("groups", f"{row[0]:,}"),
        Figure("topics", f"{row[1]:,}"),
        *(Figure(word, instant(ms)) for word, ms in (("from", row[2]), ("to", row[3])) if ms),
    ]


def _rewinds(row: Row) -> list[Figure]:
    return [
        Figure("groups", f"{row[0]:,}"),
        *([Figure("farthest", f"{row[1]:,} records")] if row[1] is not None else []),
    ]


def _rates(row: Row) -> list[Figure]:
    return [
        Figure("most in a minute", f"{row[0]:,} commits"),
        Figure("records read", "more than a long holds" if row[1] is None else f"{row[1]:,}"),
    ]


def _churn(row: Row) -> list[Figure]:
    worst: Any = row[0]
    return [Figure("most", f"{worst.group_id} with {worst.rebalances:,} rebalances")]


def _restless_members(row: Row) -> list[Figure]:
    worst: Any = row[0]
    who = f"{worst.client_id} at {worst.client_host}"
    return [Figure("most", f"{who}, in {worst.rebalances:,} of {worst.group_id}")]


def _lag(row: Row) -> list[Figure]:
    return [
        *([Figure("most", f"{row[0]:,} records")] if row[0] is not None else []),
        *([Figure("oldest unread", f"{row[1]:,.0f} s")] if row[1] is not None else []),
    ]


def _catch_up(row: Row) -> list[Figure]:
    return [Figure("will never catch up", f"{row[0]:,}")]


def _expiring_offsets(row: Row) -> list[Figure]:
    return [Figure("have expired", f"{row[0]:,}"), Figure("will expire", f"{row[1]:,}")]


def _compaction(row: Row) -> list[Figure]:
    share = row[1] / row[2] if row[2] else 0.0
    return [
        Figure("superseded", f"{row[0]:,} records"),
        Figure("to be saved", f"about {row[1]:,} bytes, {share:.0%}"),
    ]


def _most(*names: str) -> Column:
    """The row of most rebalances, the first by name among equals."""
    order = F.struct((-F.col("rebalances")).alias("most"), *names)
    return F.min_by(F.struct("rebalances", *names), order)


FIGURES: Final[dict[str, Query]] = {
    "commits": Query(
        lambda: [
            F.count_distinct("group_id"),
            F.count_distinct("topic"),
            F.unix_millis(F.min("first_at")),
            F.unix_millis(F.max("last_at")),
        ],
        _commits,
        _by_topic,
    ),
    "rewinds": Query(lambda: [F.count_distinct("group_id"), F.max("rewound_records")], _rewinds),
    "rates": Query(lambda: [F.max("commits"), F.try_sum("advanced_records")], _rates),
    "churn": Query(lambda: [_most("group_id")], _churn),
    "restless_members": Query(
        lambda: [_most("group_id", "client_id", "client_host")], _restless_members
    ),
    "lag": Query(lambda: [F.max("lag_records"), F.max("lag_s")], _lag),
    "catch_up": Query(lambda: [F.count_if("never")], _catch_up),
    "expiring_offsets": Query(
        lambda: [F.count_if("expired"), F.count_if(F.col("expires_at").isNotNull())],
        _expiring_offsets,
    ),
    "compaction": Query(
        lambda: [
            F.sum("superseded_records"),
            F.sum("superseded_bytes_estimate"),
            F.sum("bytes_estimate"),
        ],
        _compaction,
    ),
}
