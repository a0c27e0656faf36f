"""Computes relations and tables from a small history with DuckDB."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipeline.engines.dialect import type_of
from pipeline.engines.duck import DuckEngine
from pipeline.engines.engine import Engine, Rows, cast
from pipeline.model.events import EVENTS, STRETCHES
from pipeline.model.params import OFFSETS_RETENTION, Params
from pipeline.run import catalog
from pipeline.run.figures import Figure, figures_of
from tests.pipeline.conftest import at

EPOCH_S = at(0).timestamp()


class Relations:
    """The relations and tables of a history. Each one is computed when it is first read."""

    def __init__(
        self,
        folder: Path,
        events: Sequence[dict[str, Any]],
        stretches: Sequence[dict[str, Any]] = (),
        *,
        as_of: float = 1e6,
        since: float | None = None,
        read: float | None = None,
        retention: timedelta = OFFSETS_RETENTION,
    ) -> None:
        """All times are seconds after 2026-01-01 00:00 UTC. ``read`` is the time at which the
        source is read; the default is ``as_of``."""
        folder.mkdir(exist_ok=True)
        self._engine = DuckEngine(str(folder))
        self._made: set[str] = {catalog.EVENTS, catalog.STRETCHES}
        self._params = Params(
            as_of_ms=ms(as_of),
            since_ms=None if since is None else ms(since),
            offsets_retention_ms=round(retention.total_seconds() * 1000),
            read_ms=None if read is None else ms(read),
        )
        feed(self._engine, events, stretches)

    def rows(self, name: str, *columns: str, by: str = "log_offset") -> list[tuple[Any, ...]]:
        """Returns ``columns`` of a relation or table, sorted by ``by``. Times are seconds after
        2026-01-01 00:00 UTC."""
        self._make(name)
        asked = ", ".join(f'"{column}"' for column in columns)
        found = self._engine.ask(f"SELECT {asked} FROM {name} ORDER BY {by}")
        return [tuple(plain(value) for value in row.values()) for row in found]

    def figures(self, name: str) -> tuple[int, tuple[Figure, ...]]:
        """Returns the number of rows of a table, and the figures of its summary."""
        self._make(name)
        return figures_of(self._engine, name)

    def _make(self, name: str) -> None:
        if name in self._made:
            return
        self._made.add(name)
        relation = catalog.RELATIONS.get(name) or catalog.TABLES[name]
        for needed in relation.needs:
            self._make(needed)
        query = relation.sql(self._engine.dialect, self._params)
        if isinstance(relation, catalog.Table):
            query = cast(query, {field.name: type_of(field.type) for field in relation.schema})
        self._engine.define(name, query, keep=True)


def feed(
    engine: Engine, events: Sequence[dict[str, Any]], stretches: Sequence[dict[str, Any]]
) -> None:
    """Defines the relations of events and of stretches in an engine. Columns that a row omits are
    null."""
    engine.read(catalog.EVENTS, [rows_of(EVENTS, events)], EVENTS)
    engine.read(catalog.STRETCHES, [rows_of(STRETCHES, stretches)], STRETCHES)


def rows_of(schema: pa.Schema, rows: Iterable[dict[str, Any]]) -> Rows:
    """Returns ``rows`` as one part of a source. Columns that a row omits are null."""
    whole = []
    for row in rows:
        assert set(row) <= set(schema.names), set(row) - set(schema.names)
        whole.append({**dict.fromkeys(schema.names), **row})
    return Rows(pa.Table.from_pylist(whole, schema=schema))


def stretch(seconds: float, base: int, last: int, **columns: Any) -> dict[str, Any]:
    """Returns a stretch of partition 0 of topic orders. All its records have the timestamp
    ``seconds``, unless ``last_s`` is given for the last record."""
    row = {"topic": "orders", "partition": 0, "base_offset": base, "last_offset": last}
    when = {"first_at": at(seconds), "last_at": at(columns.pop("last_s", seconds))}
    return {**row, **when, "size_bytes": 100 * (last - base + 1), **columns}


def ms(seconds: float) -> int:
    """Converts seconds after 2026-01-01 00:00 UTC to milliseconds since 1970."""
    return round((EPOCH_S + seconds) * 1000)


def plain(value: Any) -> Any:
    """Converts times to seconds after 2026-01-01 00:00 UTC, and structs to tuples."""
    if isinstance(value, datetime):
        return round(value.timestamp() - EPOCH_S, 3)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, dict):
        return tuple(plain(each) for each in value.values())
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value
