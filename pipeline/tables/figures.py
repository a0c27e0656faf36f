"""A few figures about each table, for the summary that a job prints and the report's head."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


class Figure(NamedTuple):
    """One number with its name."""

    label: str
    text: str


def _commits(table: DataFrame) -> list[Figure]:
    # counted distinct at once, each row would become two
    by_topic = table.groupBy("group_id", "topic").agg(
        F.min("at").alias("a"), F.max("at").alias("z")
    )
    row = by_topic.agg(
        F.count_distinct("group_id"),
        F.count_distinct("topic"),
        F.min("a").cast("string"),
        F.max("z").cast("string"),
    ).collect()[0]
    return [
        Figure("groups", f"{row[0]:,}"),
        Figure("topics", f"{row[1]:,}"),
        *([Figure("from", str(row[2])), Figure("to", str(row[3]))] if row[2] else []),
    ]


def _rewinds(table: DataFrame) -> list[Figure]:
    row = table.agg(F.count_distinct("group_id"), F.max("rewound_records")).collect()[0]
    return [
        Figure("groups", f"{row[0]:,}"),
        *([Figure("farthest", f"{row[1]:,} records")] if row[1] is not None else []),
    ]


def _rates(table: DataFrame) -> list[Figure]:
    row = table.agg(F.max("commits"), F.try_sum("advanced_records")).collect()[0]
    if row[0] is None:
        return []
    return [
        Figure("most in a minute", f"{row[0]:,} commits"),
        Figure("records read", "more than a long holds" if row[1] is None else f"{row[1]:,}"),
    ]


def _churn(table: DataFrame) -> list[Figure]:
    worst = table.orderBy(F.desc("rebalances"), "group_id").limit(1).collect()
    return [Figure("most", f"{row.group_id} with {row.rebalances:,} rebalances") for row in worst]


def _restless_members(table: DataFrame) -> list[Figure]:
    worst = table.orderBy(F.desc("rebalances"), "group_id", "client_id").limit(1).collect()
    return [
        Figure(
            "most", f"{row.client_id} at {row.client_host}, in {row.rebalances:,} of {row.group_id}"
        )
        for row in worst
    ]


def _lag(table: DataFrame) -> list[Figure]:
    row = table.agg(F.max("lag_records"), F.max("lag_s")).collect()[0]
    return [
        *([Figure("most", f"{row[0]:,} records")] if row[0] is not None else []),
        *([Figure("oldest unread", f"{row[1]:,.0f} s")] if row[1] is not None else []),
    ]


def _catch_up(table: DataFrame) -> list[Figure]:
    row = table.agg(F.count_if("never")).collect()[0]
    return [Figure("will never catch up", f"{row[0]:,}")]


def _expiring_offsets(table: DataFrame) -> list[Figure]:
    row = table.agg(F.count_if("expired"), F.count_if(F.col("expires_at").isNotNull())).collect()[0]
    return [Figure("have expired", f"{row[0]:,}"), Figure("will expire", f"{row[1]:,}")]


def _compaction(table: DataFrame) -> list[Figure]:
    row = table.agg(
        F.sum("superseded_records"), F.sum("superseded_bytes_estimate"), F.sum("bytes_estimate")
    ).collect()[0]
    if row[0] is None:
        return []
    share = row[1] / row[2] if row[2] else 0.0
    return [
        Figure("superseded", f"{row[0]:,} records"),
        Figure("to be saved", f"about {row[1]:,} bytes, {share:.0%}"),
    ]


FIGURES: Final[dict[str, Callable[[DataFrame], list[Figure]]]] = {
    "commits": _commits,
    "rewinds": _rewinds,
    "rates": _rates,
    "churn": _churn,
    "restless_members": _restless_members,
    "lag": _lag,
    "catch_up": _catch_up,
    "expiring_offsets": _expiring_offsets,
    "compaction": _compaction,
}
