"""Writes the Parquet files of an archive. Each append writes one file for each table and day.

A file is written as `.NAME.partial`, fsynced, and renamed when it is complete. Fewer than
`ROWS_AT_ONCE` rows of a table are in memory.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.model.events import EVENTS, STRETCHES
from pipeline.model.tables import QUARANTINE
from pipeline.storage.manifest import LiveFile, sync_folder

TABLES: Final[dict[str, pa.Schema]] = {
    "events": EVENTS,
    "stretches": STRETCHES,
    "quarantine": QUARANTINE,
}
_DATED_BY: Final = {
    "events": ("written_at", "commit_at", "state_at"),
    "stretches": ("last_at", "first_at"),
}
"""By table, the columns that determine the day of a row. The day is taken from the first of these
columns that has a time. Tables that are not listed here have one folder for all days."""
NO_DAY: Final = "day=__HIVE_DEFAULT_PARTITION__"
"""The folder of rows without a time. Readers of Parquet interpret this name as null."""
OWN_NAME: Final = re.compile(r"archive-\d{12}\.parquet")
PARTIAL_NAME: Final = re.compile(r"\.archive-\d{12}\.parquet\.partial")
ROWS_AT_ONCE: Final = 131_072
OPEN_FILES: Final = 128
_DAY_US: Final = 86_400_000_000
_DAYS: Final = (-719_162, 2_932_896)
"""The first and the last day of the years 1 to 9999, in days since 1970."""
_SELDOM_TWICE: Final = ("log_offset", "committed_offset", "base_offset", "last_offset")
"""Columns whose values rarely repeat, so that Parquet's dictionary encoding does not save space."""


class NewFiles:
    """Writes new files, which the next manifest will list."""

    def __init__(self, folder: Path, first_number: int) -> None:
        self.rows = 0
        """The number of rows that were added to all tables."""
        self._folder = folder
        self.next_number = first_number
        self._waiting: dict[str, list[pa.Table]] = {}
        self._open: dict[tuple[str, str], _File] = {}
        self._closed: list[_File] = []

    def add(self, table: str, rows: pa.Table) -> None:
        """Adds rows, which must have the columns of the table. They are written into the folders of
        their days."""
        if not rows.num_rows:
            return
        self.rows += rows.num_rows
        waiting = self._waiting.setdefault(table, [])
        waiting.append(rows)
        if sum(part.num_rows for part in waiting) >= ROWS_AT_ONCE:
            self._write(table)

    def add_to(self, folder: str, rows: pa.Table) -> None:
        """Adds rows to one folder of a table, such as ``events/day=2026-01-31``."""
        table, _, day = folder.partition("/")
        self._file(table, day).write(rows)

    def finish(self) -> dict[str, list[LiveFile]]:
        """Fsyncs the files and renames them. Returns the files by table, ordered by path."""
        for table in list(self._waiting):
            self._write(table)
        done = sorted([*self._closed, *self._open.values()], key=lambda file: file.live.path)
        self._open.clear()
        self._closed = done
        found: dict[str, list[LiveFile]] = {}
        for file in done:
            file.close()
        for file in done:
            os.replace(file.aside, self._folder / file.path)
            found.setdefault(file.table, []).append(file.live)
        for folder in sorted({(self._folder / file.path).parent for file in done}):
            sync_folder(folder)
        self._closed = []
        return found

    def drop(self) -> None:
        """Deletes all files that were not renamed yet."""
        for file in [*self._closed, *self._open.values()]:
            file.drop()

    def _write(self, table: str) -> None:
        waiting = self._waiting.pop(table)
        rows = pa.concat_tables(waiting)
        for day, part in _by_day(table, rows):
            self._file(table, day).write(part)

    def _file(self, table: str, day: str) -> _File:
        key = table, day
        file = self._open.pop(key, None)
        if file is None:
            if len(self._open) >= OPEN_FILES:
                oldest = self._open.pop(next(iter(self._open)))
                oldest.close()
                self._closed.append(oldest)
            file = _File(self._folder, table, day, self.next_number)
            self.next_number += 1
        self._open[key] = file  # move it to the end: ordered by last use
        return file


