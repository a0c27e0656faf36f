"""Reads parts of a history in several processes, and writes them to Parquet files, from which an
engine reads columns."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline import clock
from pipeline.engines.engine import Part, moved_by

ROW_GROUP_BYTES: Final = 32 << 20
"""The bytes of rows that each process collects in memory before it writes them as one row group."""


class Staged(NamedTuple):
    """The files that the engine's tasks wrote, and the number of bytes that the tasks read over the
    network."""

    files: list[str]
    moved_bytes: int


class Written(NamedTuple):
    """The result of a task that wrote a part: the number of written rows, and the number of bytes
    that the task read over the network."""

    rows: int
    moved_bytes: int


def stage(parts: Sequence[Part], schema: pa.Schema, folder: str, processes: int) -> Staged:
    """Write the rows of each part to a file in a new folder, ``processes`` parts at a time.

    A part without rows has no file. Raise PipelineError if a part can't be read.
    """
    os.makedirs(folder)
    files = [os.path.join(folder, f"part-{number:05d}.parquet") for number in range(len(parts))]
    with clock.processes(min(processes, len(parts))) as pool:
        done = [
            pool.submit(write_part, part, schema, file)
            for part, file in zip(parts, files, strict=True)
        ]
        try:
            written = [each.result() for each in done]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            clock.end_processes()
            raise
    return Staged(
        [file for file, each in zip(files, written, strict=True) if each.rows],
        sum(each.moved_bytes for each in written),
    )


def write_part(part: Part, schema: pa.Schema, file: str) -> Written:
    count = waiting = 0
    rows: list[pa.RecordBatch] = []
    with pq.ParquetWriter(file, schema, compression="lz4") as writer:
        for batch in part.read():
            rows.append(batch)
            count += len(batch)
            waiting += batch.nbytes
            if waiting >= ROW_GROUP_BYTES:
                _write(writer, rows)
                rows, waiting = [], 0
        _write(writer, rows)
    return Written(count, moved_by(part))


def _write(writer: pq.ParquetWriter, rows: Sequence[pa.RecordBatch]) -> None:
    if rows:
        table = pa.Table.from_batches(rows)
        writer.write_table(table, row_group_size=len(table))
