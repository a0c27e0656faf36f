"""Tests of the output and the exit codes of `muster pipeline` with the DuckDB engine."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import duckdb
import pytest

from tests.brokers import CHECKOUT
from tests.cli.running import run
from tests.pipeline.small_logs import NOON, batch_of, commit, write_segment


def test_job_prints_its_tables_and_a_second_run_does_not_replace_the_tables(
    history: Path, out: Path
) -> None:
    words = ["pipeline", "commits", "--source", str(history), "--out", str(out), "--no-topics"]
    made = run(*words)
    assert made.code == 0, made.err
    assert made.out.startswith(
        "commits: read 2 records of the history as of 2026-01-01T12:01:00.000Z; DuckDB 2."
    )
    assert made.err == ""
    rows = {line.split()[0]: line.split()[1:] for line in made.out.splitlines()[2:]}
    assert (rows["commits"][0], rows["commits"][-1]) == ("2", str(out / "commits"))
    assert "from 2026-01-01T12:00:00Z, to 2026-01-01T12:01:00Z" in made.out

    again = run(*words)
    assert again.code == 1
    assert "already has commits" in again.err
    assert "choose another --out, or replace" in again.err
    assert len(again.err.splitlines()) == 1

    part = run(*words, "--overwrite", "--json", "--since", "2026-01-01T12:00:30")
    assert part.code == 0, part.err
    assert part.json["tables"][0]["rows"] == 1
    assert part.json["as_of_ms"] == NOON + 60_000
    assert (part.json["events"], part.json["moved_bytes"], part.json["report"]) == (2, 0, None)
    span = ["--since", "2026-01-01T17:30:30+05:30", "--until", "2026-01-02"]
    zoned = run(*words, "--overwrite", *span)
    assert zoned.out.startswith(
        "commits: read 2 records of the history from 2026-01-01T12:00:30.000Z,"
        " until 2026-01-02T00:00:00.000Z, as of 2026-01-01T12:01:00.000Z;"
    )

    (history / "meta.properties").write_text("version=1\ncluster.id=two\n")
    mixed = run(*words, "--overwrite")
    assert mixed.code == 1
    assert "has tables of cluster one, but the source is cluster two" in mixed.err


def test_command_options_for_groups_partitions_and_times_select_rows(
    history: Path, out: Path
) -> None:
    write_segment(history, 0, batch_of(0, commit("audit", "orders", [7])), partition=3)
    words = ["pipeline", "commits", "--source", str(history), "--out", str(out), "--overwrite"]

    def rows(*more: str) -> int:
        ran = run(*words, "--json", *more)
        assert ran.code == 0, ran.err
        return int(ran.json["tables"][0]["rows"])

    assert rows() == 3
    assert rows("--group", "bill*") == 2
    assert rows("-g", "bill*", "-g", "audit") == 3
    assert rows("--partitions", "3") == 1
    assert rows("--until", "2026-01-01T12:01:00") == 2
    assert rows("--as-of", "2026-01-01T12:00:30Z") == 2


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Returns a history whose first segment is truncated."""
    data = tmp_path / "data"
    cut = batch_of(1, commit("billing", "orders", [40]))[:-9]
    write_segment(data, 0, batch_of(0, commit("billing", "orders", [10])), cut)
    write_segment(data, 2, batch_of(2, commit("billing", "orders", [50])))
    return data


def test_command_reports_damage_and_exits_with_4_when_fail_on_damage_is_set(
    damaged: Path, out: Path
) -> None:
    words = ["pipeline", "commits", "--source", str(damaged), "--out", str(out), "--json"]
    made = run(*words)
    assert made.code == 0
    assert "1 part of the history could not be read: see table quarantine" in made.err
    assert made.json["damaged"] == 1
    [where] = made.json["unreadable"]
    assert where["file"] in made.err
    assert where["log_offset"] == 1
    assert f"{where['file']} at byte {where['position']}: {where['reason']}" in made.err
    assert (out / "quarantine").is_dir()

    alerted = run(*words, "--overwrite", "--fail-on-damage")
    assert (alerted.code, alerted.json["damaged"]) == (4, 1)


def test_job_all_runs_without_java_and_spark(history: Path, out: Path) -> None:
    """The environment has only the packages of the extra `light`."""
    code = f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "pandas", "py4j"):
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Absent())
sys.argv = ["muster", "pipeline", "all", "--source", {str(history)!r}, "--out", {str(out)!r}]
from cli.main import main
main()
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert (out / "report.html").is_file()
    again = run("pipeline", "report", "--out", str(out))
    assert (again.code, "already has report.html" in again.err) == (1, True)
    assert run("pipeline", "report", "--out", str(out), "--overwrite").code == 0


def test_extra_light_installs_pytz() -> None:
    """DuckDB needs pytz to convert a timestamp with a time zone to a Python object."""
    extras = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    code = """
import sys
sys.modules["pytz"] = None
import duckdb
duckdb.sql("SELECT TIMESTAMPTZ '2026-01-01'").fetchall()
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "Required module 'pytz'" in ran.stderr
    assert any(each.startswith("pytz") for each in extras["light"])


def test_events_command_rejects_an_output_folder_that_is_the_source(
    history: Path, out: Path
) -> None:
    assert run("pipeline", "events", "--source", str(history), "--out", str(out)).code == 0
    words = ["pipeline", "events", "--source", str(out), "--out", str(out), "--overwrite"]
    ran = run(*words)
    assert (ran.code, ran.out) == (1, "")
    assert (
        f"{out} is the source, and already has events: choose another folder with --out" in ran.err
    )


def test_tables_in_delta_format_have_duckdb_views(history: Path, out: Path, tmp_path: Path) -> None:
    words = ["pipeline", "commits", "--source", str(history), "--out", str(out), "--no-topics"]
    made = run(*words, "--format", "delta")
    assert made.code == 0, made.err
    assert f"duckdb -init {out}/views.sql, then FROM ready_queries;" in made.out
    assert (out / "commits" / "_delta_log").is_dir()
    assert run(*words, "--overwrite").code == 0
    assert len(list((out / "commits" / "_delta_log").glob("*.json"))) == 2, "a second version"
    mixed = run(*words, "--overwrite", "--format", "iceberg")
    assert mixed.code == 1
    assert "has the format delta, not iceberg" in mixed.err
    wrong = run(*words, "--format", "orc")
    assert wrong.code == 2
    assert "--format orc is unknown: choose from parquet, delta, iceberg" in wrong.err

    file = tmp_path / "all.duckdb"
    views = ["pipeline", "views", "--out", str(out)]
    again = run(*views, "--duckdb", str(file))
    assert again.code == 0, again.err
    assert f"{file} has 2 tables" in again.out
    with duckdb.connect(str(file), read_only=True) as database:
        assert database.execute("SELECT count(*) FROM commits").fetchall() == [(2,)]
    refused = run(*views, "--duckdb", str(file))
    assert refused.code == 1
    assert "exists: replace it with --overwrite" in refused.err
    assert run(*views, "--json").json == {
        "views": f"{out}/views.sql", "duckdb": None, "tables": None
    }  # fmt: skip
