"""Tests of tables that grow by day in a catalog. A run rewrites the newest day, appends later days,
and keeps earlier days."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline.engines.duck import DuckEngine
from pipeline.engines.spark import SparkEngine
from pipeline.errors import PipelineError, WrongUse
from pipeline.model.params import DAY_MS
from pipeline.run.as_of import Span
from pipeline.run.catalog import JOBS, Job
from pipeline.run.jobs import Options, Summary, run_job
from pipeline.run.output_location import store_of
from pipeline.run.selection import Selection
from pipeline.storage.catalogued import CatalogStore
from tests.pipeline.given import GivenSource, committed
from tests.pipeline.relations import ms

pytestmark = [pytest.mark.timeout(900), pytest.mark.proves("pipeline 9")]
SERIES = Job("series", "Rows of many days.", ("events", "commits", "rates"))
ANSWERS = Job("answers", "What holds as of a time.", ("expiring_offsets",))
A_DAY = 86_400
FIRST, SECOND, THIRD = (date(2026, 1, day) for day in (1, 2, 3))


class Asked:
    """A fake catalog. ``newest`` has the newest day of each table."""

    def __init__(self, **newest: date | None) -> None:
        self.newest = newest
        self.said: list[str] = []

    def run(self, sql: str) -> list[dict[str, Any]]:
        self.said.append(sql)
        if sql.startswith("SHOW TABLES"):
            return [
                {"tableName": "relation", "isTemporary": True},
                *({"tableName": name, "isTemporary": False} for name in self.newest),
            ]
        if sql.startswith("SELECT max"):
            return [{"newest": self.newest[sql.rpartition(".")[2]]}]
        return []

    def types(self, _: object) -> dict[str, str]:
        return {}


def test_run_continues_at_the_newest_day_that_is_in_every_table_of_the_run() -> None:
    store = CatalogStore("lake.muster", Asked(commits=THIRD, rates=SECOND, lag=None), None)

    assert store.since_ms(["commits", "rates", "lag", "rewinds"], None, None) == ms(A_DAY)
    assert store.since_ms(["rewinds", "relation"], None, None) is None
    assert store.since_ms(["commits"], 3 * DAY_MS, None) == 3 * DAY_MS


def test_option_since_in_a_catalog_is_rejected_unless_it_is_a_whole_day() -> None:
    store = CatalogStore("lake.muster", Asked(commits=THIRD), None)

    with pytest.raises(WrongUse, match="--since 1970-01-02T00:00:00Z must be midnight UTC"):
        store.since_ms(["commits"], DAY_MS + 1, None)
    with pytest.raises(PipelineError, match="rows of 2026-01-03, but this run ends before"):
        store.since_ms(["commits"], None, ms(A_DAY))


@pytest.mark.parametrize("name", ["muster", "lake.", "lake.a b", "lake.x; DROP TABLE y"])
def test_invalid_namespace_is_rejected(name: str) -> None:
    with pytest.raises(WrongUse, match=r"is invalid: write CATALOG\.NAMESPACE"):
        CatalogStore(name, Asked(), None)


def test_duckdb_rejects_a_catalog_as_output(tmp_path: Path) -> None:
    with pytest.raises(
        PipelineError, match=r"DuckDB .* does not support catalogs: choose --engine spark"
    ):
        store_of("catalog://lake.muster", DuckEngine(str(tmp_path)))


@pytest.fixture
def namespace(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    spark.sql(f"CREATE DATABASE lake LOCATION '{tmp_path / 'lake'}'")
    yield "spark_catalog.lake"
    spark.sql("DROP DATABASE lake CASCADE")


@pytest.fixture
def run(spark: SparkSession, namespace: str) -> Any:
    def run(source: GivenSource, job: Job = SERIES, **options: Any) -> Summary:
        engine = SparkEngine(spark, 100)
        store = store_of(f"catalog://{namespace}", engine, "parquet")
        return run_job(engine, job, source, store, Options(**options))

    return run


def history(*commits: tuple[float, int], cluster: str | None = None) -> GivenSource:
    """Returns a history with one commit per argument: a number of days after 2026-01-01, and the
    offset. Log offsets ascend in the order of the arguments."""
    rows = [committed(day * A_DAY, "g", offset) for day, offset in commits]
    for row, (_, offset) in zip(rows, commits, strict=True):
        row["log_offset"] = offset
    source = GivenSource(rows, [])
    source.cluster_id = cluster
    return source


def rows(spark: SparkSession, name: str, column: str) -> dict[date, list[Any]]:
    """Returns the values of a column, by day."""
    found: dict[date, list[Any]] = {}
    asked = f'SELECT day, "{column}" FROM spark_catalog.lake.{name} ORDER BY ALL'
    for day, value in spark.sql(asked).collect():
        found.setdefault(day, []).append(value)
    return found


@pytest.mark.pipeline
def test_pipeline_run_rewrites_the_newest_day_of_a_table_and_keeps_earlier_days(
    spark: SparkSession, run: Any
) -> None:
    run(history((0.1, 1), (0.2, 2), (1.1, 3)))
    made = run(history((0.2, 2), (1.1, 3), (1.2, 4), (2.5, 5)))

    expected = {FIRST: [1, 2], SECOND: [3, 4], THIRD: [5]}
    assert rows(spark, "commits", "committed_offset") == expected
    assert rows(spark, "events", "committed_offset") == expected
    assert {day: sum(n) for day, n in rows(spark, "rates", "commits").items()} == {
        FIRST: 2, SECOND: 2, THIRD: 1,
    }  # fmt: skip
    by_name = {each.name: each.rows for each in made.tables}
    assert by_name["commits"] == 3
    assert (made.report, made.views) == (None, None)
    run(history((0.2, 2), (1.1, 3), (1.2, 4), (2.5, 5)))
    assert rows(spark, "commits", "committed_offset") == expected

    run(history((0.2, 7), (1.1, 8)), overwrite=True)
    assert rows(spark, "commits", "committed_offset") == {FIRST: [7], SECOND: [8], THIRD: [5]}


@pytest.mark.pipeline
def test_rerun_of_a_day_replaces_the_earlier_rows_of_that_day(
    spark: SparkSession, run: Any
) -> None:
    for until_s in (A_DAY / 2, A_DAY / 2 + 60, A_DAY):
        options = {"selection": Selection(span=Span(as_of_ms=ms(until_s)))}
        run(history((0.1, 1), (0.2, 2)), ANSWERS, **options)

    assert rows(spark, "expiring_offsets", "committed_offset") == {FIRST: [2], SECOND: [2]}


@pytest.mark.pipeline
def test_catalog_tables_of_another_cluster_are_rejected(spark: SparkSession, run: Any) -> None:
    run(history((0.1, 1), cluster="one"), JOBS["events"])

    with pytest.raises(PipelineError, match="has rows of cluster one, but the source is cluster"):
        run(history((0.2, 2), cluster="two"), JOBS["events"])
