"""Collects the content of the report by SQL queries over the written tables. Each query has a
bounded result.

Times are milliseconds since 1970 (UTC). A row is a dict with the column names of `queries`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from pipeline.engines.engine import Engine
from pipeline.model import tables
from pipeline.model.events import DAMAGED, EVENTS, TORN, UNKNOWN
from pipeline.report import member_queries, queries
from pipeline.report.head import Head, Thresholds
from pipeline.report.queries import MOMENTS
from pipeline.report.window import GROUPS, Window

LISTED: Final = 2_000
PARTS: Final = 30
"""The maximum number of groups that have a section with plots."""
COLUMNS: Final = 120
LONGEST_NAME: Final = 200
"""The maximum length of a shown name. Kafka accepts names of 32 thousand characters."""
MINUTE_MS: Final = 60_000

TABLES: Final[dict[str, pa.Schema]] = {
    "events": EVENTS,
    "commits": tables.COMMITS,
    "transactional_commits": tables.TRANSACTIONAL_COMMITS,
    "rewinds": tables.REWINDS,
    "rates": tables.RATES,
    "generations": tables.GENERATIONS,
    "moves": tables.PARTITION_MOVES,
    "churn": tables.CHURN,
    "restless_members": tables.RESTLESS_MEMBERS,
    "lag": tables.LAG,
    "catch_up": tables.CATCH_UP,
    "expiring_offsets": tables.EXPIRING_OFFSETS,
    "dead_groups": tables.DEAD_GROUPS,
}
"""The tables that a report reads, with their columns. A missing table counts as empty."""

Row = dict[str, Any]


@dataclass
class Part:
    """The report's section about one group: its figures, and the content of its plots and lists."""

    group: Row
    lag: list[Row] = field(default_factory=list)
    peaks: list[Row] = field(default_factory=list)
    since: list[Row] = field(default_factory=list)
    """One row with the time since which the group's lag has been above a threshold. Empty if the
    lag is not above a threshold."""
    commits: list[Row] = field(default_factory=list)
    rewind_columns: list[Row] = field(default_factory=list)
    rewinds: list[Row] = field(default_factory=list)
    generations: list[Row] = field(default_factory=list)
    """The latest generations of the group, the latest first."""
    earlier: list[Row] = field(default_factory=list)
    """One row that summarizes the generations that are in the plot but not in the list; empty if
    the list has all generations of the plot."""
    partitions: list[Row] = field(default_factory=list)
    moves: list[Row] = field(default_factory=list)
    restless: list[Row] = field(default_factory=list)

    @property
    def place(self) -> int:
        """The rank of the group in the report; 1 is the worst."""
        return int(self.group["place"])


@dataclass(frozen=True)
class Facts:
    """The content of a report."""

    began_ms: int | None
    ended_ms: int | None
    as_of_ms: int | None
    window: Window
    totals: Row
    states: dict[str, int]
    unknown: int
    """The number of records of an unknown type, which could not be decoded."""
    damaged: int
    torn: int
    """The number of logs that ended in the middle of a batch."""
    groups: list[Row]
    """The groups in the report's list, the worst first."""
    parts: list[Part]


def collect(engine: Engine, there: Collection[str], head: Head) -> Facts:
    """Collect the content of a report from an engine. ``there`` has the names of the tables that
    exist as relations of the engine."""
    for name, schema in TABLES.items():
        if name not in there:
            engine.read(name, [], schema)
    [span] = _ask(engine, queries.span())
    judged = [ms for ms in (head.as_of_ms, span["lag_until_ms"]) if ms is not None]
    as_of = max(judged, default=span["ended_ms"])
    window = _window(span, as_of)
    d = engine.dialect
    engine.define(GROUPS, queries.groups(d, head.thresholds), keep=True)
    engine.define(MOMENTS, queries.moments(window), keep=True)
    [totals] = _ask(engine, queries.totals())
    listed = _ask(engine, f"SELECT * FROM {GROUPS} WHERE place <= {LISTED} ORDER BY place")
    [read] = _ask(engine, _not_understood())
    return Facts(
        span["began_ms"],
        span["ended_ms"],
        as_of,
        window,
        {name: value or 0 for name, value in totals.items()},
        {row["state"]: row["groups"] for row in _ask(engine, queries.COUNTS)},
        read["unknown"] or 0,
        read["damaged"] or 0,
        read["torn"] or 0,
        listed,
        _parts(engine, listed[:PARTS], window, head.thresholds),
    )


def _ask(engine: Engine, sql: str) -> list[Row]:
    """Return the rows of a query, with shortened names. Sums are converted to integers, because an
    engine may return the sum of longs as a decimal."""
    return [{name: _plain(value) for name, value in row.items()} for row in engine.ask(sql)]


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value)
    if isinstance(value, str) and len(value) > LONGEST_NAME:
        return value[: LONGEST_NAME - 1] + "…"
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return value


def _parts(engine: Engine, shown: Iterable[Row], window: Window, limits: Thresholds) -> list[Part]:
    parts = {row["place"]: Part(row) for row in shown}
    asked = {
        "lag": queries.lag(window),
        "peaks": queries.peaks(window),
        "since": queries.since(window, limits),
        "commits": queries.commits(window),
        "rewind_columns": queries.rewind_columns(window),
        "rewinds": queries.rewinds(window),
        "generations": member_queries.generations(engine.dialect, window),
        "earlier": member_queries.earlier(window),
        "partitions": queries.partitions(window),
        "moves": member_queries.moves(window),
        "restless": member_queries.restless(window),
    }
    for name, sql in asked.items():
        for row in _ask(engine, sql):
            getattr(parts[row["place"]], name).append(row)
    return list(parts.values())


def _window(span: Row, as_of: int | None) -> Window:
    """Return the time axis of the plots: the time span of the table lag, or the whole history if
    this table is empty."""
    until = as_of or 0
    began = span["lag_from_ms"] if span["lag_from_ms"] is not None else span["began_ms"]
    first = min(began if began is not None else until, until) // MINUTE_MS * MINUTE_MS
    minutes = max(-(-(until - first) // MINUTE_MS), 1)
    return Window(first, until, -(-minutes // COLUMNS) * MINUTE_MS, PARTS)


def _not_understood() -> str:
    counts = ", ".join(
        f"sum(CASE WHEN kind = '{kind}' THEN 1 ELSE 0 END) AS {name}"
        for kind, name in ((UNKNOWN, "unknown"), (DAMAGED, "damaged"), (TORN, "torn"))
    )
    return f"SELECT {counts} FROM events"
