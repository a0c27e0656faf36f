"""Tests of `views.sql` and of the DuckDB file. Both contain the tables of a run and prepared
queries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from pipeline.engines.duck import DuckEngine
from pipeline.errors import PipelineError
from pipeline.run.catalog import JOBS
from pipeline.run.jobs import Options, Summary, run_job
from pipeline.run.output_location import store_of
from pipeline.run.queries import QUERIES
from pipeline.run.views import write_database, write_views
from pipeline.sources.folder import FolderSource
from pipeline.sources.source import Source
from tests.pipeline.given import GivenSource
from tests.pipeline.small_logs import NOON, batch_of, commit, generation, unpacked, write_segment

FORMATS = ("parquet", "delta", "iceberg")


def made(job: str, source: Source, tmp_path: Path, form: str | None = None) -> Summary:
    """Runs a job. The tables are written to `tmp_path/tables`."""
    scratch = tmp_path / f"scratch-{job}"
    scratch.mkdir()
    engine = DuckEngine(str(scratch))
    store = store_of(str(tmp_path / "tables"), engine, form)
    return run_job(engine, JOBS[job], source, store, Options())


def opened(tmp_path: Path) -> duckdb.DuckDBPyConnection:
    """Returns a DuckDB session that has executed `views.sql`."""
    session = duckdb.connect()
    session.execute((tmp_path / "tables" / "views.sql").read_text())
    return session


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked("kafka-4.3.1-killed", tmp_path_factory.mktemp("kafka"))


@pytest.mark.parametrize("form", FORMATS)
def test_views_sql_has_a_view_for_every_table_and_prepared_query_of_the_run(
    kafka: Path, tmp_path: Path, form: str
) -> None:
    summary = made("all", FolderSource(str(kafka)), tmp_path, form)

    session = opened(tmp_path)
    assert summary.views == str(tmp_path / "tables" / "views.sql")
    for table in summary.tables:
        found = session.execute(f"SELECT count(*) FROM {table.name}").fetchall()
        assert found == [(table.rows,)], table.name
    names = [row[0] for row in session.execute("SELECT name FROM ready_queries").fetchall()]
    assert names == [query.name for query in QUERIES]
    for name in names:
        session.execute(f"FROM {name}").fetchall()


def test_every_ready_query_in_views_sql_returns_rows(tmp_path: Path) -> None:
    hour = 3_600_000
    write_segment(
        tmp_path / "log", 0,
        batch_of(0, generation("billing", 1, {"a": {"orders": [0, 1]}})),
        batch_of(1, commit("billing", "orders", [100, 200])),
        batch_of(3, commit("billing", "orders", [40, 210], NOON + hour), at_ms=NOON + hour),
        batch_of(
            5, generation("billing", 2, {"a": {"orders": [0]}, "b": {"orders": [1]}}),
            at_ms=NOON + hour,
        ),
    )  # fmt: skip
    made("all", FolderSource(str(tmp_path / "log")), tmp_path)
    session = opened(tmp_path)

    def told(query: str) -> list[tuple[Any, ...]]:
        return session.execute(query).fetchall()

    assert told("SELECT group_id, rewound_records, owner_client_id FROM who_rewound") == [
        ("billing", 60, "client-a")
    ]
    assert told('SELECT "partition", generation, member_id FROM who_held') == [
        (0, 1, "a"), (0, 2, "a"), (1, 1, "a"), (1, 2, "b"),
    ]  # fmt: skip
    assert told('SELECT "partition", member_id FROM who_held WHERE ended_at IS NULL') == [
        (0, "a"), (1, "b"),
    ]  # fmt: skip
    assert told("SELECT commits, groups FROM busiest_hours") == [(2, 1), (2, 1)]
    assert told("SELECT group_id, commits, rewound_records FROM busiest_groups") == [
        ("billing", 4, 60)
    ]
    assert told("SELECT group_id, joined, moved_partitions FROM rebalances_by_hour")
    assert told("FROM who_unsettles_groups")
    assert told("FROM what_expires_next")
    assert told("FROM transactions_that_failed") == []


def test_views_sql_has_views_only_for_existing_tables(tmp_path: Path) -> None:
    made("rates", GivenSource([]), tmp_path)
    session = opened(tmp_path)
    assert session.execute("FROM busiest_hours").fetchall() == []
    assert session.execute("SELECT day FROM rates").description[0][1] == "DATE"
    queries = {row[0] for row in session.execute("SELECT name FROM ready_queries").fetchall()}
    assert queries == {"busiest_hours", "busiest_groups"}
    with pytest.raises(duckdb.CatalogException):
        session.execute("FROM commits")


@pytest.mark.campaign
@pytest.mark.parametrize("form", FORMATS)
def test_duckdb_file_has_all_tables(kafka: Path, tmp_path: Path, form: str) -> None:
    summary = made("all", FolderSource(str(kafka)), tmp_path, form)
    file = str(tmp_path / "all.duckdb")
    store = store_of(str(tmp_path / "tables"), DuckEngine(str(tmp_path)))

    assert write_database(store, file, overwrite=False) == [made.name for made in summary.tables]

    with duckdb.connect(file, read_only=True) as database:
        for table in summary.tables:
            found = database.execute(f"SELECT count(*) FROM {table.name}").fetchall()
            assert found == [(table.rows,)], table.name
        for query in QUERIES:
            database.execute(f"FROM {query.name}").fetchall()
    with pytest.raises(PipelineError, match="exists: replace it with --overwrite"):
        write_database(store, file, overwrite=False)
    write_database(store, file, overwrite=True)


def test_views_and_duckdb_file_reject_a_folder_without_tables(tmp_path: Path) -> None:
    store = store_of(str(tmp_path), DuckEngine(str(tmp_path)))
    for write in (write_views, lambda store: write_database(store, str(tmp_path / "f"), True)):
        with pytest.raises(
            PipelineError, match="has no tables: make them with `muster pipeline all`"
        ):
            write(store)
    assert not (tmp_path / "f").exists()
