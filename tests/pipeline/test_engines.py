"""Every table comes out the same, row by row, from both engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pytest
from pyspark.sql import SparkSession

from pipeline.engines.duck import DuckEngine
from pipeline.engines.engine import Engine, Rows
from pipeline.engines.spark import SparkEngine
from pipeline.model.events import COMMIT, EVENTS, MARKER, STRETCHES
from pipeline.model.params import Params
from pipeline.run.catalog import RELATIONS, TABLES
from tests.pipeline.conftest import at

pytestmark = pytest.mark.pipeline


def rows_of(schema: pa.Schema, rows: list[dict[str, Any]]) -> Rows:
    nothing = dict.fromkeys(schema.names)
    return Rows(pa.Table.from_pylist([{**nothing, **row} for row in rows], schema=schema))


def history() -> list[dict[str, Any]]:
    """Plain commits, and transactions that committed, aborted, were overtaken, and are open."""
    rows: list[dict[str, Any]] = []

    def add(kind: str, **columns: Any) -> None:
        number = len(rows)
        row = {"log_partition": 0, "log_offset": number, "written_at": at(number), "kind": kind}
        rows.append({**row, **columns})

    def commit(offset: int, producer_id: int | None = None) -> None:
        place = {"group_id": "g", "topic": "t", "partition": 0, "metadata": ""}
        add(COMMIT, committed_offset=offset, producer_id=producer_id, **place)

    commit(10)
    commit(150, 1)
    add(MARKER, producer_id=1, marker="abort")
    commit(20)
    commit(5, 1)
    add(MARKER, producer_id=1, marker="abort")
    commit(30, 2)
    commit(25)
    add(MARKER, producer_id=2, marker="commit")
    commit(40, 2)
    add(MARKER, producer_id=2, marker="commit")
    commit(50, 3)
    return rows


def tables(engine: Engine, folder: Path) -> dict[str, list[dict[str, Any]]]:
    """All tables as they are read back, in the order of their rows' text."""
    stretch = {"topic": "t", "partition": 0, "base_offset": 0, "last_offset": 99,
               "first_at": at(-100), "last_at": at(-1), "size_bytes": 1}  # fmt: skip
    engine.read("events", [rows_of(EVENTS, history())], EVENTS)
    engine.read("stretches", [rows_of(STRETCHES, [stretch])], STRETCHES)
    params = Params(as_of_ms=round(at(100).timestamp() * 1000))
    for relation in RELATIONS.values():
        engine.define(relation.name, relation.sql(engine.dialect, params), keep=relation.keep)
    found = {}
    for table in TABLES.values():
        place = str(folder / table.name)
        query = table.sql(engine.dialect, params)
        engine.write(query, table.schema, place, table.by)
        engine.define(table.name, query, keep=False)
        schema = pa.schema(list(table.schema))
        read = pyarrow.dataset.dataset(place, schema, partitioning="hive").to_table()
        found[table.name] = sorted(read.to_pylist(), key=str)
    return found


def test_both_engines_make_the_same_tables(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    light = tables(DuckEngine(str(tmp_path / "scratch")), tmp_path / "duck")
    heavy = tables(SparkEngine(spark), tmp_path / "spark")

    assert light == heavy
    assert [(row["committed_offset"], row["previous_offset"]) for row in light["commits"]]
    outcomes = sorted((row["log_offset"], row["outcome"]) for row in light["transactional_commits"])
    assert outcomes == [
        (1, "aborted"), (4, "aborted"), (6, "superseded"), (9, "committed"), (11, "open"),
    ]  # fmt: skip
