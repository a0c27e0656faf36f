"""Which tables there are and how each is made, and which jobs make which of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from pipeline import clock
from pipeline.contract import BATCHES, EVENTS
from pipeline.direct import ArrowForm
from pipeline.tables.arrow_commits import COMMITS_ARROW, commits_of
from pipeline.tables.commits import KEY as COMMIT_KEY
from pipeline.tables.commits import commits, rates, rewinds
from pipeline.tables.generations import churn, generations, restless_members
from pipeline.tables.lag import catch_up, lag
from pipeline.tables.retention import compaction, dead_groups, expiring_offsets
from pipeline.tables.schemas import (
    CATCH_UP,
    CHURN,
    COMMITS,
    COMPACTION,
    DEAD_GROUPS,
    EXPIRING_OFFSETS,
    GENERATIONS,
    LAG,
    RATES,
    RESTLESS_MEMBERS,
    REWINDS,
)

OFFSETS_RETENTION: Final = timedelta(days=7)
"""Kafka's `offsets.retention.minutes` unless the cluster's is given."""


@dataclass(frozen=True)
class Inputs:
    """What tables are made of."""

    read: Callable[[], DataFrame]
    """Gives EVENTS; asked when a table is made of them."""
    batches: DataFrame | None = None
    now: datetime = field(default_factory=clock.now)
    offsets_retention: timedelta = OFFSETS_RETENTION
    read_chained: Callable[[], DataFrame | None] = lambda: None
    """Gives the same as CHAINED for tables of commits; None where they are made of EVENTS."""
    made: Mapping[str, DataFrame] = field(default_factory=dict)
    """Tables that are there already, by name."""

    @property
    def events(self) -> DataFrame:
        """EVENTS."""
        return self.read()

    def table(self, name: str) -> DataFrame:
        """Another table, as it is there, or made of these inputs."""
        return self.made[name] if name in self.made else TABLES[name].make(self)


@dataclass(frozen=True)
class Table:
    """One table and how it is made."""

    name: str
    make: Callable[[Inputs], DataFrame]
    schema: StructType
    partition_by: tuple[str, ...] = ()
    reads: int = 1
    """How often its plan reads the history."""
    reads_batches: int = 0
    """How often it reads the times of the topics' own records."""
    of_commits: bool = False
    """Made of `CHAINED` as well as of `EVENTS`."""
    arrow: ArrowForm | None = None
    """How tasks make it where they read the history; None where only Spark does."""


@dataclass(frozen=True)
class Job:
    """What `muster pipeline NAME` makes."""

    name: str
    summary: str
    tables: tuple[str, ...]
    with_report: bool = False

    @property
    def reads_batches(self) -> int:
        """How often its tables read the times of the topics' own records."""
        return sum(TABLES[name].reads_batches for name in self.tables)

    @property
    def of_commits(self) -> bool:
        """Whether each of its tables can be made of CHAINED."""
        return all(TABLES[name].of_commits for name in self.tables)

    @property
    def arrow(self) -> ArrowForm | None:
        """How tasks make its table where they read the history, which they do for one alone."""
        return TABLES[self.tables[0]].arrow if len(self.tables) == 1 else None


def _batches(given: Inputs) -> DataFrame:
    if given.batches is not None:
        return given.batches
    return given.events.sparkSession.createDataFrame([], BATCHES)


def _commits(given: Inputs) -> DataFrame:
    chained = given.read_chained()
    return commits(given.events if chained is None else chained, given.batches)


TABLES: Final[dict[str, Table]] = {
    table.name: table
    for table in (
        Table("events", lambda given: given.events, EVENTS),
        Table("batches", _batches, BATCHES, reads_batches=1),
        Table(
            "commits",
            _commits,
            COMMITS,
            ("day",),
            reads_batches=2,
            of_commits=True,
            arrow=ArrowForm(
                COMMITS_ARROW,
                commits_of,
                (*COMMIT_KEY, "metadata", "leader_epoch"),
            ),
        ),
        Table(
            "rewinds",
            lambda given: rewinds(given.table("commits"), given.events),
            REWINDS,
            reads=2,
            reads_batches=1,
        ),
        Table("rates", lambda given: rates(given.table("commits")), RATES, ("day",), 1, 2, True),
        Table("generations", lambda given: generations(given.events), GENERATIONS),
        Table("churn", lambda given: churn(given.table("generations")), CHURN),
        Table(
            "restless_members",
            lambda given: restless_members(given.table("generations")),
            RESTLESS_MEMBERS,
        ),
        Table(
            "lag", lambda given: lag(given.events, given.batches, given.now), LAG, ("day",), 2, 3
        ),
        Table("catch_up", lambda given: catch_up(given.table("lag")), CATCH_UP),
        Table(
            "expiring_offsets",
            lambda given: expiring_offsets(given.events, given.now, given.offsets_retention),
            EXPIRING_OFFSETS,
        ),
        Table(
            "dead_groups",
            lambda given: dead_groups(given.events, given.table("expiring_offsets")),
            DEAD_GROUPS,
        ),
        Table("compaction", lambda given: compaction(given.events), COMPACTION),
    )
}

JOBS: Final[dict[str, Job]] = {
    job.name: job
    for job in (
        Job("events", "the history itself, a row for each record", ("events",)),
        Job("commits", "each commit with the one before it", ("commits",)),
        Job("rewinds", "who moved backwards, when and how far", ("rewinds",)),
        Job("rates", "commits and progress by group, topic and minute", ("rates",)),
        Job("generations", "each generation of each group, and what changed", ("generations",)),
        Job(
            "churn",
            "rebalances by group, and the members who cause most",
            ("churn", "restless_members"),
        ),
        Job("lag", "lag by the minute, and who will never catch up", ("lag", "catch_up")),
        Job(
            "retention",
            "offsets that will expire, dead groups, what compaction would save",
            ("expiring_offsets", "dead_groups", "compaction"),
        ),
        Job("all", "every table and the report", tuple(TABLES), True),
    )
}
