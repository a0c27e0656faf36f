"""Tests of the engine that a run chooses, and of the number of its processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cli.errors import CommandError
from cli.pipeline.session import spark_session
from pipeline import session
from pipeline.engines.duck import DuckEngine
from pipeline.errors import PipelineError, Unreachable, WrongUse
from pipeline.model.events import EVENTS
from pipeline.run import choice
from pipeline.run.choice import DUCKDB, LIGHT_RECORDS, POOL_RECORDS, SPARK, choose, processes_for
from pipeline.session import BRIEF_JAVA
from pipeline.sources.open import open_source
from tests.brokers import CHECKOUT, free_port
from tests.pipeline.small_logs import batch_of, commit, write_segment

pytestmark = pytest.mark.proves("pipeline 3")

HERE = ("127.0.0.1:9092", "/tables")
ARGUMENTS = """
from pipeline.session import open_session
spark = open_session("local[1]", brief=True, settings={"spark.jars.packages": ""})
factory = spark._jvm.java.lang.management.ManagementFactory
print(*factory.getRuntimeMXBean().getInputArguments())
spark.stop()
"""


@pytest.mark.parametrize(
    ("engine", "master", "settings", "places", "records", "chosen"),
    [
        (None, None, {}, HERE, 5, DUCKDB),
        (None, None, {}, HERE, None, DUCKDB),
        (None, None, {}, HERE, LIGHT_RECORDS + 1, SPARK),
        (DUCKDB, None, {}, HERE, LIGHT_RECORDS + 1, DUCKDB),
        (SPARK, None, {}, HERE, 5, SPARK),
        (None, "spark://there:7077", {}, HERE, 5, SPARK),
        (None, None, {"spark.executor.memory": "4g"}, HERE, 5, SPARK),
        (None, None, {}, ("/data", "hdfs://there/tables"), 5, SPARK),
        (None, None, {}, ("/data", "s3://there/tables"), 5, DUCKDB),
        (None, None, {}, ("/data", "catalog://lake.muster"), 5, SPARK),
    ],
)
def test_engine_is_chosen_by_options_and_size(
    engine: str | None,
    master: str | None,
    settings: dict[str, str],
    places: tuple[str, str],
    records: int | None,
    chosen: str,
) -> None:
    assert choose(engine, master, settings, places, records) == chosen


def test_duckdb_is_chosen_for_any_size_when_spark_is_not_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(choice.importlib.util, "find_spec", lambda name: None)
    assert choose(None, None, {}, HERE, LIGHT_RECORDS * 9) == DUCKDB


def test_duckdb_is_rejected_for_a_path_that_needs_spark() -> None:
    with pytest.raises(WrongUse, match="hdfs://a/b needs Spark"):
        choose(DUCKDB, None, {}, ("x", "hdfs://a/b"), 1)


def test_few_records_are_read_in_one_process() -> None:
    assert processes_for(POOL_RECORDS - 1) == 1
    assert processes_for(POOL_RECORDS) == min(len(os.sched_getaffinity(0)), 8)


def test_option_brief_is_passed_to_the_spark_session(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = []

    def open_session(*_: Any, **options: Any) -> None:
        said.append(options["brief"])
        raise PipelineError("enough")

    monkeypatch.setattr(session, "open_session", open_session)
    with (
        pytest.raises(CommandError, match="enough"),
        spark_session("local[1]", {}, verbose=False, brief=True),
    ):
        raise AssertionError("there is no session")

    assert said == [True]


def test_error_names_the_unreachable_spark_connect_server() -> None:
    port = free_port()
    with pytest.raises(Unreachable, match=f"can't connect to Spark Connect at localhost:{port}"):
        session.open_session(f"sc://localhost:{port}/;user_id=me")


@pytest.mark.pipeline
def test_java_of_a_short_spark_session_is_started_with_the_options_in_brief_java() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ARGUMENTS], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True,
        check=True, timeout=300,
    )  # fmt: skip

    assert set(BRIEF_JAVA.split()) <= set(done.stdout.split())


class Lost:
    """A part of a source. Reading it fails, because its broker is unreachable."""

    def read(self) -> Iterator[pa.RecordBatch]:
        raise Unreachable("nobody answers at there:9092")
        yield


@pytest.mark.campaign
@pytest.mark.parametrize("processes", [1, 2])
def test_exception_of_a_source_in_a_child_process_is_raised_unchanged(
    tmp_path: Path, processes: int
) -> None:
    engine = DuckEngine(str(tmp_path), processes)
    with pytest.raises(Unreachable, match="nobody answers"):
        engine.read("events", [Lost(), Lost()], EVENTS)
    engine.close()


@pytest.mark.campaign
def test_two_processes_read_the_same_rows_from_a_source_as_one_process(
    tmp_path: Path,
) -> None:
    for partition in range(3):
        log = batch_of(0, commit(f"g{partition}", "t", range(20)))
        write_segment(tmp_path / "data", 0, log, partition=partition)
    parts = [
        part
        for partition in range(3)
        for part in open_source(str(tmp_path / "data")).event_parts([partition]) or ()
    ]
    assert len(parts) == 3
    found = []
    for processes in (1, 2):
        scratch = tmp_path / str(processes)
        scratch.mkdir()
        engine = DuckEngine(str(scratch), processes)
        engine.read("events", parts, EVENTS)
        found.append(engine.ask("SELECT * FROM events ORDER BY log_partition, log_offset"))
        engine.close()
    assert found[0] == found[1]
    assert len(found[0]) == 60
