"""Runs one job, which reads a history from a source and writes tables to a store with an engine.

The job reads the history once. A relation is computed when a table needs it. A query that needs a
written table reads the files of this table. Independent tables are made in parallel, as many at
once as the engine allows.

A mark file is in the folder while a job runs. A killed job can be started again and then replaces
its own tables. Existing tables of another run are replaced only with `overwrite`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Final

from pipeline import clock
from pipeline.engines.engine import Engine
from pipeline.errors import PipelineError
from pipeline.model.events import DAMAGED, TORN, UNKNOWN
from pipeline.model.params import OFFSETS_RETENTION
from pipeline.model.tables import QUARANTINE
from pipeline.report.head import Head, Thresholds
from pipeline.run.catalog import EVENTS, TABLES, Job, Relation, Table, readers
from pipeline.run.failing import Failing
from pipeline.run.failing import failing as groups_failing
from pipeline.run.figures import Figure, figures_of
from pipeline.run.history import Definitions, History
from pipeline.run.reading import Reader, reading
from pipeline.run.report import REPORT, write_report
from pipeline.run.selection import Selection
from pipeline.run.side_by_side import Task, side_by_side
from pipeline.run.textfile import write_textfile
from pipeline.run.views import QUARANTINED, write_views
from pipeline.sources.damage import whole
from pipeline.sources.segment_files import is_local, local_folder
from pipeline.sources.source import Source
from pipeline.storage.store import GROWING, Store


@dataclass(frozen=True)
class Options:
    """The options of a run."""

    overwrite: bool = False
    selection: Selection = field(default_factory=Selection)
    topics: Sequence[str] | None = None
    """The topics whose record times are needed; None means all topics in which groups committed."""
    with_topics: bool = True
    """True if record times are read. Without record times, all results that need them are null,
    such as the lag in seconds."""
    offsets_retention: timedelta = OFFSETS_RETENTION
    source: str | None = None
    """The name of the source in the report and in errors; None means the source's address."""
    thresholds: Thresholds = field(default_factory=Thresholds)
    textfile: str | None = None
    """The path of the file to which the lag is written for Prometheus; None for no file."""
    fail_on: Sequence[str] = ()
    """The states of `--fail-on`. The summary lists the groups that are in one of them."""


@dataclass(frozen=True)
class Step:
    """The progress of a job: ``done`` of ``total`` steps are complete, and the step ``what``
    begins."""

    what: str
    done: int
    total: int


@dataclass(frozen=True)
class MadeTable:
    """A table that a job made, as the summary shows it."""

    name: str
    path: str
    rows: int
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True)
class Unreadable:
    """A part of the history that could not be read."""

    log_partition: int
    log_offset: int | None
    file: str | None
    position: int | None
    reason: str


@dataclass(frozen=True)
class Summary:
    """The result of a job."""

    job: str
    engine: str
    as_of_ms: int
    tables: tuple[MadeTable, ...]
    events: int
    """The number of selected records."""
    damaged: int
    """The number of parts that could not be read; the table `quarantine` lists these parts."""
    torn: int
    """The number of logs that end in the middle of a batch, as after a kill; `quarantine` lists
    them."""
    unknown: int
    """The number of records whose kind Muster does not know. These records are rows of the table
    `events` too."""
    moved_bytes: int
    """The number of bytes that were read over the network."""
    report: str | None = None
    views: str | None = None
    """The path of an SQL file that makes the tables available in DuckDB as views; None if no such
    file was written."""
    unreadable: tuple[Unreadable, ...] = ()
    """The first unreadable parts of the history, for the summary."""
    hidden: tuple[str, ...] = ()
    """The topics in which groups committed, but which the broker does not show to this client."""
    textfile: str | None = None
    """The path of the file to which the lag was written for Prometheus."""
    failing: tuple[Failing, ...] = ()
    """The groups in a state of ``fail_on``."""


Progress = Callable[[Step], None]


