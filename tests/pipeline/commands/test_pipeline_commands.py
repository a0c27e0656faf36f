"""`muster pipeline` with wrong input: an error of one sentence, an exit code, and no written
files."""

from __future__ import annotations

import os
import subprocess
import types
from pathlib import Path

import duckdb
import pytest

from cli.errors import CommandError
from cli.pipeline import extra
from cli.pipeline.jobs import JOBS as NAMED
from cli.pipeline.plans import open_target
from cli.pipeline.source import check_out
from pipeline.errors import NotInstalled, PipelineError, Unreachable, WrongUse
from pipeline.repairs.plan import ZOOKEEPER
from pipeline.run.catalog import JOBS
from pipeline.run.textfile import check_textfile
from tests.brokers import CHECKOUT
from tests.cli.running import run

pytestmark = pytest.mark.pipeline


def test_each_job_of_the_pipeline_is_a_command() -> None:
    assert {name: job.summary for name, job in JOBS.items()} == NAMED


def test_package_command_writes_files_and_prints_the_spark_submit_line(tmp_path: Path) -> None:
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
        (["--until-now"], "--until-now needs --follow"),
        (
            ["--follow", "--group", "g"],
            "--follow adds all records and uses no engine: leave out --group",
        ),
    ],
)
def test_option_follow_is_rejected_with_selection_options(words: list[str], says: str) -> None:
    ran = run("pipeline", "events", "--source", "x", "--out", "y", *words)
    assert (ran.code, says in ran.err) == (2, True)


