"""The interface of an engine: named relations, SQL queries over these relations, and files of
results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from pipeline.engines.dialect import Dialect
from pipeline.engines.files import Files


class Part(Protocol):
    """A part of a history that can be read separately, by another process or on another machine.
    For this, it must be possible to pickle the part.

    Each part has the rows of some partitions of `__consumer_offsets`, in log order. If several
    parts have rows of the same partition, the offset ranges of these parts do not overlap.
    """

    def read(self) -> Iterator[pa.RecordBatch]:
        """Read the rows of the part. Raise PipelineError if no row can be read. A part that was
        read over the wire then has the attribute `moved_bytes`; see `moved_by`."""


@dataclass(frozen=True)
class Rows:
    """A part of a source whose rows are already in memory."""

    table: pa.Table

    def read(self) -> Iterator[pa.RecordBatch]:
        yield from self.table.to_batches()


def moved_by(part: Part) -> int:
    """Return the number of bytes that a read of the part has transferred over the network; 0 for
    files."""
    moved: int = getattr(part, "moved_bytes", 0)
    return moved


class Engine(Protocol):
    """The interface of DuckDB and Spark.

    All names are lower case. A new definition of a relation replaces the previous one. Up to
    `at_once` threads may call the methods at the same time.
    """

    @property
    def dialect(self) -> Dialect: ...

    @property
    def name(self) -> str:
        """The name and version of the engine: ``DuckDB 2.0.0``."""

    @property
    def at_once(self) -> int:
        """The number of tables that the engine makes concurrently."""

    @property
    def is_here(self) -> bool:
        """True if the engine writes to folders on this machine, not on other machines."""

    @property
    def moved_bytes(self) -> int:
        """The number of bytes that were read with Kafka's protocol, summed over all processes."""

    def begin(self, what: str) -> None:
        """Show ``what`` as the current step of this thread, if the engine displays progress."""

    def interrupt(self) -> None:
        """Interrupt the queries of other threads, which then raise an error."""

    def read(self, name: str, parts: Sequence[Part], schema: pa.Schema) -> None:
        """Define a relation that has the rows of parts. The parts are read once, and the rows are
        kept for the session."""

    def open(self, name: str, files: Sequence[str], schema: pa.Schema) -> None:
        """Define a relation. ``files`` are Parquet files, or folders that contain the Parquet files
        in one subfolder for each value of a column.

        The relation has the columns of ``schema``. A column that the files do not have is null.
        Files of an older Muster may have the FORMER_NAMES of columns.
        """

    def define(self, name: str, sql: str, *, keep: bool) -> None:
        """Define a relation by a query. With ``keep`` the rows are computed now, once for all
        readers."""

    def write(self, sql: str, schema: pa.Schema, folder: str, by: str | None) -> None:
        """Write a query's rows as Parquet files into a new folder. ``by`` is the column by which
        subfolders are made.

        The rows have the columns, the order and the types of ``schema``. A result without rows
        makes one empty file.
        """

    def ask(self, sql: str) -> list[dict[str, Any]]:
        """Return the rows of a query with a small result. Times are datetimes in UTC."""

    def arrow(self, sql: str) -> Iterable[pa.RecordBatch]:
        """Return the rows of a query in batches, for a result of any size."""

    def files(self, folder: str) -> Files:
        """Return the file system for a folder that is not on this machine.

        Raise PipelineError if the engine can't access such a file system.
        """

    def close(self) -> None: ...


def cast(sql: str, types: Mapping[str, str]) -> str:
    """Return a query whose columns are cast to the engine's types, in the order of ``types``."""
    columns = ", ".join(f'CAST("{name}" AS {kind}) AS "{name}"' for name, kind in types.items())
    return f"SELECT {columns} FROM ({sql}) AS made"
