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
    row = table.agg(
        F.count_distinct("group_id"),
        F.count_distinct("topic"),
        F.min("at").cast("string"),
        F.max("at").cast("string"),
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


FIGURES: Final[dict[str, Callable[[DataFrame], list[Figure]]]] = {
    "commits": _commits,
    "rewinds": _rewinds,
    "rates": _rates,
}
