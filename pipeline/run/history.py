"""The events that a job reads. The job reads them from the source only once, and makes every
selection of events from the rows of this read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from pipeline import clock
from pipeline.engines.engine import Engine, Part
from pipeline.errors import PipelineError
from pipeline.model.events import COMMIT, EVENTS, STRETCHES
from pipeline.model.params import OFFSETS_RETENTION, Params
from pipeline.run.as_of import end_of_history, params_of
from pipeline.run.catalog import RELATIONS, TABLES, Relation, Table, readers
from pipeline.run.matches import check_matches
from pipeline.run.selection import WRITTEN, Selection
from pipeline.sources.source import Source, TimesAsked
from pipeline.sources.tables import TablesSource
from pipeline.sources.wire.brokers import denial
from pipeline.sql.offsets import held_at

_HISTORY: Final = "history"
"""The name of the relation with all events of the history, whatever groups and times the user
selected."""


class History:
    """Defines the relations `events` and `stretches` of a run, and the parameters of its
    queries."""

    def __init__(
        self,
        engine: Engine,
        source: Source,
        parts: Sequence[Part] | None,
        topics: Sequence[str] | None = None,
        offsets_retention: timedelta = OFFSETS_RETENTION,
        named: str | None = None,
    ) -> None:
        """Reads all events.

        ``topics`` are the topics whose record times are needed; None means all topics in which
        groups committed. ``named`` is the name that the user gave to the source; None means the
        source's address.
        """
        self._named = named or source.where
        self._engine = engine
        self._source = source
        self._wanted = topics
        self._offsets_retention = offsets_retention
        if parts is not None:
            engine.read(_HISTORY, parts, EVENTS)
        else:
            engine.open(_HISTORY, source.event_files() or [], EVENTS)
        engine.read("stretches", [], STRETCHES)
        self.count: Counter[str] = Counter()
        """The number of selected events by kind."""
        self.hidden: tuple[str, ...] = ()
        """Topics in which groups committed, but which the source does not show to this client."""

    @property
    def begins_ms(self) -> int | None:
        """The time in ms of the first record in the history; None if no record has a time."""
        [found] = self._engine.ask(f"SELECT min(unix_millis({WRITTEN})) AS ms FROM {_HISTORY}")
        begins_ms: int | None = found["ms"]
        return begins_ms

    def select(self, selection: Selection, *, each_group: bool = True) -> None:
        """Defines `events` as a selection of the history. The relation `stretches` stays empty
        until `read_stretches`.

        Raises PipelineError if the window begins after the end of the history, or if the selection
        matches nothing; `check_matches` explains ``each_group``.
        """
        engine = self._engine
        check_matches(
            engine,
            self._named,
            _HISTORY,
            selection,
            each_group=each_group,
            may_be_empty=not isinstance(self._source, TablesSource),
        )
        engine.define("events", selection.events(engine.dialect, _HISTORY), keep=False)
        seen = engine.ask("SELECT kind, count(*) AS records FROM events GROUP BY kind")
        self.count = Counter({row["kind"]: row["records"] for row in seen})
        self._span = selection.span
        self.params = self._params()

    def read_stretches(self) -> None:
        """Reads the stretches of the requested topics. The relation `offset_changes` must be
        defined. Raises PipelineError if a requested topic does not exist."""
        self._define_stretches()
        self.params = self._params()
        if self._source.end_ms() is not None and self._source.stretch_files() is None:
            # a broker may have returned records that were written since its opening
            self.params = replace(self.params, read_ms=clock.now_ms())

    def _params(self) -> Params:
        end_ms = self._source.end_ms()
        if end_ms is None:
            end_ms = end_of_history(self._engine, _HISTORY, clock.now_ms())
        return params_of(self._span, end_ms, self._offsets_retention)

    def check_topics(self) -> None:
        """Raises PipelineError if the source does not have a requested topic."""
        if self._wanted is not None:
            self._topics(self._there())

    def _there(self) -> Collection[str]:
        """Returns the topics about which the source has stretches. If the stretches are in files,
        also defines the relation `all_stretches`, which reads these files."""
        engine, source = self._engine, self._source
        files = source.stretch_files()
        if files is None:
            return source.topics() or ()
        engine.open("all_stretches", files, STRETCHES)
        return {row["topic"] for row in engine.ask("SELECT DISTINCT topic FROM all_stretches")}

    def _define_stretches(self) -> None:
        engine, source = self._engine, self._source
        topics = self._topics(self._there())
        if source.stretch_files() is None:
            engine.read("stretches", source.stretch_parts(self._asked(topics)) or [], STRETCHES)
            return
        listed = ", ".join(map(engine.dialect.text, sorted(topics))) or "NULL"
        engine.define(
            "stretches", f"SELECT * FROM all_stretches WHERE topic IN ({listed})", keep=False
        )

    def _asked(self, topics: set[str]) -> TimesAsked:
        """Returns the offsets for which the run needs the times of their records: the committed
        offsets at the as-of time and, if the run has a start time, at the start time. A source that
        can't read the times of all records reads the times of these records only."""
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
        """Returns the topics that the run reads. ``there`` are all topics of the source. Raises
        PipelineError if a requested topic is hidden or does not exist."""
        wanted = self._wanted
        if wanted is not None:
            absent = sorted(set(wanted) - set(there))
            if hidden := sorted(self._source.hidden(absent)) if absent else []:
                raise denial(self._source.where, hidden, "Describe")
            if absent:
                raise PipelineError(
                    f"{self._source.where} has no topic {', '.join(absent)}: check --topic"
                )
            return set(wanted)
        rows = self._engine.ask(f"SELECT DISTINCT topic FROM events WHERE kind = '{COMMIT}'")
        committed = {row["topic"] for row in rows}
        absent = sorted(committed - set(there))
        self.hidden = tuple(sorted(self._source.hidden(absent))) if absent else ()
        return committed & set(there)


class Definitions:
    """Defines relations and tables in the engine, each when it is first needed. The relations that
    it reads are defined before it."""

    def __init__(self, engine: Engine, history: History, tables: Sequence[Table]) -> None:
        """``tables`` are all tables of the run. A relation that several queries of these tables
        read is computed once, and the engine keeps it."""
        self._engine = engine
        self._history = history
        self._read_by = readers(tables)
        self.there = {"events", "stretches"}

    def need(self, name: str) -> None:
        """Defines the relation ``name``, and before it the undefined relations that it needs."""
        for absent in self.absent(name):
            self.define(absent)

    def absent(self, name: str) -> list[Relation | Table]:
        """Returns the undefined relations that ``name`` needs, followed by ``name``; an empty list
        if ``name`` is already defined."""
        if name in self.there:
            return []
        self.there.add(name)
        made = RELATIONS[name] if name in RELATIONS else TABLES[name]
        return [each for other in made.needs for each in self.absent(other)] + [made]

    def define(self, made: Relation | Table) -> None:
        """Defines one relation. All relations that it needs must be defined already."""
        keep = self._read_by[made.name] > 1 and (isinstance(made, Table) or made.keep)
        query = made.sql(self._engine.dialect, self._history.params)
        self._engine.define(made.name, query, keep=keep)
