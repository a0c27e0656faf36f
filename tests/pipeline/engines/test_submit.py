"""Tests of the main file for spark-submit: it accepts the options of `muster pipeline` and has the
same exit codes."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from cli.pipeline.commands import app
from pipeline.run.catalog import JOBS
from pipeline.run.options import options_of
from pipeline.submit import main, parser
from tests.pipeline.small_logs import batch_of, commit, write_segment

pytestmark = pytest.mark.pipeline
OF_SPARK_SUBMIT = {"engine", "master", "conf", "verbose"}
ONLY_HERE = {"events": {"follow", "until_now", "every"}, "all": {"incremental"}}
"""By job: options of `muster pipeline` with which the job appends to an archive. A job that is
submitted to Spark does not have them."""


@pytest.mark.parametrize("job", JOBS)
def test_submit_job_has_the_options_of_the_command_line(job: str) -> None:
    [command] = [c.callback for c in app.registered_commands if c.callback and _name(c) == job]
    named = set(inspect.signature(command).parameters) - OF_SPARK_SUBMIT - ONLY_HERE.get(job, set())

    taken = vars(parser().parse_args([job]))

    assert set(taken) - {"job"} == named
    assert {option.key for option in options_of(job)} <= named


def _name(command: object) -> str:
    return getattr(command, "name", None) or command.callback.__name__  # type: ignore[attr-defined]


def test_submit_runs_a_job_and_exits_with_code_4_if_the_source_is_damaged(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    write_segment(
        data, 0, batch_of(0, commit("a", "t", [1])), batch_of(1, commit("b", "t", [2]))[:-9]
    )
    write_segment(data, 2, batch_of(2, commit("a", "t", [3])))
    words = ["commits", "--source", str(data), "--out", str(out), "-g", "a", "--json"]

    assert main([*words, "--fail-on-damage"]) == 4

    told = json.loads(capsys.readouterr().out)
    assert (told["events"], told["damaged"], told["engine"][:7]) == (3, 1, "Spark 4")
    assert pyarrow.parquet.read_table(out / "commits")["committed_offset"].to_pylist() == [1, 3]
    assert main(words) == 1
    assert "already has commits" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--source", "x"], 2, "name a folder for the tables"),
        (["--source", "x", "--out", "y", "--since", "noon"], 2, "--since noon: write the time as"),
        (["--source", "127.0.0.1:1", "--out", "y"], 3, "no broker answers"),
    ],
)
def test_submit_reports_a_wrong_argument_in_one_sentence_and_exits(
    spark: SparkSession, words: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rates", *words]) == code
    assert says in capsys.readouterr().err
