"""The jobs: which tables each makes, and how one runs from a source into a store.

A job reads its source once. Tables that others are made of are taken from the store when the same
run has made them. While a job runs, a mark lies in the folder: a run that was killed may then be
started again and replaces what it had made, where other tables are replaced only when asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from pipeline import clock
from pipeline.catalog import OFFSETS_RETENTION, TABLES, Inputs, Job, Table
from pipeline.contract import DAMAGED, conform, of_kind
from pipeline.direct import DirectTable
from pipeline.engines.spark import SparkEngine
from pipeline.history import History
from pipeline.report.head import Head
from pipeline.report.page import make_report
from pipeline.spark_source import Source
from pipeline.store import Store
from pipeline.tables.figures import Figure, figures_of
from pipeline.tables.schemas import QUARANTINE

QUARANTINED: Final = "quarantine"
REPORT: Final = "report.html"


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
    """A table as the summary has it."""

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

    def begin(what: str, done: int) -> None:
        """Name the next step, on Spark's own page too."""
        spark.sparkContext.setJobGroup(f"muster {job.name}", what)
        if on_progress:
            on_progress(Step(what, done, total))

    mark = _Mark(store, job.name)
    overwrite = options.overwrite or mark.is_there()
    store.check_absent(job.tables, overwrite)
    mark.put()

    begin("the history", 0)
    found = History(source, job, options.topics, options.with_batches)
    direct = found.direct(spark) if store.is_local else None
    inputs = Inputs(
        lambda: found.events,
        found.batches,
        options.now or clock.now(),
        options.offsets_retention,
        lambda: found.chained,
    )
    made: list[MadeTable] = []
    try:
        for done, name in enumerate(job.tables):
            if name == "batches" and inputs.batches is None:
                continue
            begin(name, done)
            inputs = _make(TABLES[name], inputs, store, overwrite, direct)
            made.append(_made(name, inputs.table(name), store))
        begin(QUARANTINED, len(job.tables))
        events, damaged, unknown = found.counts(inputs, sum(table.rows for table in made))
        if damaged or store.has(QUARANTINED):
            store.write(QUARANTINED, quarantine(inputs.events), overwrite=True)
        if job.with_report:
            begin(REPORT, total - 1)
            head = Head(
                _called(options, store),
                f"Spark {spark.version}",
                cluster_id=store.cluster_id(),
            )
            store.write_text(REPORT, report_of(spark, inputs.table, job.tables, head))
    finally:
        found.release()
    mark.take_away()
    begin("done", total)
    report = store.path(REPORT) if job.with_report else None
    return Summary(job.name, tuple(made), events, damaged, unknown, report)


def quarantine(events: DataFrame) -> DataFrame:
    """EVENTS to QUARANTINE: what could not be read, where it lies and why."""
    rows = events.where(of_kind(DAMAGED)).select("log_partition", "log_offset", "damage.*")
    return conform(rows, QUARANTINE)


def report_of(
    spark: SparkSession, table: Callable[[str], DataFrame], names: Sequence[str], head: Head
) -> str:
    """The page of the tables of these names."""
    for name in names:
        table(name).createOrReplaceTempView(name)
    return make_report(SparkEngine(spark), names, head, clock.now_ms())


def _called(options: Options, store: Store) -> str:
    cluster = store.cluster_id()
    return options.source or (f"cluster {cluster}" if cluster else "a cluster")


def _make(
    table: Table, inputs: Inputs, store: Store, overwrite: bool, direct: DirectTable | None
) -> Inputs:
    """Write one table; the inputs with it, so that later ones are made of what was written."""
    if direct:
        store.write_by(table.name, direct.write, table.schema, overwrite)
    else:
        store.write(table.name, table.make(inputs), table.partition_by, overwrite)
    written = conform(store.read(table.name, table.schema), table.schema)
    inputs = replace(inputs, made={**inputs.made, table.name: written})
    if table.name == "events":
        return replace(inputs, read=lambda: written)
    if table.name == "batches" and inputs.batches is not None:
        return replace(inputs, batches=written)
    return inputs


def _made(name: str, table: DataFrame, store: Store) -> MadeTable:
    rows, figures = figures_of(name, table)
    return MadeTable(name, store.path(name), rows, figures)


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
        self.store.write_text(self.name, json.dumps({"began": clock.now().isoformat()}))

    def take_away(self) -> None:
        """Say that it ended."""
        self.store.delete(self.name)