def run_job(
    engine: Engine,
    job: Job,
    source: Source,
    store: Store,
    options: Options | None = None,
    on_progress: Progress | None = None,
) -> Summary:
    """Makes the tables of a job.

    Raises PipelineError, and changes nothing, if a table exists and may not be replaced, if another
    run writes to the store, or if the selection is empty.
    """
    options = options or Options()
    tables = _tables_of(job, source, store)
    mark = _Mark(store, job.name)
    with_report = job.with_report and store.has_files
    steps = _Steps(engine, len(tables) + 2 + with_report, on_progress)
    try:
        store.reserve()
        store.check_absent([table.name for table in tables], options.overwrite or mark.is_there())
        store.check_cluster(source.cluster_id)
        made = partial(_made, engine, job, source, store, options, tables, steps, mark)
        summary = whole(source, partial(made, with_report=with_report))
        mark.take_away()
    finally:
        engine.close()
        store.close()
    steps.begin("done", steps.total)
    return summary


def _made(
    engine: Engine,
    job: Job,
    source: Source,
    store: Store,
    options: Options,
    tables: Sequence[Table],
    steps: _Steps,
    mark: _Mark,
    *,
    with_report: bool,
) -> Summary:
    steps.begin("the history", 0)
    overwrite = options.overwrite or mark.is_there()
    parts = source.event_parts(options.selection.partitions)
    history = History(
        engine, source, parts, options.topics, options.offsets_retention, options.source
    )
    history.select(_going_on(options.selection, store, tables, overwrite))
    maker = _Maker(engine, history, store, overwrite, tables)
    if options.with_topics and "stretches" in readers(tables):
        maker.relations.need("offset_changes")
        history.read_stretches()
    else:
        history.check_topics()
    if store.reserve(new=True):
        store.check_absent([table.name for table in tables], overwrite)
    store.belong_to(source.cluster_id)  # all checks have passed
    mark.put()
    store.as_of_ms = history.params.as_of_ms
    head, there = _head(engine, source, history, options), {table.name for table in tables}
    with reading(engine, store, history.count.total()) as reader:
        made = maker.make(steps, reader)
        steps.begin(QUARANTINED, 1 + len(made))
        unreadable = _set_aside(engine, history, store)
        report = None
        if with_report:
            steps.begin(REPORT, 2 + len(made))
            asked = reader.engine if EVENTS in there else engine
            report = write_report(asked, store, {EVENTS, *there}, head)
        textfile, failing = _of_lag(reader.engine, there, head, options)
    views = write_views(store)
    return Summary(
        job.name,
        engine.name,
        history.params.as_of_ms,
        tuple(made),
        history.count.total(),
        history.count[DAMAGED],
        history.count[TORN],
        history.count[UNKNOWN],
        source.moved_bytes() + engine.moved_bytes,
        report,
        views,
        unreadable,
        hidden=history.hidden,
        textfile=textfile,
        failing=failing,
    )


def _of_lag(
    engine: Engine, there: Collection[str], head: Head, options: Options
) -> tuple[str | None, tuple[Failing, ...]]:
    """Writes the lag for Prometheus if requested. Returns the path of the written file, and the
    groups whose state is named by `--fail-on`."""
    file, states = options.textfile, options.fail_on
    written = file and write_textfile(engine, file, head.source, head.as_of_ms or 0)
    return written, groups_failing(engine, states, with_dead="dead_groups" in there)


def _going_on(
    selection: Selection, store: Store, tables: Sequence[Table], overwrite: bool
) -> Selection:
    """Restricts a selection to times that the store's time series do not contain yet, so that the
    run only adds later times to these series."""
    span = selection.span
    series = [table.name for table in tables if (table.by or table.at) and not overwrite]
    ends = [ms for ms in (span.until_ms, span.as_of_ms) if ms is not None]
    since_ms = store.since_ms(series, span.since_ms, min(ends, default=None))
    return replace(selection, span=replace(span, since_ms=since_ms))


def _head(engine: Engine, source: Source, history: History, options: Options) -> Head:
    return Head(
        options.source or source.where,
        engine.name,
        history.params.as_of_ms,
        source.cluster_id,
        options.thresholds,
    )


def _set_aside(engine: Engine, history: History, store: Store) -> tuple[Unreadable, ...]:
    """Returns the first _TOLD unreadable parts of the history. Unless the store is an archive, also
    writes all unreadable parts to the table `quarantine`."""
    unreadable = history.count[DAMAGED] + history.count[TORN]
    if not store.grows() and (unreadable or store.has(QUARANTINED)):
        store.put(engine, QUARANTINED, _QUARANTINE_SQL, QUARANTINE, None, overwrite=True)
    if not unreadable:
        return ()
    first = f"{_QUARANTINE_SQL} ORDER BY log_partition, log_offset, reason LIMIT {_TOLD}"
    return tuple(Unreadable(**row) for row in engine.ask(first))


