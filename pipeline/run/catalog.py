"""Lists the relations and tables with their queries, and the jobs that make tables.

A relation is only an input of other queries. A table is also written to the store. Each query reads
only EVENTS, STRETCHES, and the relations and tables above the query in this module.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from pipeline.engines.dialect import Dialect
from pipeline.model.events import EVENTS as EVENTS_COLUMNS
from pipeline.model.events import STRETCHES as STRETCHES_COLUMNS
from pipeline.model.params import Params
from pipeline.model.tables import (
    ASSIGNMENTS,
    CATCH_UP,
    CHURN,
    COMMITS,
    COMPACTION,
    DEAD_GROUPS,
    EXPIRING_OFFSETS,
    GENERATIONS,
    LAG,
    PARTITION_MOVES,
    RATES,
    RESTLESS_MEMBERS,
    REWINDS,
    TRANSACTIONAL_COMMITS,
)
from pipeline.sql import (
    arrivals,
    assignments,
    compaction,
    generations,
    groups,
    history,
    lag,
    offsets,
    retention,
    rewinds,
    times,
)

EVENTS: Final = "events"
STRETCHES: Final = "stretches"

Query = Callable[[Dialect, Params], str]


@dataclass(frozen=True)
class Relation:
    """An intermediate result that other queries read and no store contains."""

    name: str
    sql: Query
    needs: tuple[str, ...]
    """The relations and tables that the query reads."""
    keep: bool = True
    """True if the engine computes the relation once and keeps the result when several queries read
    it."""


@dataclass(frozen=True)
class Table:
    """A table that a job writes to the store."""

    name: str
    sql: Query
    schema: pa.Schema
    needs: tuple[str, ...]
    by: str | None = None
    """The table's files are in one folder for each value of this column. None means that all files
    are in one folder."""
    at: str | None = None
    """The SQL expression of a row's time. Only a time series without a `by` column has it."""


@dataclass(frozen=True)
class Job:
    """A job that the command `muster pipeline NAME` runs."""

    name: str
    summary: str
    tables: tuple[str, ...]
    """The tables that the job makes. Each table comes after the tables that its query reads."""
    with_report: bool = False


_LAG_NEEDS: Final = ("offset_changes", "offset_times", "arrivals", STRETCHES)

RELATIONS: Final[dict[str, Relation]] = {
    each.name: each
    for each in (
        Relation("offset_records", offsets.offset_records, (EVENTS,)),
        Relation("offset_changes", offsets.offset_changes, ("offset_records",)),
        Relation("group_states", groups.group_states, (EVENTS,)),
        Relation("member_states", assignments.member_states, ("group_states", EVENTS)),
        Relation("arrivals", arrivals.arrivals, (STRETCHES, "offset_changes")),
        Relation("offset_times", times.offset_times, ("offset_changes", "arrivals")),
        Relation("lag_steps", lag.lag_steps, ("offset_changes",)),
        Relation("recent_steps", lag.recent_steps, (), keep=False),
        Relation("recent_lag", lag.recent_lag, ("recent_steps", *_LAG_NEEDS), keep=False),
    )
}

TABLES: Final[dict[str, Table]] = {
    each.name: each
    for each in (
        Table(EVENTS, history.events, EVENTS_COLUMNS, (EVENTS,), at="written_at"),
        Table(
            STRETCHES,
            history.stretches,
            STRETCHES_COLUMNS,
            (STRETCHES,),
            at="coalesce(last_at, first_at)",
        ),
        Table("commits", offsets.commits, COMMITS, ("offset_changes", "offset_times"), "day"),
        Table(
            "transactional_commits",
            offsets.transactional_commits,
            TRANSACTIONAL_COMMITS,
            ("offset_records",),
            at="written_at",
        ),
        Table("rates", offsets.rates, RATES, ("commits",), "day"),
        Table(
            "rewinds",
            rewinds.rewinds,
            REWINDS,
            ("commits", "group_states", EVENTS),
            at="rewound_at",
        ),
        Table("generations", generations.generations, GENERATIONS, ("group_states",)),
        Table("assignments", assignments.assignments, ASSIGNMENTS, ("member_states",)),
        Table("moves", assignments.moves, PARTITION_MOVES, ("member_states",), at="acquired_at"),
        Table("churn", generations.churn, CHURN, ("generations",)),
        Table("restless_members", generations.restless_members, RESTLESS_MEMBERS, ("generations",)),
        Table(
            "expiring_offsets",
            retention.expiring_offsets,
            EXPIRING_OFFSETS,
            ("offset_records", "offset_changes", "group_states", EVENTS),
        ),
        Table(
            "dead_groups",
            retention.dead_groups,
            DEAD_GROUPS,
            ("offset_records", "offset_changes", "group_states", "expiring_offsets"),
        ),
        Table("compaction", compaction.compaction, COMPACTION, (EVENTS, "offset_records")),
        Table("lag", lag.lag, LAG, ("lag_steps", *_LAG_NEEDS), "day"),
        Table("catch_up", lag.catch_up, CATCH_UP, ("recent_lag", "group_states")),
    )
}

JOBS: Final[dict[str, Job]] = {
    each.name: each
    for each in (
        Job("events", "The history as a table, a row for each record.", (EVENTS,)),
        Job(
            "commits",
            "Each commit, and the group's previous commit for the partition.",
            ("commits", "transactional_commits"),
        ),
        Job(
            "rewinds",
            "Commits that moved an offset back, with the member that owned the partition.",
            ("rewinds",),
        ),
        Job("rates", "Commits and progress by group, topic and minute.", ("rates",)),
        Job(
            "generations",
            "The generations of each group: members, times and changes.",
            ("generations",),
        ),
        Job(
            "assignments",
            "Epochs, states, partitions and tasks of members, and which of them moved.",
            ("assignments", "moves"),
        ),
        Job(
            "churn",
            "How often groups rebalance, and which members cause it.",
            ("churn", "restless_members"),
        ),
        Job("lag", "Lag over time, and partitions that will never catch up.", ("lag", "catch_up")),
        Job(
            "retention",
            "Offsets that expire, dead groups, and the bytes that compaction saves.",
            ("expiring_offsets", "dead_groups", "compaction"),
        ),
        Job("all", "Every table, and the report.", tuple(TABLES), with_report=True),
    )
}
"""The jobs by name, in the order in which the help lists them."""


def readers(tables: Sequence[Table]) -> Counter[str]:
    """Returns, for each relation or table that ``tables`` need directly or indirectly, the number
    of queries that read it."""
    found: Counter[str] = Counter()
    waiting: list[Relation | Table] = list(tables)
    seen = {table.name for table in tables}
    while waiting:
        for name in waiting.pop().needs:
            found[name] += 1
            if name not in seen and (name in RELATIONS or name in TABLES):
                seen.add(name)
                waiting.append(RELATIONS[name] if name in RELATIONS else TABLES[name])
    return found
