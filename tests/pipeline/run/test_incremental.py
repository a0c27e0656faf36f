"""Tests of `muster pipeline all --incremental`, which appends new records to an archive and makes
the tables of all its records."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pipeline.storage.archive import Archive
from tests.brokers import CHECKOUT, Broker
from tests.chance import chance
from tests.cli.running import Ran, run
from tests.pipeline.archives import START_MS, commits, is_the_log, place, places, rows_of
from tests.pipeline.killing import killed_at
from tests.pipeline.many_commits import PARTITIONS, commit, prepare

pytestmark = [pytest.mark.pipeline, pytest.mark.timeout(600), pytest.mark.proves("pipeline 5")]

TABLES = ("commits", "rates", "expiring_offsets", "compaction")


@pytest.fixture
def served(brokers: Callable[..., Broker]) -> Broker:
    broker = brokers({"offsets.topic.num.partitions": "3"})
    prepare(broker)
    return broker


def daily(source: str, out: Path, *words: str) -> Ran:
    return run("pipeline", "all", "--incremental", "--source", source, "--out", str(out), *words)


def table(folder: Path, name: str) -> list[str]:
    """Returns the sorted rows of a table, without the columns that contain the time of the run."""
    rows: list[dict[str, Any]] = pq.read_table(folder / name).to_pylist()
    return sorted(repr({**row, "record_at": 0, "record_at_precision_s": 0}) for row in rows)


def test_each_run_appends_new_records_and_makes_tables_of_the_whole_archive(
    served: Broker, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    commit(served, range(3))
    first = daily(served.bootstrap, out, "--json")
    assert (first.code, first.err) == (0, "")
    assert first.json["archive"]["added"] == first.json["events"] >= 3 * PARTITIONS
    assert first.json["moved_bytes"] > 0
    commit(served, range(2, 5))
    second = daily(served.bootstrap, out, "--json")
    assert second.json["archive"]["added"] == second.json["events"] - first.json["events"] > 0
    check_tables(served, out, tmp_path / "whole")

    again = daily(served.bootstrap, out)
    assert again.code == 0
    assert again.out.startswith(f"{out}: nothing new; the archive has {second.json['events']} ")
    check_tables(served, out, tmp_path / "again")


def check_tables(served: Broker, out: Path, whole: Path) -> None:
    """Asserts that the archive equals the log, and that its tables equal those of a full run on the
    same log."""
    is_the_log(served, out)
    assert run("pipeline", "all", "--source", served.bootstrap, "--out", str(whole)).code == 0
    for name in TABLES:
        assert table(out, name) == table(whole, name), name
    assert (out / "report.html").is_file()


def test_archive_keeps_records_that_the_log_no_longer_has(served: Broker, tmp_path: Path) -> None:
    """The test deletes the folder of a partition from the source before the second run."""
    out, copy = tmp_path / "out", tmp_path / "copy"
    commit(served, range(6))
    served.stop()
    shutil.copytree(served.data, copy)
    assert daily(str(copy), out).code == 0
    before = sorted(map(place, rows_of(out, "events")))
    shutil.rmtree(copy / f"__consumer_offsets-{before[0][0]}")
    again = daily(str(copy), out, "--json")
    assert (again.code, again.json["archive"]["added"]) == (0, 0)
    assert sorted(map(place, rows_of(out, "events"))) == before
    kept = {(row["log_partition"], row["log_offset"]) for row in made(out, "commits")}
    assert before[0][0] in {partition for partition, _ in kept}


def made(folder: Path, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(folder / name).to_pylist()
    return rows


def test_incremental_run_completes_the_archive_of_a_killed_run(
    served: Broker, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    killed = 0
    moments = chance().sample([".all.running", "commits", "rates", "catch_up"], 2)
    for turn, name in enumerate(["_archive.json", *moments]):
        commit(served, range(turn * 2, turn * 2 + 2))
        moment = out / name
        if moment.is_dir():  # the file is left from the previous run
            shutil.rmtree(moment)
        moment.unlink(missing_ok=True)
        command = [sys.executable, "-m", "cli.main", "pipeline", "all", "--incremental"]
        command += ["--source", served.bootstrap, "--out", str(out)]
        with open(tmp_path / "log", "a") as log:
            job = subprocess.Popen(
                command, cwd=CHECKOUT, stdout=log, stderr=log, start_new_session=True
            )
        killed += killed_at(moment, job, within_s=60)
    assert killed, (tmp_path / "log").read_text()[-2000:]
    assert daily(served.bootstrap, out).code == 0
    check_tables(served, out, tmp_path / "whole")


def test_option_incremental_rejects_tables_that_are_not_an_archive(
    served: Broker, tmp_path: Path
) -> None:
    out, new = tmp_path / "out", tmp_path / "new"
    commit(served, range(2))
    assert run("pipeline", "all", "--source", served.bootstrap, "--out", str(out)).code == 0
    refused = daily(served.bootstrap, out)
    assert refused.code == 1
    assert f"muster pipeline events --source {out} --out NEW" in refused.err
    assert run("pipeline", "events", "--source", str(out), "--out", str(new)).code == 0
    commit(served, range(2, 3))
    assert daily(served.bootstrap, new).code == 0
    check_tables(served, new, tmp_path / "whole")


def test_incremental_run_is_rejected_while_another_run_writes_the_archive(
    served: Broker, tmp_path: Path
) -> None:
    holder = (
        "import sys; from pipeline.storage.archive import Archive;"
        " a = Archive.open(sys.argv[1]); print('held', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", holder, str(tmp_path)],
        cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        refused = daily(served.bootstrap, tmp_path)
        assert (refused.code, "being written by process" in refused.err) == (1, True)
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=30)
    assert daily(served.bootstrap, tmp_path).code == 0


def test_error_of_a_rejected_selection_names_the_source_and_the_archive(
    tmp_path: Path,
) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    with Archive.open(str(source)) as archive:
        archive.append([commits(0, range(3))], read_until_ms=START_MS)

    ran = daily(str(source), out, "--no-topics", "--group", "nosuch")

    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"muster: {source} has no group nosuch: ")
    assert ran.err.endswith(f"; the new records of {source} are already in the archive {out}\n")
    assert len(places(out)) == 3


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--overwrite"], 2, "leave out --overwrite"),
        (["--source", "127.0.0.1:1"], 3, "no broker answers"),
        (["--out", "s3://bucket/x"], 1, "an archive must be in a folder on this machine"),
    ],
)
def test_option_incremental_rejects_wrong_sources_and_options(
    words: list[str], code: int, says: str, tmp_path: Path
) -> None:
    (tmp_path / "__consumer_offsets-0").mkdir()
    (tmp_path / "__consumer_offsets-0" / f"{0:020d}.log").touch()
    ran = run(
        "pipeline", "all", "--incremental", "--source", str(tmp_path), "--out",
        str(tmp_path / "out"), *words,
    )  # fmt: skip
    assert ran.code == code, ran.err
    assert says in ran.err
