"""`muster pipeline` from end to end on a running Muster, and as a process."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cli.errors import REFUSED, UNREACHABLE, CommandError
from cli.pipeline.extra import sentences
from pipeline.errors import PipelineError, Unreachable
from protocol.records.batch import encode_batch
from protocol.records.section import Record
from tests.brokers import CHECKOUT
from tests.cli.running import run
from tests.pipeline.small_logs import NOON, batch_of, commit, write_segment
from tests.waiting import until

pytestmark = pytest.mark.pipeline


def test_a_job_tells_what_it_made_and_does_not_make_it_twice(
    spark: SparkSession, history: Path, out: Path
) -> None:
    words = ["pipeline", "commits", "--source", str(history), "--out", str(out), "--no-topics"]
    made = run(*words)
    assert made.code == 0, made.err
    assert made.out.startswith("commits: read 2 records of the history\n")
    assert made.err == ""
    [row] = [line.split() for line in made.out.splitlines() if line.startswith("commits ")]
    assert row[:2] == ["commits", "2"]
    assert "from 2026-01-01T12:00:00Z, to 2026-01-01T12:01:00Z" in made.out

    again = run(*words)
    assert again.code == 1
    assert "already has commits: choose another --out, or replace" in again.err
    assert len(again.err.splitlines()) == 1

    part = run(*words, "--overwrite", "--json", "--since", "2026-01-01T12:00:30")
    assert part.code == 0, part.err
    assert [(t["name"], t["rows"]) for t in part.json["tables"]] == [("commits", 1)]
    since = ["--since", "2026-01-01T17:30:30+05:30", "--until", "2026-01-02"]
    zoned = run(*words, "--overwrite", *since)
    assert zoned.out.startswith(
        "commits: read 1 record of the history from 2026-01-01T12:00:30.000Z"
        " until 2026-01-02T00:00:00.000Z\n"
    )

    (history / "meta.properties").write_text("version=1\ncluster.id=two\n")
    mixed = run(*words, "--overwrite")
    assert mixed.code == 1
    assert "has tables of cluster one, but the source is cluster two" in mixed.err


def full(_: object) -> list[object]:
    raise PipelineError("/mnt/out cannot be written: No space left on device")


def test_what_a_task_says_reaches_the_user(spark: SparkSession) -> None:
    with pytest.raises(CommandError) as of_rows, sentences():
        spark.sparkContext.parallelize([1]).map(full).collect()
    with pytest.raises(CommandError) as of_frames, sentences():
        spark.range(1).mapInArrow(full, "id long").collect()

    said = "Spark failed: /mnt/out cannot be written: No space left on device"
    assert (str(of_rows.value), str(of_frames.value)) == (said, said)
    assert of_rows.value.exit_code == REFUSED


def test_a_broker_that_an_executor_does_not_reach_is_told_by_its_code(spark: SparkSession) -> None:
    def away(_: object) -> list[object]:
        raise Unreachable("no broker answers at b:9092")

    said = "^Spark failed: no broker answers at b:9092$"
    with pytest.raises(CommandError, match=said) as refused, sentences():
        spark.range(1).mapInArrow(away, "id long").collect()

    assert refused.value.exit_code == UNREACHABLE


def test_what_can_not_be_read_is_told_and_in_quarantine(
    spark: SparkSession, tmp_path: Path, out: Path
) -> None:
    """A record of a version that nobody knows, and a segment that was cut short."""
    key = batch_key("billing", "orders", 1)
    unknown = encode_batch([Record(1, NOON, key, b"\0\x63nobody knows", [])], base_offset=1)
    cut = batch_of(2, commit("billing", "orders", [40]))[:-9]
    first = batch_of(0, commit("billing", "orders", [10]))
    write_segment(tmp_path / "data", 0, first, unknown, cut)
    write_segment(tmp_path / "data", 3, batch_of(3, commit("billing", "orders", [50])))
    words = ["--source", str(tmp_path / "data"), "--out", str(out), "--no-topics", "--json"]
    made = run("pipeline", "commits", *words)
    assert made.code == 0, made.err
    assert "2 parts of the history could not be read; the table quarantine" in made.err
    assert made.json["damaged"] == 2
    assert spark.read.parquet(str(out / "quarantine")).count() == 2


def batch_key(group: str, topic: str, partition: int) -> bytes:
    texts = b"".join(len(t).to_bytes(2, "big") + t.encode() for t in (group, topic))
    return b"\0\1" + texts + partition.to_bytes(4, "big")


def test_a_folder_without_a_history_is_refused_before_anything_is_written(
    spark: SparkSession, tmp_path: Path, out: Path
) -> None:
    (tmp_path / "empty").mkdir()
    ran = run("pipeline", "commits", "--source", str(tmp_path / "empty"), "--out", str(out))
    assert ran.code == 1
    assert str(tmp_path / "empty") in ran.err
    assert len(ran.err.splitlines()) == 1
    assert not out.exists()


def test_the_terminal_has_the_commands_words_alone_and_ctrl_c_ends_it_cleanly(
    history: Path, out: Path
) -> None:
    words = ["pipeline", "all", "--source", str(history), "--out", str(out)]
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
    assert job.returncode == 130, errors
    assert said == ""
    assert errors == (
        "muster: interrupted, tables that were done are there, and none is half-written\n"
    )
