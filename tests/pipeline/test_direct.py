"""`commits` written where the history is read: the same rows as Spark's, each once."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from offsets.runs import OffsetTombstones
from pipeline import direct
from pipeline.catalog import JOBS, TABLES
from pipeline.contract import BATCHES
from pipeline.direct import DirectTable, Seen, direct_table, write_task
from pipeline.errors import PipelineError
from pipeline.history import History
from pipeline.jobs import Options, Summary, run_job
from pipeline.selection import SelectedSource, Selection
from pipeline.sources.segments import SegmentTask, SharedTask, chain_tasks, chains_of, plan
from pipeline.spark_open import open_source
from pipeline.spark_source import Source
from pipeline.store import Store
from tests.cli.running import run
from tests.pipeline.conftest import Frame
from tests.pipeline.history import batch
from tests.pipeline.killing import killed_at
from tests.pipeline.small_logs import (
    KAFKA_DIR_NAMES,
    NOON,
    batch_of,
    commit,
    generation,
    unpacked,
    write_segment,
)

DAY_MS = 86_400_000
FORM = TABLES["commits"].arrow
assert FORM is not None, "the tasks make it"


def made_log(data: Path) -> Path:
    """Two partitions, one of two segments: tombstones, groups, damage, two days, a topic."""
    damaged = bytearray(batch_of(20, commit("g", "t", [9, 9, 9])))
    damaged[-1] ^= 1
    write_segment(
        data, 0,
        batch_of(0, commit("g", "t", [1, 2, 3]), generation("g", 1, {"m": {"t": [0]}})),
        batch_of(4, OffsetTombstones("g", [("t", 1)]), commit("h", "t", [5], expire_ms=NOON)),
        bytes(damaged),
    )  # fmt: skip
    later = NOON + DAY_MS
    write_segment(data, 30, batch_of(30, commit("g", "t", [2, 2, 2], later), at_ms=later))
    write_segment(data, 0, batch_of(0, commit("k", "t", [4], metadata=["x"])), partition=3)
    write_segment(data, 0, batch_of(0, commit("x", "y", [1, 2])), topic="t")
    return data


def rows_of(folder: str | Path) -> list[tuple[Any, ...]]:
    table = pq.read_table(folder)
    day = table.schema.get_field_index("day")
    table = table.set_column(day, "day", table["day"].cast(pa.string()))
    return sorted(map(tuple, (row.values() for row in table.to_pylist())), key=repr)


@pytest.fixture
def by_spark(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A job that writes nothing directly."""
    with monkeypatch.context() as patch:
        patch.setattr(History, "direct", lambda *_: None)
        yield patch


def job(spark: SparkSession, source: Source, out: Path, **options: Any) -> Summary:
    return run_job(spark, JOBS["commits"], source, Store(spark, str(out)), Options(**options))


@pytest.mark.pipeline
@pytest.mark.parametrize("with_batches", [True, False])
def test_it_makes_the_table_that_spark_makes(
    spark: SparkSession,
    by_spark: pytest.MonkeyPatch,
    tmp_path: Path,
    with_batches: bool,
) -> None:
    data = made_log(tmp_path / "data")
    source, ours, theirs = open_source(spark, str(data)), tmp_path / "ours", tmp_path / "theirs"
    expected = job(spark, source, theirs, with_batches=with_batches)
    by_spark.undo()

    told = job(spark, source, ours, with_batches=with_batches)

    assert rows_of(ours / "commits") == rows_of(theirs / "commits")
    assert (told.events, told.damaged, told.unknown) == (11, 1, 0)
    assert (told.events, told.damaged) == (expected.events, expected.damaged)
    assert [(t.rows, t.figures) for t in told.tables] == [
        (t.rows, t.figures) for t in expected.tables
    ]
    assert {f.name for f in (ours / "commits").iterdir()} == {
        "_SUCCESS", "day=2026-01-01", "day=2026-01-02"
    }  # fmt: skip
    assert not list(theirs.rglob("part-*-000.snappy.parquet")), "the other was Spark's"
    assert pq.read_table(ours / "quarantine").num_rows == 1


