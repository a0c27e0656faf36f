"""A run: one job from a source into a store, by an engine.

The history is read once. Relations are made when a table needs them; a table that was written is
read back from its files by those that are made of it. While a job runs, a mark lies in the folder:
a run that was killed may then be started again and replaces what it had made, where other tables
are replaced only when asked.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from pipeline import clock
from pipeline.engines.engine import Engine, Part
from pipeline.errors import PipelineError
from pipeline.model.events import COMMIT, DAMAGED, EVENTS, STRETCHES, TORN, UNKNOWN
from pipeline.model.params import OFFSETS_RETENTION, Params
from pipeline.model.tables import QUARANTINE
from pipeline.report.head import Head, Thresholds
from pipeline.run.as_of import end_of_history, params_of
from pipeline.run.catalog import RELATIONS, TABLES, Job, Relation, Table
from pipeline.run.figures import Figure, figures_of
from pipeline.run.report import REPORT, write_report
from pipeline.run.selection import Selection
from pipeline.sources.source import Source, TimesAsked
from pipeline.sql.offsets import held_at
from pipeline.storage.store import GROWING, Store

QUARANTINED: Final = "quarantine"
_HISTORY: Final = "history"
"""What was read, before the selection."""


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
    """What the report calls the source; None for where it is."""
    thresholds: Thresholds = field(default_factory=Thresholds)
    """Of the report."""


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


Progress = Callable[[Step], None]


def run_job(
    engine: Engine,
    job: Job,
    source: Source,
    store: Store,
    options: Options | None = None,
    on_progress: Progress | None = None,
) -> Summary:
    """Make a job's tables. PipelineError when one is there and is not to be replaced."""
    options = options or Options()
    tables = [TABLES[name] for name in job.tables if not _is_source(name, source, store)]
    mark = _Mark(store, job.name)
    overwrite = options.overwrite or mark.is_there()
    store.check_absent([table.name for table in tables], overwrite)
    parts = source.event_parts(options.selection.partitions)
    store.belong_to(source.cluster_id)
    mark.put()
    steps = _Steps(engine, len(tables) + 2 + job.with_report, on_progress)
    try:
        steps.begin("the history")
        with_stretches = options.with_topics and "stretches" in _readers(tables)
        history = _History(engine, source, parts, options)
        maker = _Maker(engine, history, store, overwrite, tables)
        if with_stretches:
            maker.need("offset_changes")
            history.read_stretches()
        made = [maker.make(table, steps) for table in tables]
        steps.begin(QUARANTINED)
        if history.count[DAMAGED] or history.count[TORN] or store.has(QUARANTINED):
            store.put(engine, QUARANTINED, _QUARANTINE_SQL, QUARANTINE, None, overwrite=True)
        report = None
        if job.with_report:
            steps.begin(REPORT)
            head = Head(
                options.source or source.where,
                engine.name,
                history.params.as_of_ms,
                source.cluster_id,
                options.thresholds,
            )
            there = {"events", *(table.name for table in tables)}
            report = write_report(engine, store, there, head)
    finally:
        engine.close()
    mark.take_away()
    steps.begin("done")
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
    )


def _is_source(name: str, source: Source, store: Store) -> bool:
    """Whether a table is what is read: it is there already, and never replaced by itself."""
    place = store.path("events")
    files = source.event_files() or []
    return name in GROWING and any(f"{file}/".startswith(f"{place}/") for file in files)


class _Steps:
    def __init__(self, engine: Engine, total: int, tell: Progress | None) -> None:
        self._engine = engine
        self._total = total
        self._tell = tell
        self._done = -1

    def begin(self, what: str) -> None:
        self._done += 1
        self._engine.begin(what)
        if self._tell:
            self._tell(Step(what, self._done, self._total))


