"""The jobs: which tables each makes, and how one runs from a source into a store.

A job reads its source once. Tables that others are made of are taken from the store when the same
run has made them. While a job runs, a mark lies in the folder: a run that was killed may then be
started again and replaces what it had made, where other tables are replaced only when asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from pipeline.contract import BATCHES, DAMAGED, EVENTS, UNKNOWN, conform, of_kind
from pipeline.report.page import make_report
from pipeline.selection import Source
from pipeline.store import Store
from pipeline.tables.commits import commits, rates, rewinds
from pipeline.tables.figures import Figure, told
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
    QUARANTINE,
    RATES,
    RESTLESS_MEMBERS,
    REWINDS,
)

OFFSETS_RETENTION: Final = timedelta(days=7)
"""Kafka's `offsets.retention.minutes` unless the cluster's is given."""
QUARANTINED: Final = "quarantine"
REPORT: Final = "report.html"


@dataclass(frozen=True)
class Inputs:
    """What tables are made of."""

    events: DataFrame
    batches: DataFrame | None = None
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    offsets_retention: timedelta = OFFSETS_RETENTION
    chained: DataFrame | None = None
    """The events as CHAINED, for tables of commits."""
    made: Mapping[str, DataFrame] = field(default_factory=dict)
    """Tables that are there already, by name."""

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


@dataclass(frozen=True)
class Options:
    """How a job is run."""

    overwrite: bool = False
    topics: list[str] | None = None
    """Whose records' times are read; None for all."""
    now: datetime | None = None
    """The time that answers hold for; None for the clock's."""
    offsets_retention: timedelta = OFFSETS_RETENTION
    source: str | None = None
    """What the report calls the source; None for the cluster's id."""
    with_batches: bool = True
    """False leaves the topics unread: no lag, no progress in the topics' own time."""


@dataclass(frozen=True)
class Step:
    """Where a job is: about to do ``what``, ``done`` of ``total`` steps behind it."""

    what: str
    done: int
    total: int


@dataclass(frozen=True)
class MadeTable:
    """A table as the summary tells of it."""

    name: str
    path: str
    rows: int
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True)
class Summary:
    """What a job made."""

    job: str
    tables: tuple[MadeTable, ...]
    events: int
    damaged: int
    """Stretches that could not be read; they are in the table `quarantine`."""
    unknown: int
    """Records of kinds that are not known; they are kept in the events."""
    report: str | None = None


def _batches(given: Inputs) -> DataFrame:
    if given.batches is not None:
        return given.batches
    return given.events.sparkSession.createDataFrame([], BATCHES)


def _commits(given: Inputs) -> DataFrame:
    return commits(given.events if given.chained is None else given.chained, given.batches)


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


def run_job(
    spark: SparkSession,
    job: Job,
    source: Source,
    store: Store,
    options: Options | None = None,
    on_progress: Callable[[Step], None] | None = None,
) -> Summary:
    """Make a job's tables. PipelineError when one is there and is not to be replaced."""
    options = options or Options()
    total = len(job.tables) + 1 + job.with_report

    def tell(what: str, done: int) -> None:
        """Spark's own page names its work by the same words."""
        spark.sparkContext.setJobGroup(f"muster {job.name}", what)
        if on_progress:
            on_progress(Step(what, done, total))

    mark = _Mark(store, job.name)
    overwrite = options.overwrite or mark.is_there()
    store.check_absent(job.tables, overwrite)
    mark.put()

    tell("the history", 0)
    found = _History(source, job)
    inputs = Inputs(
        found.events,
        found.batches(source, options),
        options.now or datetime.now(UTC),
        options.offsets_retention,
        found.chained,
    )
    made: list[MadeTable] = []
    try:
        for done, name in enumerate(job.tables):
            if name == "batches" and inputs.batches is None:
                continue
            tell(name, done)
            inputs = _make(TABLES[name], inputs, store, overwrite)
            made.append(_made(name, inputs.table(name), store))
        tell(QUARANTINED, len(job.tables))
        events, damaged, unknown = found.counts(inputs.events, sum(table.rows for table in made))
        if damaged or store.has(QUARANTINED):
            store.write(QUARANTINED, quarantine(inputs.events), overwrite=True)
        if job.with_report:
            tell(REPORT, total - 1)
            store.write_text(REPORT, make_report(inputs.table, _called(options, store), inputs.now))
    finally:
        found.release()
    mark.take_away()
    tell("done", total)
    report = store.path(REPORT) if job.with_report else None
    return Summary(job.name, tuple(made), events, damaged, unknown, report)


