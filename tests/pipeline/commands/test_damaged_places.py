"""Tests of damaged tables, a damaged file with the cluster id, and full disks. The error is one
sentence that names the file."""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path

import duckdb
import pytest

from pipeline.storage.archive import Archive
from tests.cli.running import Ran, run
from tests.pipeline.archives import commits, places, stretch
from tests.pipeline.small_logs import NOON, batch_of, commit, write_segment

CUT = '{"cluster_'


def one_sentence(ran: Ran, code: int = 1) -> str:
    assert (ran.code, ran.out) == (code, ""), ran.out
    assert len(ran.err.splitlines()) == 1, ran.err
    assert ran.err.startswith("muster: ")
    return ran.err


@pytest.mark.parametrize("text", [CUT, "", "[]", "{}", "7", "\udcff"])
def test_error_about_a_damaged_cluster_id_file_names_the_file(
    history: Path, out: Path, tmp_path: Path, text: str
) -> None:
    words = ["pipeline", "events", "--source", str(history), "--overwrite", "--out"]
    assert run(*words, str(out), "--group", "billing").code == 0
    note = out / "_muster.json"
    assert json.loads(note.read_text()) == {"cluster_id": "one"}
    note.write_bytes(text.encode("utf-8", "surrogateescape"))

    into = one_sentence(run(*words, str(out), "--group", "billing"))
    of = one_sentence(run("pipeline", "rates", "--source", str(out), "--out", str(tmp_path / "o")))

    for said in (into, of):
        assert f"{note} is damaged (" in said
    assert "choose another --out. If the tables belong to cluster one, as the source does" in into
    assert "delete" not in of
    assert """restore a copy of this file, or write {"cluster_id": "..."} into it""" in of
    note.unlink()
    assert run(*words, str(out), "--group", "billing").code == 0
    assert json.loads(note.read_text()) == {"cluster_id": "one"}


@pytest.fixture
def tables(history: Path, out: Path) -> Path:
    ran = run("pipeline", "all", "--source", str(history), "--out", str(out))
    assert ran.code == 0, ran.err
    return out


def test_each_command_that_reads_a_table_names_the_truncated_file_in_its_error(
    tables: Path, tmp_path: Path
) -> None:
    [events] = (tables / "events").rglob("*.parquet")
    [rates] = (tables / "rates").rglob("*.parquet")
    out = str(tmp_path / "more")
    spans = ["--first", "2026-01-01/1d", "--second", "2026-01-01/1d"]
    for size in (300, 3, 0):
        for file in (events, rates):
            os.truncate(file, size)
        for words in (
            ["commits", "--source", str(tables), "--out", out],
            ["compare", "--source", str(tables), *spans],
            ["report", "--out", str(tables), "--overwrite"],
            ["views", "--out", str(tables), "--duckdb", str(tmp_path / "all.duckdb")],
        ):
            said = one_sentence(run("pipeline", *words))
            assert f"{events} is damaged (it " in said
            assert "make the table again with --overwrite" in said
            assert "TMPDIR" not in said
    assert not Path(out).exists()


def test_commands_name_the_table_whose_parquet_files_are_missing(
    tables: Path, tmp_path: Path
) -> None:
    out = str(tmp_path / "more")
    for name, words in (
        ("rates", ["report", "--out", str(tables), "--overwrite"]),
        ("rates", ["views", "--out", str(tables), "--duckdb", str(tmp_path / "all.duckdb")]),
        ("events", ["commits", "--source", str(tables), "--out", out]),
    ):
        for file in (tables / name).rglob("*.parquet"):
            file.unlink()
        said = one_sentence(run("pipeline", *words))
        assert f"the table {tables}/{name} has no Parquet files: restore them" in said
    assert not Path(out).exists()


