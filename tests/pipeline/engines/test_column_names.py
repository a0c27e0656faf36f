"""Tests that column names need no quotes in SQL, and that tables of an older Muster are
readable."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipeline.engines.dialect import type_of
from pipeline.engines.duck import DuckEngine
from pipeline.engines.engine import Engine
from pipeline.engines.spark import SparkEngine
from pipeline.model.tables import COMMITS, FORMER_NAMES, GENERATIONS, QUARANTINE, REWINDS
from pipeline.report.head import Thresholds
from pipeline.run.catalog import TABLES
from pipeline.run.report import write_report_again
from pipeline.run.views import write_database, write_views
from pipeline.storage.store import Store
from tests.pipeline.conftest import at

SCHEMAS = {name: table.schema for name, table in TABLES.items()} | {"quarantine": QUARANTINE}


def ask_every_column(engine: Engine, name: str, schema: pa.Schema) -> None:
    """Selects, sorts by and groups by each column in separate queries, without quotes."""
    engine.read(name, [], schema)
    columns = ", ".join(schema.names)
    engine.ask(f"SELECT {columns} FROM {name} ORDER BY {columns}")
    for column in schema.names:
        engine.ask(f"SELECT max({column}) FROM {name} WHERE {column} IS NOT NULL")
        engine.ask(f"SELECT {column}, count(*) FROM {name} GROUP BY {column}")


@pytest.mark.parametrize("name", SCHEMAS)
def test_duckdb_accepts_every_column_name_without_quotes(name: str, tmp_path: Path) -> None:
    ask_every_column(DuckEngine(str(tmp_path)), name, SCHEMAS[name])


@pytest.mark.pipeline
def test_spark_accepts_every_column_name_without_quotes(spark: SparkSession) -> None:
    """Spark accepts the names also when it enforces the reserved words of ANSI SQL."""
    strict = "spark.sql.ansi.enforceReservedKeywords"
    before = spark.conf.get(strict)
    try:
        for enforced in ("false", "true"):
            spark.conf.set(strict, enforced)
            for name, schema in SCHEMAS.items():
                engine = SparkEngine(spark)
                engine.read(name, [], schema)
                columns = ", ".join(schema.names)
                spark.sql(f"SELECT {columns} FROM {name}")
                for column in schema.names:
                    spark.sql(f"SELECT {column} FROM {name} WHERE {column} IS NOT NULL")
                engine.close()
    finally:
        spark.conf.set(strict, before)


def old_tables(folder: Path) -> Store:
    """Writes tables with the column names that an older Muster used."""
    rows = {
        "commits": (COMMITS, {"group_id": "billing", "at": at(7), "committed_offset": 5}),
        "rewinds": (REWINDS, {"group_id": "billing", "at": at(8), "rewound_records": 3}),
        "generations": (
            GENERATIONS,
            {"group_id": "billing", "life": 0, "generation": 1, "began_at": at(1), "left": []},
        ),
    }
    for name, (schema, row) in rows.items():
        former = FORMER_NAMES[name]
        fields = [field.with_name(former.get(field.name, field.name)) for field in schema]
        stored = pa.schema([field for field in fields if field.name != "day"])
        place = folder / name / "day=2026-01-01" if "day" in schema.names else folder / name
        place.mkdir(parents=True)
        whole = {**dict.fromkeys(stored.names), **row}
        pq.write_table(pa.Table.from_pylist([whole], stored), place / "part-0.parquet")
    return Store(str(folder))


ASKED = {
    "commits": ("committed_at", at(7)),
    "rewinds": ("rewound_at", at(8)),
    "generations": ("members_left", []),
}


def read(engine: Engine, folder: Path) -> None:
    for name, (column, value) in ASKED.items():
        engine.open(name, [str(folder / name)], TABLES[name].schema)
        assert engine.ask(f"SELECT {column} FROM {name}") == [{column: value}]


def test_duckdb_reads_and_reports_tables_with_former_column_names(tmp_path: Path) -> None:
    store = old_tables(tmp_path / "tables")
    (tmp_path / "scratch").mkdir()
    read(DuckEngine(str(tmp_path / "scratch")), tmp_path / "tables")

    page = Path(write_report_again(
        DuckEngine(str(tmp_path / "scratch")), store, Thresholds(), overwrite=False
    ))  # fmt: skip

    assert "billing" in page.read_text()


@pytest.mark.pipeline
def test_spark_reads_tables_with_former_column_names(spark: SparkSession, tmp_path: Path) -> None:
    old_tables(tmp_path / "tables")
    read(SparkEngine(spark), tmp_path / "tables")


@pytest.mark.parametrize("kind", ["views", "database"])
def test_sql_views_have_former_and_current_column_names(tmp_path: Path, kind: str) -> None:
    store = old_tables(tmp_path / "tables")
    if kind == "views":
        session = duckdb.connect()
        session.execute(Path(write_views(store) or "").read_text())
    else:
        write_database(store, str(tmp_path / "all.duckdb"), overwrite=False)
        session = duckdb.connect(str(tmp_path / "all.duckdb"), read_only=True)
        session.execute("SET TimeZone = 'UTC'")

    for name, (column, value) in ASKED.items():
        old = FORMER_NAMES[name][column]
        assert session.execute(f"SELECT {column} FROM {name}").fetchall() == [(value,)]
        assert session.execute(f'SELECT "{old}" FROM old_{name}').fetchall() == [(value,)]
        described = session.execute(f"SELECT * FROM {name} LIMIT 0").description
        assert described is not None
        assert [each[0] for each in described] == TABLES[name].schema.names
        kinds = dict(
            session.execute(f"SELECT column_name, column_type FROM (DESCRIBE {name})").fetchall()
        )
        assert (
            kinds[column].split("(")[0]
            == type_of(TABLES[name].schema.field(column).type)
            .replace("TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE")
            .split("(")[0]
        )