class _History:
    """The relations `events` and `stretches` of a run, and what follows from them."""

    def __init__(
        self,
        engine: Engine,
        source: Source,
        parts: Sequence[Part] | None,
        options: Options,
    ) -> None:
        """There are no stretches until they are read."""
        self._engine = engine
        self._source = source
        self._options = options
        selection = options.selection
        if parts is not None:
            engine.read(_HISTORY, parts, EVENTS)
        else:
            engine.open(_HISTORY, source.event_files() or [], EVENTS)
        engine.define("events", selection.events(engine.dialect, _HISTORY), keep=False)
        engine.read("stretches", [], STRETCHES)
        seen = engine.ask("SELECT kind, count(*) AS records FROM events GROUP BY kind")
        self.count = Counter({row["kind"]: row["records"] for row in seen})
        """Records by kind."""
        self.params = self._params()

    def read_stretches(self) -> None:
        """Read those of the topics that are wanted; `offset_changes` says what groups hold.

        PipelineError for a topic that was named and has none.
        """
        self._define_stretches()
        self.params = self._params()
        if self._source.end_ms() is not None and self._source.stretch_files() is None:
            # a broker told of records that were written since its opening
            self.params = replace(self.params, read_ms=clock.now_ms())

    def _params(self) -> Params:
        end_ms = self._source.end_ms()
        if end_ms is None:
            end_ms = end_of_history(self._engine, _HISTORY, clock.now_ms())
        return params_of(self._options.selection.span, end_ms, self._options.offsets_retention)

    def _define_stretches(self) -> None:
        engine, source = self._engine, self._source
        files = source.stretch_files()
        if files is None:
            parts = source.stretch_parts(self._asked(self._topics(source.topics() or ())))
            engine.read("stretches", parts or [], STRETCHES)
            return
        engine.open("all_stretches", files, STRETCHES)
        there = {row["topic"] for row in engine.ask("SELECT DISTINCT topic FROM all_stretches")}
        listed = ", ".join(map(engine.dialect.text, sorted(self._topics(there)))) or "NULL"
        engine.define(
            "stretches", f"SELECT * FROM all_stretches WHERE topic IN ({listed})", keep=False
        )

    def _asked(self, topics: set[str]) -> TimesAsked:
        """The times of these topics that a source which has to ask for each is asked for."""
        since_ms, as_of_ms = self.params.since_ms, self.params.as_of_ms
        ends = [as_of_ms] if since_ms is None else [since_ms, as_of_ms]
        offsets: dict[tuple[str, int], set[int]] = {}
        for end_ms in ends:
            for batch in self._engine.arrow(held_at(end_ms)):
                for topic, partition, offset in zip(*batch.to_pydict().values(), strict=True):
                    if topic in topics:
                        offsets.setdefault((topic, partition), set()).add(offset)
        ordered = {key: sorted(found) for key, found in offsets.items()}
        return TimesAsked(topics, as_of_ms, since_ms, ordered, self._engine.moved_bytes)

    def _topics(self, there: Collection[str]) -> set[str]:
        """Of the topics that are there those that are wanted."""
        wanted = self._options.topics
        if wanted is not None:
            absent = sorted(set(wanted) - set(there))
            if absent:
                raise PipelineError(f"{self._source.where} has no topic {', '.join(absent)}")
            return set(wanted)
        committed = self._engine.ask(f"SELECT DISTINCT topic FROM events WHERE kind = '{COMMIT}'")
        return {row["topic"] for row in committed} & set(there)


class _Maker:
    """Makes tables, and before each the relations that it needs and that are not there yet."""

    def __init__(
        self,
        engine: Engine,
        history: _History,
        store: Store,
        overwrite: bool,
        tables: Sequence[Table],
    ) -> None:
        self._engine = engine
        self._history = history
        self._store = store
        self._overwrite = overwrite
        self._there = {"events", "stretches"}
        self._read_by = _readers(tables)

    def make(self, table: Table, steps: _Steps) -> MadeTable:
        """Write one table."""
        steps.begin(table.name)
        for name in table.needs:
            self.need(name)
        engine = self._engine
        query = table.sql(engine.dialect, self._history.params)
        files = self._store.put(engine, table.name, query, table.schema, table.by, self._overwrite)
        relation = table.name
        if table.name in GROWING:
            relation = f"written_{table.name}"  # others go on with what was read
        else:
            self._there.add(table.name)
        engine.open(relation, files, table.schema)
        rows, figures = figures_of(engine, table.name, relation)
        return MadeTable(table.name, self._store.path(table.name), rows, figures)

    def need(self, name: str) -> None:
        """Define a relation, and before it those that it needs."""
        if name in self._there:
            return
        self._there.add(name)
        made: Relation | Table = RELATIONS[name] if name in RELATIONS else TABLES[name]
        for other in made.needs:
            self.need(other)
        keep = self._read_by[name] > 1 and (isinstance(made, Table) or made.keep)
        query = made.sql(self._engine.dialect, self._history.params)
        self._engine.define(name, query, keep=keep)


def _readers(tables: Sequence[Table]) -> Counter[str]:
    """How many of these tables, and of what they need, read each relation."""
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
