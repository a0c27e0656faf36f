"""`muster pipeline` and bad input: each a sentence, an exit code, and nothing written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cli.errors import CommandError
from cli.pipeline import extra
from cli.pipeline.jobs import JOBS as NAMED
from cli.pipeline.plans import open_target
from pipeline.catalog import JOBS
from pipeline.errors import PipelineError, Unreachable
from pipeline.repairs.plan import ZOOKEEPER
from tests.cli.running import run

pytestmark = pytest.mark.pipeline


def test_the_commands_are_the_pipelines_jobs() -> None:
    assert set(JOBS) == set(NAMED)


def test_what_spark_submit_needs_is_written_once_and_its_line_printed(tmp_path: Path) -> None:
    folder = tmp_path / "package"
    made = run("pipeline", "package", "--out", str(folder), "--master", "spark://h:7077")
    assert made.code == 0, made.err
    words = made.out.split()
    assert words[:3] == ["spark-submit", "--master", "spark://h:7077"]
    assert sorted(path.name for path in folder.iterdir()) == ["muster.zip", "muster_submit.py"]
    assert all(str(folder / name) in words for name in ("muster.zip", "muster_submit.py"))
    again = run("pipeline", "package", "--out", str(folder))
    assert again.code == 1
    assert "already has muster.zip, muster_submit.py" in again.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--until-now"], "--until-now goes with --follow"),
        (["--follow", "--group", "g"], "--follow reads the whole history"),
    ],
)
def test_following_takes_everything(words: list[str], says: str) -> None:
    ran = run("pipeline", "events", "--source", "x", "--out", "y", *words)
    assert (ran.code, says in ran.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["commits", "--out", "OUT"], 2, "name the history"),
        (["commits", "--source", "HISTORY"], 2, "name a folder for the tables"),
        (
            ["commits", "--source", "nowhere", "--out", "OUT"],
            1,
            "folder nowhere does not exist",
        ),
        (["commits", "--source", "FILE", "--out", "OUT"], 1, "unpack an archive first"),
        (["commits", "--source", "127.0.0.1:1", "--out", "OUT"], 3, "no broker answers"),
        (["commits", "--source", "kafka://x", "--out", "OUT"], 1, "is not an address"),
        (["commits", "--source", "HISTORY", "--out", "FILE"], 1, "is a file: name a folder"),
        (["commits", "--source", "HISTORY", "--out", "OUT", "--since", "noon"], 2, "--since noon"),
        (["commits", "--source", "HISTORY", "--out", "OUT", "--partitions", "x"], 2, "as 0-1,5"),
        (["commits", "--source", "HISTORY", "--out", "OUT", "--conf", "x=1"], 2, "spark.NAME"),
        (["restore", "--at", "2026-01-01"], 2, "name the groups"),
        (["restore", "g"], 2, "name the time"),
        (["restore", "g", "--at", "2999-01-01"], 2, "is in the future"),
        (["restore", "g", "--at", "2026-01-01"], 2, "name the history"),
    ],
)
def test_a_bad_input_is_one_sentence_and_nothing_is_written(
    history: Path, out: Path, words: list[str], code: int, says: str
) -> None:
    file = history.parent / "file"
    file.write_text("x")
    places = {"HISTORY": history, "OUT": out, "FILE": file}
    ran = run("pipeline", *(str(places.get(word, word)) for word in words))
    assert ran.code == code
    assert ran.err.startswith("muster: ")
    assert str(places.get(says, says)) in ran.err
    assert len(ran.err.splitlines()) == 1
    assert not out.exists()


def test_without_the_extra_the_command_that_installs_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(extra.importlib.util, "find_spec", lambda name: None)
    ran = run("pipeline", "commits", "--source", "x", "--out", "y")
    assert ran.code == 1
    assert ran.err.startswith("muster: this command needs pyspark, ")
    assert "pip install 'musterd[pipeline]'" in ran.err
    with pytest.raises(CommandError, match="this command needs kazoo"):
        open_target(ZOOKEEPER, "127.0.0.1:1", 1.0)


def test_wrong_permissions_are_a_sentence(
    history: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out.mkdir()
    monkeypatch.setattr(os, "access", lambda place, mode: Path(place) != out)  # root may all
    ran = run("pipeline", "commits", "--source", str(history), "--out", str(out))
    assert ran.code == 1
    assert f"--out {out} can't be written: see the permissions of {out}" in ran.err


@pytest.mark.parametrize(
    ("raised", "code", "says"),
    [
        (PipelineError("that is why"), 1, "that is why"),
        (Unreachable("nobody is there"), 3, "nobody is there"),
        (KeyboardInterrupt(), 130, "interrupted, nothing was done"),
        (ConnectionRefusedError("Java is gone"), 1, "Spark failed: Java is gone; more is in log"),
    ],
)
def test_what_is_raised_becomes_a_sentence_and_an_exit_code(
    raised: BaseException, code: int, says: str
) -> None:
    with pytest.raises(CommandError, match=says) as caught, extra.sentences(Path("log")):
        raise raised
    assert caught.value.exit_code == code


def test_what_is_a_bug_stays_one() -> None:
    with pytest.raises(ZeroDivisionError), extra.sentences():
        raise ZeroDivisionError
