"""Feeds an archive with rows from files: from segments, from another archive, or from the tables of
an earlier run."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.engines.duck import DuckEngine
from pipeline.engines.engine import Part
from pipeline.model.events import EVENTS, STRETCHES
from pipeline.sources.damage import naming_damage, said_of
from pipeline.sources.feed import Growth, Held
from pipeline.sources.folder import EventSegments, FolderSource
from pipeline.sources.source import Source, TimesAsked
from pipeline.storage.day_files import fitted
from pipeline.storage.manifest import TopicEnds


class StoredFeed:
    """Implements `Feed` for a source that reads files."""

    def __init__(self, source: Source) -> None:
        self.where = source.where
        self._source = source

    def look(self) -> StoredNews:
        source = self._source
        starts = source.starts() if isinstance(source, FolderSource) else {}
        return StoredNews(source, source.cluster_id, source.end_ms(), starts)

    @property
    def said(self) -> list[str]:
        return said_of(self._source)

    @property
    def moved_bytes(self) -> int:
        """Returns 0, because reading files uses no broker connection."""
        return 0

    def close(self) -> None:
        """Does nothing, because no connection is open."""


@dataclass
class StoredNews:
    """Implements `News` for files."""

    source: Source
    cluster_id: str | None
    at_ms: int | None
    starts: Mapping[int, int]
    ends: Mapping[int, int] = field(default_factory=dict)
    log_id: str | None = None

    def events(self, positions: Mapping[int, int]) -> Iterator[pa.RecordBatch]:
        """Implements `News.events`. Rows from tables are sorted by an engine, because tables are
        not in order."""
        parts = self.source.event_parts(None)
        if parts is None:
            with naming_damage(self.source):
                yield from _sorted_events(self.source.event_files() or (), positions)
            return
        for part in parts:
            yield from _behind(part, positions).read()

    def growth(self, held: Held, known: Mapping[str, TopicEnds]) -> Growth:
        """Implements `News.growth`. ``known`` has the offsets up to which earlier reads added the
        rows of STRETCHES. The result contains only rows with later offsets, so each row is added
        once."""
        wanted = {topic for topic, _ in held} | set(known)
        topics = {
            topic: TopicEnds(None, dict(ends.ends), self.at_ms) for topic, ends in known.items()
        }
        return Growth(self._stretches(wanted, topics), topics)

    def _stretches(self, wanted: set[str], topics: dict[str, TopicEnds]) -> Iterator[pa.Table]:
        there = self.source.topics()
        if there is None:
            batches = _asked(
                self.source.stretch_files() or (), STRETCHES, "SELECT * FROM rows_of_files"
            )
        else:
            asked = TimesAsked(wanted & set(there), self.at_ms or 0)
            parts = self.source.stretch_parts(asked) or ()
            batches = (batch for part in parts for batch in part.read())
        ends_before = {
            (topic, number): end
            for topic, known in topics.items()
            for number, end in known.ends.items()
        }
        for batch in batches:
            rows = fitted(batch, STRETCHES)
            keys = list(zip(rows["topic"].to_pylist(), rows["partition"].to_pylist(), strict=True))
            bases = rows["base_offset"].to_numpy()
            fresh = bases >= np.array([ends_before.get(key, 0) for key in keys], np.int64)
            fresh &= np.array([topic in wanted for topic, _ in keys], np.bool_)
            rows = rows.filter(pa.array(fresh))
            for row in _lasts(rows):
                ends = topics.setdefault(row["topic"], TopicEnds(None, {}, self.at_ms)).ends
                end = row["last_offset_max"] + 1
                ends[row["partition"]] = max(ends.get(row["partition"], 0), end)
            yield rows


def _behind(part: Part, positions: Mapping[int, int]) -> Part:
    """Returns the part without the segments that have already been read. ``positions`` has the next
    offset to read of each partition."""
    if not isinstance(part, EventSegments):
        return part
    some = [
        segment
        for segment in part.segments
        if segment.behind is None or segment.behind > positions.get(segment.partition, 0)
    ]
    return EventSegments(tuple(some), part.names)


def _lasts(rows: pa.Table) -> Sequence[dict[str, Any]]:
    found: Sequence[dict[str, Any]] = (
        rows.group_by(["topic", "partition"]).aggregate([("last_offset", "max")]).to_pylist()
    )
    return found


def _sorted_events(files: Sequence[str], positions: Mapping[int, int]) -> Iterator[pa.RecordBatch]:
    known = " ".join(f"WHEN {number} THEN {at}" for number, at in positions.items())
    since = f"CASE log_partition {known} ELSE 0 END" if known else "0"
    query = (
        f"SELECT * FROM rows_of_files WHERE log_offset >= {since}"
        " ORDER BY log_partition, log_offset"
    )
    yield from _asked(files, EVENTS, query)


def _asked(files: Sequence[str], schema: pa.Schema, query: str) -> Iterator[pa.RecordBatch]:
    """Yields the rows of an SQL query. The query reads the files as the relation
    ``rows_of_files``."""
    with tempfile.TemporaryDirectory(prefix="muster-") as scratch:
        engine = DuckEngine(scratch)
        try:
            engine.open("rows_of_files", files, schema)
            yield from engine.arrow(query)
        finally:
            engine.close()
