"""A table written where the history is read: no row goes through Java.

Spark hands the tasks out and looks after them. Each reads whole partitions of the log in order and
writes Parquet files into a folder of its own; the files of the tries that were counted are then
moved to their place, and what other tries left is deleted. So a task that was tried twice, or that
still runs somewhere after it was given up, adds nothing.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import Broadcast
from pyspark.sql import DataFrame, SparkSession

from pipeline import clock
from pipeline.contract import DAMAGED, UNKNOWN
from pipeline.day_files import DayFiles
from pipeline.errors import PipelineError
from pipeline.sources.segment_files import local_folder
from pipeline.sources.segments import SharedTask, read_chain
from pipeline.tables.arrow_commits import RecordTimes

BATCHES_MAX: Final = 2_000_000
"""How many batches' times each task is given, some 30 MB; above it Spark joins them."""
_TRIES = "_tries"


class ArrowForm(NamedTuple):
    """How a table is made of what one task reads, a batch of rows at a time."""

    schema: pa.Schema
    rows_of: Callable[[pa.RecordBatch, RecordTimes | None], pa.RecordBatch]
    """Makes its rows of CHAINED and the times of the topics' records."""
    dictionaries: tuple[str, ...]
    """The columns that repeat their values."""


class Seen(NamedTuple):
    """What a task, or all of them, read: rows of any kind, damaged ones, unknown ones."""

    events: int
    damaged: int
    unknown: int


class Written(NamedTuple):
    """What one try of a task did."""

    folder: str
    files: list[str]
    """Below the folder."""
    seen: Seen


class DirectTable:
    """Writes a table of a history that lies in files."""

    def __init__(
        self,
        spark: SparkSession,
        form: ArrowForm,
        tasks: Sequence[SharedTask],
        times: RecordTimes | None,
    ) -> None:
        """``times`` are those of the topics' records, None where they are not read."""
        self._spark = spark
        self._form = form
        self._tasks = tasks
        self._times = times
        self.seen = Seen(0, 0, 0)
        """What the last `write` read."""

    def write(self, folder: str) -> None:
        """Write the table into a folder (path or `file:` URI) that all machines of the cluster see.

        PipelineError where it is not seen from here, or cannot be written.
        """
        context = self._spark.sparkContext
        times = context.broadcast(self._times)
        folder = local_folder(folder)
        tries = os.path.join(folder, _TRIES)
        os.makedirs(tries)
        try:
            todo = context.parallelize(self._tasks, max(len(self._tasks), 1))
            done = todo.map(partial(_write, form=self._form, times=times, folder=tries)).collect()
        finally:
            times.destroy()
        for written in done:
            move(written, folder)
        shutil.rmtree(tries, ignore_errors=True)
        Path(folder, "_SUCCESS").touch()  # as Spark ends a table
        self.seen = Seen(*np.sum([Seen(0, 0, 0), *(each.seen for each in done)], axis=0).tolist())


def direct_table(
    spark: SparkSession,
    form: ArrowForm,
    tasks: Sequence[SharedTask],
    batches: DataFrame | None,
) -> DirectTable | None:
    """None where ``batches`` are too many to be given to each task."""
    if batches is None:
        return DirectTable(spark, form, tasks, None)
    known = batches.select("topic", "partition", "last_offset", "first_at")
    table = known.limit(BATCHES_MAX + 1).toArrow()
    if len(table) > BATCHES_MAX:
        return None
    return DirectTable(spark, form, tasks, RecordTimes(table))


def _write(
    task: SharedTask, form: ArrowForm, times: Broadcast[RecordTimes | None], folder: str
) -> Written:
    return write_task(task, form, times.value, folder)


def write_task(
    task: SharedTask, form: ArrowForm, times: RecordTimes | None, folder: str
) -> Written:
    """Write what a task reads into a new folder below ``folder``. PipelineError: it cannot be."""
    own = os.path.join(folder, clock.fresh_id())
    name = f"part-{task.parts[0][0].segment.partition:05d}"
    seen = np.zeros(len(Seen._fields), np.int64)
    with DayFiles(own, name, form.schema, form.dictionaries) as files:
        for segments in task.parts:
            for rows in read_chain(segments):
                seen += (len(rows), _count(rows, DAMAGED), _count(rows, UNKNOWN))
                files.add(form.rows_of(rows, times))
    return Written(own, files.files, Seen(*seen.tolist()))


def _count(rows: pa.RecordBatch, kind: str) -> int:
    count: int = pc.sum(pc.equal(rows["kind"], kind)).as_py() or 0
    return count


def move(written: Written, folder: str) -> None:
    """Move the files of a try to their place; the partition in each name keeps them apart."""
    for file in written.files:
        place = os.path.join(folder, file)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        try:
            os.replace(os.path.join(written.folder, file), place)
        except FileNotFoundError:
            raise PipelineError(
                f"a task wrote {file} into {written.folder}, which this machine does not see: --out"
                " must be a folder that all machines of the cluster share"
            ) from None