@pytest.mark.pipeline
@pytest.mark.parametrize("name", [n for n in KAFKA_DIR_NAMES if n.endswith("killed")])
def test_directories_of_kafka_give_the_same_rows_as_by_spark(
    spark: SparkSession, by_spark: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    source = open_source(spark, str(unpacked(name, tmp_path / "kafka")))
    job(spark, source, tmp_path / "theirs")
    by_spark.undo()
    job(spark, source, tmp_path / "ours")

    ours = rows_of(tmp_path / "ours" / "commits")
    assert ours
    assert ours == rows_of(tmp_path / "theirs" / "commits")


@pytest.mark.pipeline
def test_whole_partitions_are_chosen_and_other_selections_are_left_to_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = open_source(spark, str(made_log(tmp_path / "data")))

    part = SelectedSource(source, Selection(partitions=[3]))
    tasks = part.tasks()
    assert tasks is not None
    assert [chain[0].segment.partition for task in tasks for chain in task.parts] == [3]
    told = job(spark, part, tmp_path / "out", with_batches=False)
    assert (told.events, told.tables[0].rows) == (1, 1)
    assert SelectedSource(source, Selection(groups=["g"])).tasks() is None


@pytest.mark.pipeline
def test_a_history_without_commits_leaves_an_empty_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_segment(tmp_path / "data", 0, batch_of(0, generation("g", 1, {"m": {"t": [0]}})))

    source = open_source(spark, str(tmp_path / "data"))
    assert source.batches() is None, "an archive of the offsets alone"
    told = job(spark, source, tmp_path / "out")

    assert (told.events, told.tables[0].rows) == (1, 0)
    assert Store(spark, str(tmp_path / "out")).read("commits").columns[-1] == "day"


@pytest.mark.pipeline
def test_batches_beyond_the_bound_are_left_to_spark(
    spark: SparkSession, frame: Frame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "BATCHES_MAX", 1)
    one = batch(3, 0, 1)

    assert direct_table(spark, FORM, [], frame([one], BATCHES)) is not None
    assert direct_table(spark, FORM, [], frame([one, batch(4, 2, 3)], BATCHES)) is None


class FailsOnce:
    """The segments of a partition, which cannot be read to their end on the first try."""

    def __init__(self, segments: Sequence[SegmentTask], flag: Path) -> None:
        self.segments = segments
        self.flag = flag

    def __getitem__(self, place: int) -> SegmentTask:
        return self.segments[place]

    def __iter__(self) -> Iterator[SegmentTask]:
        yield self.segments[0]
        if not self.flag.exists():
            self.flag.touch()
            raise ConnectionResetError
        yield from self.segments[1:]


@pytest.mark.pipeline
def test_a_task_that_is_tried_twice_adds_its_rows_once(spark: SparkSession, tmp_path: Path) -> None:
    [task] = chain_tasks({"path": str(made_log(tmp_path / "data"))})
    first: Any = FailsOnce(task.parts[0], tmp_path / "failed")
    out = tmp_path / "out"

    writer = DirectTable(spark, FORM, [SharedTask([first, *task.parts[1:]])], None)
    writer.write(f"file:{out}")

    assert (tmp_path / "failed").exists()
    assert writer.seen == Seen(11, 1, 0)
    assert len(rows_of(out)) == 8
    assert {f.name for f in out.iterdir()} == {"_SUCCESS", "day=2026-01-01", "day=2026-01-02"}


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    [task] = chain_tasks({"path": str(made_log(tmp_path / "data"))})

    with pytest.raises(PipelineError, match=r"file/\w+ cannot be written: Not a directory"):
        write_task(task, FORM, None, str(tmp_path / "file"))


def test_files_that_are_not_seen_from_here_are_told(tmp_path: Path) -> None:
    [task] = chain_tasks({"path": str(made_log(tmp_path / "data"))})
    written = write_task(task, FORM, None, str(tmp_path / "elsewhere"))
    shutil.rmtree(tmp_path / "elsewhere")

    with pytest.raises(PipelineError, match="all machines of the cluster share"):
        direct.move(written, str(tmp_path / "out"))


@pytest.mark.pipeline
def test_a_job_killed_while_its_tasks_write_is_started_again(tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    for partition in range(4):
        numbers = range(0, 40_000, 500)
        write_segment(
            data, 0,
            *(batch_of(n, commit(f"g{n % 7}", "t", range(n, n + 500))) for n in numbers),
            partition=partition,
        )  # fmt: skip
    words = ("commits", "--source", str(data), "--out")
    killed = subprocess.Popen(
        [sys.executable, "-m", "cli.main", "pipeline", *words, str(out)],
        start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip

    assert killed_at(out / ".commits.partial" / "_tries", killed, within_s=120)
    assert not (out / "commits").exists()
    again = run("pipeline", *words, str(out))
    assert again.code == 0, again.err
    expected = write_task(
        SharedTask(chains_of(plan({"path": str(data)}))), FORM, None, str(tmp_path)
    )
    rows = rows_of(out / "commits")
    assert len(rows) == 4 * 40_000
    assert rows == rows_of(expected.folder)
    left = {file.name for file in out.iterdir() if file.suffix != ".crc"}
    assert left == {"commits"}, "nothing of the killed run"
