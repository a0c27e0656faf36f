"""Compares two time windows of one history. The result has the figures of each group in both
windows, and the differences between the windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pipeline.engines.engine import Engine
from pipeline.run.as_of import Span
from pipeline.run.catalog import TABLES
from pipeline.run.history import Definitions, History
from pipeline.run.selection import Selection
from pipeline.sources.damage import whole
from pipeline.sources.source import Source
from pipeline.sql import compare as sql

NUMBERS: Final = (
    "commits",
    "read_records",
    "read_per_s",
    "rewinds",
    "rewound_records",
    "rebalances",
    "most_lag_records",
    "most_lag_s",
)
NEW, GONE = "new", "gone"
_TABLES: Final = ("commits", "lag", "churn")


@dataclass(frozen=True)
class Window:
    """A span of time in milliseconds."""

    since_ms: int
    until_ms: int


@dataclass(frozen=True)
class Question:
    """The parameters of a comparison."""

    first: Window
    second: Window
    by_topic: bool = False
    groups: Sequence[str] | None = None
    partitions: Sequence[int] | None = None
    topics: Sequence[str] | None = None
    with_topics: bool = True


@dataclass(frozen=True)
class Compared:
    """The figures of a group, or of one topic of a group, in each of the two windows.

    A figure is None if it is unknown. All figures of a window are None if the group is not in this
    window.
    """

    group_id: str
    topic: str | None
    first: Mapping[str, float | None] | None
    second: Mapping[str, float | None] | None

    @property
    def news(self) -> str | None:
        """Returns NEW or GONE; None if the group is in both windows."""
        if self.first is None:
            return NEW
        return GONE if self.second is None else None

    @property
    def change(self) -> dict[str, float | None] | None:
        """Returns the figures of the second window minus the figures of the first window. Returns
        None if the group is not in both windows."""
        if self.first is None or self.second is None:
            return None
        pairs = {name: (self.first[name], self.second[name]) for name in NUMBERS}
        return {
            name: None if before is None or after is None else after - before
            for name, (before, after) in pairs.items()
        }


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison. Its groups are ordered by name."""

    engine: str
    begins_ms: int | None
    """The time of the history's first record in ms; None if no record has a time."""
    first: Window
    second: Window
    """The second of the two compared windows. Both windows end at the end of the history or
    earlier."""
    rows: tuple[Compared, ...]
    moved_bytes: int
    """The number of bytes that were read over the network."""


def compare(
    engine: Engine, source: Source, question: Question, on_window: Callable[[int], None]
) -> Comparison:
    """Reads a history once and compares two of its windows. Raises PipelineError if a window is
    outside of the history, or if the history does not contain a requested group."""
    return whole(source, partial(_compare, engine, source, question, on_window))


def _compare(
    engine: Engine, source: Source, question: Question, on_window: Callable[[int], None]
) -> Comparison:
    parts = source.event_parts(question.partitions)
    history = History(engine, source, parts, question.topics)
    found: list[dict[tuple[str, str | None], Mapping[str, float | None]]] = []
    windows = []
    for nth, window in enumerate((question.first, question.second)):
        on_window(nth)
        found.append(dict(_look(engine, history, window, question)))
        windows.append(Window(window.since_ms, min(window.until_ms, history.params.as_of_ms)))
    rows = tuple(
        Compared(*key, found[0].get(key), found[1].get(key))
        for key in sorted({**found[0], **found[1]}, key=lambda key: (key[0], key[1] or ""))
    )
    moved_bytes = source.moved_bytes() + engine.moved_bytes
    return Comparison(engine.name, history.begins_ms, windows[0], windows[1], rows, moved_bytes)


def _look(
    engine: Engine, history: History, window: Window, question: Question
) -> Iterator[tuple[tuple[str, str | None], Mapping[str, float | None]]]:
    """Yields the figures of one window, keyed by group and topic. The topic is None for the figures
    of a whole group."""
    span = Span(window.since_ms, window.until_ms)
    selection = Selection(question.groups, question.partitions, span)
    history.select(selection, each_group=False)
    relations = Definitions(engine, history, [TABLES[name] for name in _TABLES])
    if question.with_topics:
        relations.need("offset_changes")
        history.read_stretches()
    for name in _TABLES:
        relations.need(name)
    query = sql.window(engine.dialect, history.params, by_topic=question.by_topic)
    for row in engine.ask(query):
        yield (row["group_id"], row.get("topic")), _numbers(row)


def _numbers(row: Mapping[str, Any]) -> Mapping[str, float | None]:
    return {name: row[name] for name in NUMBERS}
