"""Rows as Parquet files laid out by day, as Spark lays out a table that is partitioned by it.

Written by pyarrow into a folder of this machine's file system; memory is bounded by the rows that
wait for their row group, of a bounded number of days.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.errors import PipelineError

DAY: Final = "day"
DAYS_AT_ONCE: Final = 8
"""Files that are open at the same time; a day that comes again after more has another file."""
ROW_GROUP_ROWS: Final = 131_072
ROW_GROUP_BYTES: Final = 32 << 20
"""Rows wait until there are so many, some 15 MB, or so much of them: metadata may be long."""
_NO_DAY = "__HIVE_DEFAULT_PARTITION__"


@dataclass
class _Open:
    writer: pq.ParquetWriter
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    size_bytes: int = 0


class DayFiles:
    """Files of one task below ``folder``, whose names begin with ``name``."""

    def __init__(
        self, folder: str, name: str, schema: pa.Schema, dictionaries: Sequence[str] | bool = True
    ) -> None:
        """``schema`` has a column `day`, which the folders' names have, not the files.

        ``dictionaries`` are the columns that repeat their values.
        """
        self._folder = folder
        self._name = name
        self._schema = schema.remove(schema.get_field_index(DAY))
        self._dictionaries = dictionaries
        self._open: dict[str, _Open] = {}
        """By day, the one written last at the end."""
        self.files: list[str] = []
        """Paths below the folder."""

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows of any days. PipelineError where nothing can be written."""
        with self._as_sentence():
            plain = rows.select(self._schema.names)
            days = rows[DAY].dictionary_encode(null_encoding="encode")
            for place, day in enumerate(days.dictionary):
                alone = len(days.dictionary) == 1
                of_day = plain if alone else plain.filter(pc.equal(days.indices, place))
                self._add_to(folder_of(day), of_day)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Finish all files; after an error they are left as they are, without an end."""
        with self._as_sentence():
            while self._open and kind is None:
                self._finish(next(iter(self._open)))

    @contextmanager
    def _as_sentence(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            why = error.strerror or error
            raise PipelineError(f"{self._folder} cannot be written: {why}") from error

    def _add_to(self, day: str, rows: pa.RecordBatch) -> None:
        file = self._open.pop(day, None)
        if file is None:
            if len(self._open) >= DAYS_AT_ONCE:
                self._finish(next(iter(self._open)))
            file = _Open(self._new(day))
        self._open[day] = file
        file.waiting.append(rows)
        file.rows += len(rows)
        file.size_bytes += rows.nbytes
        if file.rows >= ROW_GROUP_ROWS or file.size_bytes >= ROW_GROUP_BYTES:
            _write(file)

    def _new(self, day: str) -> pq.ParquetWriter:
        os.makedirs(os.path.join(self._folder, day), exist_ok=True)
        path = f"{day}/{self._name}-{len(self.files):03d}.snappy.parquet"
        self.files.append(path)
        return pq.ParquetWriter(
            os.path.join(self._folder, path),
            self._schema,
            compression="snappy",
            use_dictionary=self._dictionaries,
            store_schema=False,
        )

    def _finish(self, day: str) -> None:
        file = self._open.pop(day)
        _write(file)
        file.writer.close()


def _write(file: _Open) -> None:
    if file.waiting:
        file.writer.write_table(pa.Table.from_batches(file.waiting), row_group_size=file.rows)
        file.waiting, file.rows, file.size_bytes = [], 0, 0


def folder_of(day: pa.Date32Scalar) -> str:
    """Spark's folder of a day: years beyond four digits have a sign, no day has Hive's name."""
    days = day.cast(pa.int32()).as_py()
    if days is None:
        return f"{DAY}={_NO_DAY}"
    text = str(np.datetime64(days, "D"))
    year, rest = text[:-6], text[-6:]
    number = int(year)
    sign = "-" if number < 0 else "+" if number > 9999 else ""
    return f"{DAY}={sign}{abs(number):04d}{rest}"
