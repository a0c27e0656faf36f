"""A run: one job from a source into a store, by an engine.

The history is read once. Relations are made when a table needs them; a table that was written is
read back from its files by those that are made of it. Tables that do not need each other are made
side by side, as many at once as the engine gains by. While a job runs, a mark lies in the folder:
a run that was killed may then be started again and replaces what it had made, where other tables
are replaced only when asked.
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
    """How a job is run."""

    overwrite: bool = False
    selection: Selection = field(default_factory=Selection)
    topics: Sequence[str] | None = None
    """Whose records' times are asked; None for those that groups committed."""
    with_topics: bool = True
    """False asks none: no lag, no progress in the topics' own time."""
    offsets_retention: timedelta = OFFSETS_RETENTION
    source: str | None = None
    """What the report and refusals call the source; None for where it is."""
    thresholds: Thresholds = field(default_factory=Thresholds)
    """Of the report."""
    textfile: str | None = None
    """Where the lag is written for Prometheus; None for nowhere."""
    fail_on: Sequence[str] = ()
    """States whose groups the summary names."""


@dataclass(frozen=True)
class Step:
    """Where a job is: it began ``what``, with ``done`` of ``total`` steps behind it."""

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
class Unreadable:
    """A place in the history that could not be read."""

    log_partition: int
    log_offset: int | None
    file: str | None
    position: int | None
    reason: str


@dataclass(frozen=True)
class Summary:
    """What a job made."""

    job: str
    engine: str
    """With its version."""
    as_of_ms: int
    tables: tuple[MadeTable, ...]
    events: int
    """Records of the history that were selected."""
    damaged: int
    """Stretches that could not be read; they are in the table `quarantine`."""
    torn: int
    """Logs that end in the midst of a batch, as a killed broker leaves them; in `quarantine`."""
    unknown: int
    """Records of kinds that are not known; they are kept in the events."""
    moved_bytes: int
    """Over the wire."""
    report: str | None = None
    """Where the page is, where the job makes one."""
    views: str | None = None
    """The SQL by which DuckDB reads the tables."""
    unreadable: tuple[Unreadable, ...] = ()
    """The first of what is in `quarantine`."""
    hidden: tuple[str, ...] = ()
    """Topics that groups committed and that the broker does not show this client."""
    textfile: str | None = None
    """Where the lag is for Prometheus."""
    failing: tuple[Failing, ...] = ()
    """The groups that are in a state which was asked for."""


Progress = Callable[[Step], None]


def run_job(
    engine: Engine,
    job: Job,
    source: Source,
    store: Store,
    options: Options | None = None,
    on_progress: Progress | None = None,
) -> Summary:
    """Make a job's tables. PipelineError when one is there and is not to be replaced, when another
    run writes there, and where nothing of the history is selected; none of these changes anything.
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
    """Read the history and write what the job makes."""
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
    store.belong_to(source.cluster_id)  # nothing is refused from here on
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
    """What a job tells of its lag beside the tables: the file for Prometheus, groups that fail."""
    file, states = options.textfile, options.fail_on
    written = file and write_textfile(engine, file, head.source, head.as_of_ms or 0)
    return written, groups_failing(engine, states, with_dead="dead_groups" in there)


def _going_on(
    selection: Selection, store: Store, tables: Sequence[Table], overwrite: bool
) -> Selection:
    """What is selected, its series from where the store's tables go on."""
    span = selection.span
    series = [table.name for table in tables if (table.by or table.at) and not overwrite]
    ends = [ms for ms in (span.until_ms, span.as_of_ms) if ms is not None]
    since_ms = store.since_ms(series, span.since_ms, min(ends, default=None))
    return replace(selection, span=replace(span, since_ms=since_ms))


def _head(engine: Engine, source: Source, history: History, options: Options) -> Head:
    """What the report says of itself."""
    return Head(
        options.source or source.where,
        engine.name,
        history.params.as_of_ms,
        source.cluster_id,
        options.thresholds,
    )


def _set_aside(engine: Engine, history: History, store: Store) -> tuple[Unreadable, ...]:
    """Write what could not be read; an archive has done so itself. Gives the first of it."""
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
            f"{source.where} is the source and has {', '.join(job.tables)} already: choose another"
            " --out"
        )
    return tables


def _is_source(name: str, source: Source, store: Store) -> bool:
    """Whether a table is what is read: it is there already, and never replaced by itself."""
    where = local_folder(source.where) if is_local(source.where) else source.where.rstrip("/")
    return name in GROWING and where == store.folder


class _Steps:
    def __init__(self, engine: Engine, total: int, tell: Progress | None) -> None:
        self._engine = engine
        self.total = total
        self._tell = tell

    def begin(self, what: str, done: int) -> None:
        """Say what comes next, with so many steps behind it."""
        self._engine.begin(what)
        if self._tell:
            self._tell(Step(what, done, self.total))


class _Maker:
    """Makes tables, and before each the relations that it needs and that are not there yet.

    Each is made once: a relation is there, and kept, before the first of its readers begins.
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
        """Write the tables, side by side where the engine gains by it; ``reader`` counts them."""
        self._reader = reader
        told = set[str]()

        def begin(task: Task) -> None:
            if task.what not in told:
                told.add(task.what)
                steps.begin(task.what, 1 + len(self._made))

        engine = self._engine
        side_by_side(list(self._tasks()), engine.at_once, begin, engine.interrupt)
        return [self._made[table.name] for table in self._tables]

    def _tasks(self) -> Iterator[Task]:
        """A task for each table, after those of the relations that it is the first to need."""
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
    """The name under which a written table is read; of what was read others go on."""
    return f"written_{table.name}" if table.name in GROWING else table.name


_TOLD: Final = 3
"""So many places that could not be read are in the summary."""

_QUARANTINE_SQL: Final = f"""
    SELECT log_partition, log_offset, damage.file AS file, damage.position AS "position",
        damage.reason AS reason
    FROM events WHERE kind IN ('{DAMAGED}', '{TORN}')
"""


class _Mark:
    """A file that says which job is at work in a folder, or was when it was killed."""

    def __init__(self, store: Store, job: str) -> None:
        self._store = store
        self._name = f".{job}.running"

    def is_there(self) -> bool:
        """Whether a run of this job began here and did not end."""
        return self._store.has_file(self._name)

    def put(self) -> None:
        """Say that a run begins."""
        self._store.write_text(self._name, json.dumps({"began": clock.now().isoformat()}))

    def take_away(self) -> None:
        """Say that it ended."""
        self._store.delete(self._name)