class _File:
    """A Parquet file that is being written."""

    def __init__(self, folder: Path, table: str, day: str, number: int) -> None:
        name = f"archive-{number:012d}.parquet"
        place = f"{table}/{day}" if day else table
        self.table = table
        self.path = f"{place}/{name}"
        self.aside = folder / place / f".{name}.partial"
        self._rows = 0
        make_folders(folder, place)
        schema = TABLES[table]
        self._out: IO[Any] = self.aside.open("wb")
        self._writer = pq.ParquetWriter(
            self._out,
            schema,
            compression="zstd",
            use_dictionary=_in_dictionaries(schema),
        )

    @property
    def live(self) -> LiveFile:
        return LiveFile(self.path, self._rows)

    def write(self, rows: pa.Table) -> None:
        """Writes the rows as row groups of at most `ROWS_AT_ONCE` rows."""
        self._writer.write_table(rows, row_group_size=ROWS_AT_ONCE)
        self._rows += rows.num_rows

    def close(self) -> None:
        """Completes the file and fsyncs it."""
        if self._out.closed:
            return
        self._writer.close()
        self._out.flush()
        os.fsync(self._out.fileno())
        self._out.close()

    def drop(self) -> None:
        with contextlib.suppress(OSError):  # on a full disk, the close fails too
            self._out.close()
        with contextlib.suppress(FileNotFoundError):
            self.aside.unlink()


def make_folders(root: Path, place: str) -> None:
    """Creates the folder ``place`` below ``root`` with its parents, and fsyncs them."""
    folder = root
    for name in place.split("/"):
        above, folder = folder, folder / name
        if not folder.is_dir():
            folder.mkdir()
            sync_folder(above)


def fitted(rows: pa.RecordBatch | pa.Table, schema: pa.Schema) -> pa.Table:
    """Converts rows to the columns and the column order of a schema. Missing columns become null.

    Older versions of Muster wrote fewer columns, and Spark writes its own types of strings and
    times.
    """
    columns = []
    for field in schema:
        place = rows.schema.get_field_index(field.name)
        if place < 0:
            columns.append(pa.nulls(rows.num_rows, field.type))
        else:
            columns.append(_cast(rows.column(place), field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def batches_of(file: Path, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yields the rows of a Parquet file in batches, converted to ``schema``."""
    with pq.ParquetFile(file) as opened:
        for batch in opened.iter_batches(batch_size=ROWS_AT_ONCE // 2):
            yield fitted(batch, schema)


def _cast(column: Any, kind: pa.DataType) -> Any:
    """Casts a column to a type. If structs in the column lack fields of the type, these fields
    become null."""
    if column.type == kind:
        return column
    if pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
        return pa.array(column.to_pylist(), kind)
    return column.cast(kind)


def _by_day(table: str, rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    columns = _DATED_BY.get(table)
    if columns is None:
        yield "", rows
        return
    at = pc.coalesce(*[rows.column(name) for name in columns])
    days = _days(at)
    found = np.unique(days)
    for day in found.tolist():
        of_day = rows if len(found) == 1 else rows.filter(pa.array(days == day))
        yield _day_name(day), of_day


def _days(at: Any) -> NDArray[np.int64]:
    """Converts times to days since 1970. A row whose time is null or outside of `_DAYS` gets the
    day after the last day of `_DAYS`."""
    unknown = (_DAYS[1] + 1) * _DAY_US
    us = pc.fill_null(at.cast(pa.int64()), unknown).to_numpy()
    days: NDArray[np.int64] = us // _DAY_US
    return np.where((days < _DAYS[0]) | (days > _DAYS[1]), _DAYS[1] + 1, days)


def _day_name(day: int) -> str:
    return NO_DAY if day > _DAYS[1] else f"day={np.datetime64(day, 'D')}"


def _leaves(name: str, kind: pa.DataType) -> Iterator[str]:
    """Yields the names of the Parquet columns in which a column of this type is stored. A struct is
    stored in one Parquet column for each of its simple fields."""
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{name}.{field.name}", field.type)
    elif pa.types.is_list(kind):
        yield from _leaves(f"{name}.list.element", kind.value_type)
    else:
        yield name


def _in_dictionaries(schema: pa.Schema) -> list[str]:
    """Returns the columns whose values repeat often, for which dictionary encoding saves space."""
    return [
        leaf
        for field in schema
        if field.name not in _SELDOM_TWICE
        for leaf in _leaves(field.name, field.type)
    ]