def test_command_names_the_file_when_its_rows_are_damaged(tables: Path, tmp_path: Path) -> None:
    [events] = (tables / "events").rglob("*.parquet")
    data = bytearray(events.read_bytes())
    for place in range(20, len(data) - 8 - int.from_bytes(data[-8:-4], "little")):
        data[place] ^= 0x5A
    events.write_bytes(data)

    ran = run("pipeline", "commits", "--source", str(tables), "--out", str(tmp_path / "more"))

    assert f"{events} is damaged (it has damaged rows (" in one_sentence(ran)


def limited(size: int, *words: str) -> Ran:
    """Runs a command whose files cannot grow beyond ``size`` bytes, which simulates a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        with pytest.MonkeyPatch.context() as patch:
            # Python would write a truncated .pyc file
            patch.setattr(sys, "dont_write_bytecode", True)
            return run(*words)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def long_history(tmp_path: Path) -> Path:
    """Returns a history whose commit table has about 100 KB."""
    data = tmp_path / "long"
    batches = [
        batch_of(nth, commit("billing", "orders", [nth * 7919 % 65521], NOON + nth,
                             metadata=f"{nth * 2654435761 % 2**32:x}"), at_ms=NOON + nth)
        for nth in range(3000)
    ]  # fmt: skip
    write_segment(data, 0, *batches)
    return data


def test_full_output_disk_is_reported_with_a_path_and_advice(long_history: Path, out: Path) -> None:
    words = ["pipeline", "commits", "--source", str(long_history), "--out", str(out)]

    said = one_sentence(limited(16_384, *words))

    assert said.startswith(f"muster: no space left at {out}/.commits.partial/")
    assert ".parquet (File too large): " in said
    assert "choose another disk with --out for tables" in said
    assert "--engine spark" not in said
    assert run(*words).code == 0, "it is started again when there is room"


def test_archive_is_unchanged_when_the_disk_is_full(long_history: Path, out: Path) -> None:
    with Archive.open(str(out)) as archive:
        archive.append([commits(9, range(3))], stretches=[stretch(0, 9)])
    before = places(out)
    words = ["pipeline", "events", "--source", str(long_history), "--out", str(out)]

    said = one_sentence(limited(8192, *words))

    assert f"{out} can't be written (" in said
    assert "the archive is unchanged" in said
    assert places(out) == before
    assert list(out.rglob("*.partial")) == []
    assert run(*words).code == 0
    assert len(places(out)) == 3003


def test_source_archive_is_accepted_when_one_of_its_files_is_truncated(
    history: Path, out: Path, tmp_path: Path
) -> None:
    assert run("pipeline", "events", "--source", str(history), "--out", str(out)).code == 0
    [file] = (out / "events").rglob("*.parquet")
    os.truncate(file, 100)
    os.utime(file, (0, 0))

    made = run("pipeline", "all", "--incremental", "--source", str(history), "--out", str(out))
    again = run("pipeline", "all", "--source", str(out), "--out", str(tmp_path / "o"))

    assert made.code == again.code == 0, made.err + again.err
    assert (
        f"{file} is damaged (it is truncated): the file was moved to {out}/quarantine/" in made.err
    )
    assert "1 part of the history could not be read" in again.err
    assert f"  {file.relative_to(out)}: The file is truncated." in again.err
    assert "could not be read" in (tmp_path / "o" / "report.html").read_text()


def test_file_that_is_damaged_twice_is_reported_both_times_with_exit_code_4(
    history: Path, out: Path
) -> None:
    words = ["--source", str(history), "--out", str(out), "--fail-on-damage"]
    assert run("pipeline", "events", *words).code == 0
    [file] = (out / "events").rglob("*.parquet")
    for job in (["events"], ["all", "--incremental"]):
        file.write_bytes(b"PAR1 and no more")
        os.utime(file, (0, 0))

        made = run("pipeline", *job, *words)

        assert made.code == 4, made.err
        assert made.err.count(f"{file} is damaged (it is truncated): the file was moved to") == 1
    duckdb.connect().execute((out / "views.sql").read_text()).execute("FROM commits, events")