def quarantine(events: DataFrame) -> DataFrame:
    """EVENTS to QUARANTINE: what could not be read, where it lies and why."""
    rows = events.where(of_kind(DAMAGED)).select("log_partition", "log_offset", "damage.*")
    return conform(rows, QUARANTINE)


def _called(options: Options, store: Store) -> str:
    cluster = store.cluster_id()
    return options.source or (f"cluster {cluster}" if cluster else "a cluster")


def _make(table: Table, inputs: Inputs, store: Store, overwrite: bool) -> Inputs:
    """Write one table; the inputs with it, so that later ones are made of what was written."""
    store.write(table.name, table.make(inputs), table.partition_by, overwrite)
    written = conform(store.read(table.name, table.schema), table.schema)
    inputs = replace(inputs, made={**inputs.made, table.name: written})
    if table.name == "events":
        return replace(inputs, events=written)
    if table.name == "batches" and inputs.batches is not None:
        return replace(inputs, batches=written)
    return inputs


def _made(name: str, table: DataFrame, store: Store) -> MadeTable:
    rows, figures = told(name, table)
    return MadeTable(name, store.path(name), rows, figures)


class _History:
    """The history of one run, kept when it is read more than once, and what kinds it has."""

    def __init__(self, source: Source, job: Job) -> None:
        self.kept = "events" not in job.tables and sum(TABLES[n].reads for n in job.tables) > 1
        self.seen: Observation | None = None
        self.chained: DataFrame | None = None
        self._raw = self.events = source.events()
        if self.kept:
            self.events = self._raw.persist(StorageLevel.MEMORY_AND_DISK)
        elif "events" not in job.tables:
            self.seen = Observation()
            chained = source.chained() if job.of_commits else None
            if chained is None:
                self.events = self._raw.observe(self.seen, *_counts())
            else:
                self.chained = chained.observe(self.seen, *_counts())
        self._job = job
        self._batches: DataFrame | None = None

    def batches(self, source: Source, options: Options) -> DataFrame | None:
        """The batches that the job reads, kept too when it reads them more than once."""
        if not self._job.reads_batches or not options.with_batches:
            return None
        batches = source.batches(options.topics)
        if (
            batches is not None
            and "batches" not in self._job.tables
            and self._job.reads_batches > 1
        ):
            batches = self._batches = batches.persist(StorageLevel.MEMORY_AND_DISK)
        return batches

    def counts(self, events: DataFrame, rows: int) -> tuple[int, int, int]:
        """How many events, damaged ones and unknown ones there are, ``rows`` being what was made.

        What was seen on the way is told only when something was: of a history that Spark knows to
        be empty nothing is seen, ever.
        """
        if self.seen and rows:
            row = self.seen.get
        else:
            row = (self._raw if self.seen else events).agg(*_counts()).collect()[0].asDict()
        return row["events"], row["damaged"], row["unknown"]

    def release(self) -> None:
        """Forget what was kept."""
        if self.kept:
            self.events.unpersist()
        if self._batches is not None:
            self._batches.unpersist()


def _counts() -> list[Column]:
    return [
        F.count("*").alias("events"),
        F.count_if(of_kind(DAMAGED)).alias("damaged"),
        F.count_if(of_kind(UNKNOWN)).alias("unknown"),
    ]


class _Mark:
    """A file that says which job is at work in a folder, or was when it was killed."""

    def __init__(self, store: Store, job: str) -> None:
        self.store = store
        self.name = f".{job}.running"

    def is_there(self) -> bool:
        """Whether a run of this job began here and did not end."""
        return self.store.has_file(self.name)

    def put(self) -> None:
        """Say that a run begins."""
        self.store.write_text(self.name, json.dumps({"began": datetime.now(UTC).isoformat()}))

    def take_away(self) -> None:
        """Say that it ended."""
        self.store.delete(self.name)
