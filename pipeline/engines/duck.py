"""The engine DuckDB. It handles some millions of records on one machine, without Java, in bounded
memory."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline import clock
from pipeline.engines.dialect import Dialect, DuckDialect, type_of
from pipeline.engines.engine import Part, cast, moved_by
from pipeline.engines.files import Files, parquet_files
from pipeline.engines.staging import stage
from pipeline.errors import PipelineError
from pipeline.model.tables import FORMER_NAMES

MEMORY_BYTES: Final = 2 << 30
"""DuckDB's memory limit in bytes. On a machine with less than twice this memory, the limit is half
of the memory."""
_SMALL_AT_ONCE: Final = 2
"""The number of tables that are made at the same time from a small history. A query of a small
history uses one core; a query of a large history uses all cores."""
_SETTINGS = (
    "TimeZone = 'UTC'",
    "preserve_insertion_order = false",
    "default_null_order = 'NULLS_FIRST_ON_ASC_LAST_ON_DESC'",  # Spark's order
)
_MACROS = (
    "unix_millis(t) AS epoch_ms(t)",
    "timestamp_millis(ms) AS make_timestamptz((ms) * 1000)",
    "try_subtract(a, b) AS TRY((a) - (b))",
    "try_divide(a, b) AS CASE WHEN (b) <> 0 THEN (a) / (b) END",
    "try_element_at(list, n) AS list_extract(list, n)",
    "get_json_object(json, path) AS json_extract_string(json, path)",
)


class DuckEngine:
    """A DuckDB session in this process, with a folder for data that does not fit in memory."""

    is_here = True

    def __init__(self, scratch: str, processes: int = 1) -> None:
        """``processes`` is the number of processes that read parts of the history. With 1 this
        process reads the parts itself, which is enough for a small history."""
        self.dialect: Dialect = DuckDialect()
        self.moved_bytes = 0
        self.at_once = _SMALL_AT_ONCE if processes == 1 else 1
        self._scratch = scratch
        self._processes = processes
        self._cursors = [duckdb.connect()]  # its tables spill to the scratch folder
        self._mine = threading.local()
        self._db.execute(f"SET memory_limit = '{min(MEMORY_BYTES, _machine_bytes() // 2)}B'")
        self._db.execute(f"SET temp_directory = {self.dialect.text(scratch)}")
        for macro in _MACROS:
            self._db.execute(f"CREATE MACRO {macro}")

    @property
    def _db(self) -> duckdb.DuckDBPyConnection:
        """Return the cursor of this thread. A cursor runs one query at a time and has its own
        settings."""
        if not hasattr(self._mine, "cursor"):
            self._mine.cursor = self._cursors[0].cursor()
            for setting in _SETTINGS:
                self._mine.cursor.execute(f"SET {setting}")
            self._cursors.append(self._mine.cursor)
        found: duckdb.DuckDBPyConnection = self._mine.cursor
        return found

    @property
    def name(self) -> str:
        return f"DuckDB {duckdb.__version__}"

    def begin(self, what: str) -> None:
        """Do nothing: DuckDB does not display progress."""

    def interrupt(self) -> None:
        for cursor in self._cursors:
            cursor.interrupt()

    def read(self, name: str, parts: Sequence[Part], schema: pa.Schema) -> None:
        if self._processes > 1 and len(parts) > 1:
            folder = os.path.join(self._scratch, f"{name}-{clock.fresh_id()}")
            staged = stage(parts, schema, folder, self._processes)
            self.moved_bytes += staged.moved_bytes
            self.open(name, staged.files, schema)
            return
        rows = _Stream(parts)
        self._drop(name)
        with _as_raised():
            self._db.register("_reading", pa.RecordBatchReader.from_batches(schema, iter(rows)))
        try:
            self._run(f"CREATE TABLE {name} AS SELECT * FROM _reading")
        except duckdb.Error:
            if rows.raised is None:
                raise
            raise rows.raised from None
        finally:
            self._db.unregister("_reading")
        self.moved_bytes += sum(map(moved_by, parts))

    def open(self, name: str, files: Sequence[str], schema: pa.Schema) -> None:
        whole = [file for place in files for file in parquet_files(place)]
        if not whole:
            self.read(name, [], schema)
            return
        listed = ", ".join(self.dialect.text(file) for file in whole)
        scan = (
            f"read_parquet([{listed}], hive_partitioning = true, hive_types_autocast = false,"
            " union_by_name = true)"
        )
        there = {row[0] for row in self._run(f"DESCRIBE SELECT * FROM {scan}").fetchall()}
        former = {new: old for new, old in FORMER_NAMES.get(name, {}).items() if old in there}
        absent = "".join(
            f', "{former[column]}" AS "{column}"' if column in former else f', NULL AS "{column}"'
            for column in schema.names
            if column not in there
        )
        types = {field.name: type_of(field.type) for field in schema}
        self.define(name, cast(f"SELECT *{absent} FROM {scan}", types), keep=False)

    def define(self, name: str, sql: str, *, keep: bool) -> None:
        self._drop(name)
        self._run(f"CREATE {'TABLE' if keep else 'VIEW'} {name} AS {sql}")

    def write(self, sql: str, schema: pa.Schema, folder: str, by: str | None) -> None:
        os.makedirs(folder)
        query = cast(sql, {field.name: type_of(field.type) for field in schema})
        if by is None:
            file = os.path.join(folder, "part-0.parquet")
            self._run(f"COPY ({query}) TO {self.dialect.text(file)} (FORMAT parquet)")
            return
        self._run(
            f"COPY ({query}) TO {self.dialect.text(folder)}"
            f" (FORMAT parquet, PARTITION_BY ({by}), OVERWRITE_OR_IGNORE)"
        )
        if not os.listdir(folder):
            empty = schema.remove(schema.get_field_index(by)).empty_table()
            pq.write_table(empty, os.path.join(folder, "part-0.parquet"))

    def ask(self, sql: str) -> list[dict[str, Any]]:
        with _as_raised():
            found: list[dict[str, Any]] = self._db.sql(sql).to_arrow_table().to_pylist()
        return found

    def arrow(self, sql: str) -> Iterable[pa.RecordBatch]:
        with _as_raised():
            batches: Iterable[pa.RecordBatch] = self._db.sql(sql).to_arrow_reader()
        return batches

    def files(self, folder: str) -> Files:
        raise PipelineError(
            f"DuckDB writes tables only on this machine, not to {folder}: choose --engine spark"
        )

    def close(self) -> None:
        for cursor in self._cursors:
            cursor.close()

    def _run(self, sql: str, values: Sequence[object] | None = None) -> duckdb.DuckDBPyConnection:
        with _as_raised():
            return self._db.execute(sql, values)

    def _drop(self, name: str) -> None:
        for row in self._run(
            "SELECT table_type FROM information_schema.tables WHERE table_name = ?", [name]
        ).fetchall():
            self._run(f"DROP {'VIEW' if row[0] == 'VIEW' else 'TABLE'} {name}")


class _Stream:
    """The rows of a relation, as DuckDB reads them, and the error if some of the rows can't be
    read. DuckDB would replace this error by an error without the cause."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
        self.raised: BaseException | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            for part in self._parts:
                yield from part.read()
        except (Exception, KeyboardInterrupt) as error:
            self.raised = error
            raise


@contextmanager
def _as_raised() -> Iterator[None]:
    """Raise KeyboardInterrupt if Ctrl-C ended a query. DuckDB itself raises another error."""
    try:
        yield
    except (RuntimeError, duckdb.Error) as error:
        if str(error).strip().endswith("nterrupted"):
            raise KeyboardInterrupt from None
        raise


def _machine_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