RATES = ["rates", "--source", "HISTORY", "--out", "OUT"]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["commits", "--out", "OUT"], 2, "--source is missing: name a broker"),
        (["commits", "--source", "HISTORY"], 2, "name a folder for the tables"),
        (
            ["commits", "--source", "nowhere", "--out", "OUT"],
            1,
            "/nowhere does not exist",
        ),
        (["commits", "--source", "FILE", "--out", "OUT"], 1, "unpack an archive first"),
        (["commits", "--source", "127.0.0.1:1", "--out", "OUT"], 3, "no broker answers"),
        (["commits", "--source", "kafka://x", "--out", "OUT"], 1, "is not an address"),
        (["commits", "--source", "HISTORY", "--out", "FILE"], 1, "is a file: name a folder"),
        (["commits", "--source", "HISTORY", "--out", "OUT", "--since", "noon"], 2, "--since noon"),
        (["commits", "--source", "HISTORY", "--out", "OUT", "--partitions", "x"], 2, "as 0-1,5"),
        (["commits", "--source", "HISTORY", "--out", "OUT", "--conf", "x=1"], 2, "spark.NAME"),
        (
            ["commits", "--source", "HISTORY", "--out", "OUT", "--engine", "x"],
            2,
            "choose duckdb or spark",
        ),
        (
            ["commits", "--source", "HISTORY", "--out", "OUT", "--timeout", "x"],
            2,
            "be a number of seconds",
        ),
        (
            [*RATES, "--engine", "duckdb", "--master", "m"],
            2,
            "--engine duckdb and --master can't be combined",
        ),
        (
            [
                "rates",
                "--source",
                "HISTORY",
                "--out",
                "OUT",
                "--engine",
                "duckdb",
                "--conf",
                "spark.x=1",
            ],
            2,
            "--conf needs Spark",
        ),
        (
            [
                "rates",
                "--source",
                "HISTORY",
                "--out",
                "OUT",
                "--since",
                "2026-02-01",
                "--until",
                "2026-01-01",
            ],
            2,
            "the window is empty",
        ),
        (
            [*RATES, "-t", "x", "--no-topics"],
            2,
            "can't be combined",
        ),
        (
            [*RATES, "--partitions", "9"],
            1,
            "no partition 9",
        ),
        (["restore", "--at", "2026-01-01"], 2, "name the groups"),
        (["restore", "g"], 2, "name the time"),
        (["restore", "g", "--at", "2999-01-01"], 2, "is in the future"),
        (["restore", "g", "--at", "2026-01-01"], 2, "name the history"),
    ],
)
def test_pipeline_command_reports_wrong_arguments_in_one_sentence_and_writes_no_file(
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


def test_missing_packages_are_reported_with_their_install_command(
    monkeypatch: pytest.MonkeyPatch, history: Path, out: Path
) -> None:
    words = ["pipeline", "commits", "--source", str(history), "--out", str(out)]
    monkeypatch.setattr(extra.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(extra.sys, "prefix", "/usr")
    ran = run(*words)
    assert ran.code == 1
    assert ran.err.startswith("muster: this command needs duckdb, pyarrow, numpy: ")
    assert "pip install 'musterd[light]'" in ran.err
    with pytest.raises(CommandError, match=r"needs pyspark: .*pip install 'musterd.pipeline.'"):
        extra.needs("pyspark")
    with pytest.raises(CommandError, match="this command needs kazoo"):
        open_target(ZOOKEEPER, "127.0.0.1:1", 1.0)


def test_error_about_a_missing_package_suggests_command_make_pipeline_in_a_checkout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(extra.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(extra.sys, "prefix", str(CHECKOUT / ".venv"))
    with pytest.raises(
        CommandError, match=f"`make -C {CHECKOUT} pipeline` to install the packages"
    ):
        extra.needs("pyspark")
    absent = NotInstalled("the format delta", "deltalake", "lakehouse")
    with (
        pytest.raises(CommandError, match=f"needs deltalake: .*make -C {CHECKOUT} pipeline"),
        extra.sentences(),
    ):
        raise absent
    monkeypatch.setattr(extra.sys, "prefix", "/usr")
    with pytest.raises(CommandError, match=r"pip install 'musterd.lakehouse.'"), extra.sentences():
        raise absent
    made = subprocess.run(
        ["make", "-C", str(CHECKOUT), "-n", "pipeline"], capture_output=True, check=False
    )
    assert made.returncode == 0, made.stderr


def test_out_folder_without_write_permission_is_reported_in_one_sentence(
    history: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out.mkdir()
    # root has write permission everywhere
    monkeypatch.setattr(os, "access", lambda place, mode: Path(place) != out)
    ran = run("pipeline", "commits", "--source", str(history), "--out", str(out))
    assert ran.code == 1
    assert (
        f"--out {out} can't be written: permission denied: check the permissions of {out}"
        in ran.err
    )


def test_read_only_file_system_is_reported_instead_of_permissions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The root folder of a read-only mount can have write permission, so the command checks the
    mount too."""
    monkeypatch.setattr(os, "access", lambda *_: False)
    whole = os.statvfs(tmp_path)
    read_only = types.SimpleNamespace(f_flag=whole.f_flag | os.ST_RDONLY)
    monkeypatch.setattr(os, "statvfs", lambda _: read_only)
    for check in (check_out, lambda place: check_textfile(f"{place}/lag.prom")):
        with pytest.raises(Exception, match=f"{tmp_path} is on a read-only file system") as said:
            check(str(tmp_path))
        assert "permissions" not in str(said.value)


@pytest.mark.parametrize(
    ("raised", "code", "says"),
    [
        (PipelineError("that is why"), 1, "that is why"),
        (WrongUse("write it so"), 2, "write it so"),
        (
            duckdb.OutOfMemoryException("too\nmuch"),
            1,
            "DuckDB failed: too much; use --engine spark",
        ),
        (Unreachable("nobody is there"), 3, "nobody is there"),
        (KeyboardInterrupt(), 130, "interrupted, nothing was done"),
        (ConnectionRefusedError("Java is gone"), 1, "Spark failed: Java is gone; see log"),
    ],
)
def test_expected_exception_is_converted_to_a_sentence_and_an_exit_code(
    raised: BaseException, code: int, says: str
) -> None:
    with pytest.raises(CommandError, match=says) as caught, extra.sentences(Path("log")):
        raise raised
    assert caught.value.exit_code == code


def test_unexpected_exception_of_a_pipeline_command_is_raised_unchanged() -> None:
    with pytest.raises(ZeroDivisionError), extra.sentences():
        raise ZeroDivisionError
