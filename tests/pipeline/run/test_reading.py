"""Tests that DuckDB reads the tables that DuckDB or Spark has written to the local disk."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.engines.dialect import Dialect, DuckDialect, SparkDialect
from pipeline.engines.duck import DuckEngine
from pipeline.model.events import EVENTS
from pipeline.run.catalog import TABLES
from pipeline.run.choice import LIGHT_RECORDS
from pipeline.run.reading import reading
from pipeline.storage.store import Store


def engine_of(dialect: Dialect, *, is_here: bool = True) -> Any:
    return SimpleNamespace(dialect=dialect, is_here=is_here)


def test_local_tables_of_spark_are_read_by_duckdb(tmp_path: Path) -> None:
    store, made = Store(str(tmp_path / "tables")), TABLES["events"]
    writer = DuckEngine(str(tmp_path))
    writer.read("events", [], EVENTS)
    store.put(writer, made.name, "SELECT * FROM events", made.schema, made.by)
    writer.close()

    with reading(engine_of(SparkDialect()), store, 1) as reader:
        assert reader.engine.name.startswith("DuckDB")
        assert reader.relation(made, "written_events") == "events"
        assert reader.engine.ask("SELECT count(*) AS rows FROM events") == [{"rows": 0}]


@pytest.mark.parametrize(
    ("engine", "place", "records"),
    [
        (engine_of(DuckDialect()), "here", 1),
        (engine_of(SparkDialect(), is_here=False), "here", 1),
        (engine_of(SparkDialect()), "hdfs:///tables", 1),
        (engine_of(SparkDialect()), "here", LIGHT_RECORDS + 1),
    ],
    ids=["of DuckDB", "of a cluster", "elsewhere", "of a long history"],
)
def test_tables_that_duckdb_cannot_read_are_read_by_the_engine_that_wrote_them(
    engine: Any, place: str, records: int, tmp_path: Path
) -> None:
    files: Any = None if place == "here" else SimpleNamespace()
    store = Store(place if files else str(tmp_path / place), files)

    with reading(engine, store, records) as reader:
        assert reader.engine is engine
        assert reader.relation(TABLES["events"], "written_events") == "written_events"