def _tables_of(job: Job, source: Source, store: Store) -> list[Table]:
    tables = [TABLES[name] for name in job.tables if not _is_source(name, source, store)]
    if not tables:
        raise PipelineError(
            f"{source.where} is the source, and already has {', '.join(job.tables)}: choose another"
            " folder with --out"
        )
    return tables


def _is_source(name: str, source: Source, store: Store) -> bool:
    """Returns True if the job reads the table ``name`` as its source. The job must not replace such
    a table."""
    where = local_folder(source.where) if is_local(source.where) else source.where.rstrip("/")
    return name in GROWING and where == store.folder


class _Steps:
    def __init__(self, engine: Engine, total: int, tell: Progress | None) -> None:
        self._engine = engine
        self.total = total
        self._tell = tell

    def begin(self, what: str, done: int) -> None:
        """Reports that the step ``what`` begins after ``done`` completed steps."""
        self._engine.begin(what)
        if self._tell:
            self._tell(Step(what, done, self.total))


class _Maker:
    """Makes the tables of a job. Before each table it makes the relations that the table needs and
    that are not defined yet.

    A relation is made only once, before the first query that reads it begins.
    """

    def __init__(
        self,
        engine: Engine,
        history: History,
        store: Store,
        overwrite: bool,
        tables: Sequence[Table],
    ) -> None:
        self._engine = engine
        self._history = history
        self._store = store
        self._overwrite = overwrite
        self._tables = tables
        self._made: dict[str, MadeTable] = {}
        self.relations = Definitions(engine, history, tables)

    def make(self, steps: _Steps, reader: Reader) -> list[MadeTable]:
        """Writes the tables of the job and returns them. Writes in parallel if the engine allows
        it. ``reader`` computes the figures of each written table."""
        self._reader = reader
        logged = set[str]()

        def begin(task: Task) -> None:
            if task.what not in logged:
                logged.add(task.what)
                steps.begin(task.what, 1 + len(self._made))

        engine = self._engine
        side_by_side(list(self._tasks()), engine.at_once, begin, engine.interrupt)
        return [self._made[table.name] for table in self._tables]

    def _tasks(self) -> Iterator[Task]:
        """Yields the tasks of each table: first a task for each relation that the table needs and
        that does not exist yet, then the task that writes the table."""
        for table in self._tables:
            for made in [each for name in table.needs for each in self.relations.absent(name)]:
                work = partial(self._define, made, table.name)
                yield Task(made.name, made.needs, work, table.name)
            work = partial(self._write, table)
            yield Task(_relation_of(table), table.needs, work, table.name)
            self.relations.there.add(table.name)

    def _define(self, made: Relation | Table, what: str) -> None:
        self._engine.begin(what)
        self.relations.define(made)

    def _write(self, table: Table) -> None:
        engine, name = self._engine, table.name
        engine.begin(name)
        query = table.sql(engine.dialect, self._history.params)
        relation, by = _relation_of(table), table.by
        store, overwrite = self._store, self._overwrite
        store.make(engine, relation, name, query, table.schema, by, overwrite, table.at)
        reader = self._reader
        rows, figures = figures_of(reader.engine, name, reader.relation(table, relation))
        self._made[name] = MadeTable(name, self._store.path(name), rows, figures)


def _relation_of(table: Table) -> str:
    """Returns the name of the relation through which a job reads a table that it has written. The
    name is that of the table, with the prefix "written_" if a source may have a relation with the
    same name."""
    return f"written_{table.name}" if table.name in GROWING else table.name


_TOLD: Final = 3
"""The maximum number of unreadable parts of the history that the summary lists."""

_QUARANTINE_SQL: Final = f"""
    SELECT log_partition, log_offset, damage.file AS file, damage.position AS "position",
        damage.reason AS reason
    FROM events WHERE kind IN ('{DAMAGED}', '{TORN}')
"""


class _Mark:
    """The file in a folder that marks a running or killed job."""

    def __init__(self, store: Store, job: str) -> None:
        self._store = store
        self._name = f".{job}.running"

    def is_there(self) -> bool:
        """Returns True if a run of this job began in the folder and did not complete."""
        return self._store.has_file(self._name)

    def put(self) -> None:
        self._store.write_text(self._name, json.dumps({"began": clock.now().isoformat()}))

    def take_away(self) -> None:
        self._store.delete(self._name)
