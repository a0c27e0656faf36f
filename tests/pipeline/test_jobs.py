"""A job reads its source once, writes each table whole, and may be killed and started again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from pipeline.catalog import JOBS, TABLES, Job
from pipeline.contract import BATCHES, DAMAGED, UNKNOWN
from pipeline.errors import PipelineError
from pipeline.jobs import Options, Step, run_job
from pipeline.store import Store
from tests.pipeline.conftest import Frame
from tests.pipeline.history import History, batch, told

pytestmark = pytest.mark.pipeline


class Given:
    """A source of frames, which says how often it was asked."""

    def __init__(self, events: DataFrame, batches: DataFrame | None) -> None:
        self.frames = {"events": events, "batches": batches}
        self.asked: list[str] = []

    def events(self) -> DataFrame:
        self.asked.append("events")
        assert self.frames["events"] is not None
        return self.frames["events"]

    def chained(self) -> None:
        """None is had cheaper than by a sort."""

    def tasks(self) -> None:
        """It is in no files."""

    def batches(self, topics: list[str] | None) -> DataFrame | None:
        self.asked.append("batches")
        return self.frames["batches"]


def damaged(offset: int) -> dict[str, Any]:
    damage = {"file": "00.log", "position": 77, "reason": "CRC"}
    return {"log_partition": 3, "log_offset": offset, "kind": DAMAGED, "damage": damage}


@pytest.fixture
def source(frame: Frame) -> Given:
    history = History().commit(0, "a", 10).commit(61, "a", 40).commit(62, "a", 30)
    unknown = {"log_partition": 4, "log_offset": 5, "kind": UNKNOWN, "raw_key": b"\0\5"}
    return Given(
        frame([*history.rows, damaged(100), unknown]),
        frame([batch(0, 0, 19), batch(30, 20, 59)], BATCHES),
    )


def test_one_table_is_made_by_one_reading(
    spark: SparkSession, source: Given, tmp_path: Path
) -> None:
    store, steps = Store(spark, str(tmp_path)), list[Step]()

    summary = run_job(spark, JOBS["commits"], source, store, on_progress=steps.append)

    assert sorted(source.asked) == ["batches", "events"]
    assert [(s.what, s.done, s.total) for s in steps] == [
        ("the history", 0, 2), ("commits", 0, 2), ("quarantine", 1, 2), ("done", 2, 2),
    ]  # fmt: skip
    assert (summary.events, summary.damaged, summary.unknown) == (5, 1, 1)
    [table] = summary.tables
    assert (table.name, table.rows, table.figures[0]) == ("commits", 3, ("groups", "1"))
    assert told(store.read("commits"), "advanced_records", "advanced_s") == [
        (None, None), (30, 30), (-10, 0),
    ]  # fmt: skip
    assert told(store.read("quarantine"), "log_partition", "log_offset", "position", "reason") == [
        (3, 100, 77, "CRC")
    ]
    assert {p.name for p in tmp_path.iterdir()} == {"commits", "quarantine"}


def test_several_tables_are_made_of_the_events_that_are_written_first(
    spark: SparkSession, source: Given, tmp_path: Path
) -> None:
    store = Store(spark, str(tmp_path))
    job = Job("several", "tables of each other", ("events", "batches", "commits", "rates"))

    summary = run_job(spark, job, source, store)

    assert sorted(source.asked) == ["batches", "events"]
    assert [(table.name, table.rows) for table in summary.tables] == [
        ("events", 5), ("batches", 2), ("commits", 3), ("rates", 2),
    ]  # fmt: skip
    assert (summary.events, summary.damaged, summary.unknown) == (5, 1, 1)
    assert sorted(store.read("rates").columns) == sorted(TABLES["rates"].schema.names)


def test_what_is_there_is_refused_before_anything_is_read(
    spark: SparkSession, source: Given, tmp_path: Path
) -> None:
    store = Store(spark, str(tmp_path))
    store.write("rates", spark.range(3))

    with pytest.raises(PipelineError, match="already has rates"):
        run_job(spark, JOBS["rates"], source, store)

    assert source.asked == []
    assert store.read("rates").count() == 3
    run_job(spark, JOBS["rates"], source, store, Options(overwrite=True, with_batches=False))
    assert source.asked == ["events"]
    assert store.read("rates").count() == 2


def test_a_job_that_broke_off_is_started_again_without_asking(
    spark: SparkSession, source: Given, tmp_path: Path
) -> None:
    store, job = Store(spark, str(tmp_path)), Job("two", "two tables", ("commits", "rates"))

    class Broken(RuntimeError):
        pass

    def break_at_rates(step: Step) -> None:
        if step.what == "rates":
            raise Broken

    with pytest.raises(Broken):
        run_job(spark, job, source, store, on_progress=break_at_rates)
    assert (store.has("commits"), store.has("rates")) == (True, False)

    run_job(spark, job, source, store)

    assert (store.read("commits").count(), store.read("rates").count()) == (3, 2)
    with pytest.raises(PipelineError, match="already has commits, rates"):
        run_job(spark, job, source, store)


def test_a_history_of_nothing_gives_a_table_of_nothing(
    spark: SparkSession, frame: Frame, tmp_path: Path
) -> None:
    summary = run_job(spark, JOBS["rates"], Given(frame([]), None), Store(spark, str(tmp_path)))

    assert [(table.rows, table.figures) for table in summary.tables] == [(0, ())]
    assert (summary.events, summary.damaged, summary.unknown) == (0, 0, 0)
