"""The interface of an engine: named relations, SQL over them, and files of results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from pipeline.engines.dialect import Dialect
from pipeline.engines.files import Files


class Part(Protocol):
    """A piece of a history that can be read on its own, in another process or on another machine.

    Parts are pickled. The rows of one partition of a log are in one part, in the order of the log,
    or in several parts whose offsets do not overlap.
    """

    def read(self) -> Iterator[pa.RecordBatch]:
        """Its rows. PipelineError if they can't be read at all.

        A part that reads over the wire has `moved_bytes` afterwards; see `moved_by`.
        """


@dataclass(frozen=True)
class Rows:
    """A part that holds its rows."""

    table: pa.Table

    def read(self) -> Iterator[pa.RecordBatch]:
        """See Part."""
        yield from self.table.to_batches()


def moved_by(part: Part) -> int:
    """The bytes that a part moved over the wire while it was read; 0 for files."""
    moved: int = getattr(part, "moved_bytes", 0)
    return moved


class Engine(Protocol):
    """DuckDB or Spark. All names are lower case; defining a relation again replaces it.

    Up to `at_once` threads may define, open, write and ask at the same time.
    """

    @property
    def dialect(self) -> Dialect:
        """The dialect of its SQL."""

    @property
    def name(self) -> str:
        """Name and version, as in a summary: ``DuckDB 2.0.0``."""

    @property
    def at_once(self) -> int:
        """How many tables are computed at the same time."""

    @property
    def is_here(self) -> bool:
        """Whether files it writes into local folders are on this machine."""

    @property
    def moved_bytes(self) -> int:
        """The bytes that parts moved over the wire until now, in all processes."""

    def begin(self, what: str) -> None:
        """Show what this thread does next, if the engine has a display."""

    def interrupt(self) -> None:
        """Interrupt the queries of other threads: they raise an error there."""

    def read(self, name: str, parts: Sequence[Part], schema: pa.Schema) -> None:
        """Define a relation of parts' rows, read once and kept for the session."""

    def open(self, name: str, files: Sequence[str], schema: pa.Schema) -> None:
        """Define a relation of Parquet files, or folders of them laid out by columns.

        Columns that the files lack are null; columns that ``schema`` lacks are left out. Files that
        an older Muster wrote may have FORMER_NAMES of columns.
        """

    def define(self, name: str, sql: str, *, keep: bool) -> None:
        """Define a relation by a query; ``keep`` computes it now, once for all its readers."""

    def write(self, sql: str, schema: pa.Schema, folder: str, by: str | None) -> None:
        """Write a query's rows as Parquet files into a new folder, laid out by column ``by``.

        Columns are cast to ``schema`` and in its order. A result without rows makes one empty file.
        """

    def ask(self, sql: str) -> list[dict[str, Any]]:
        """A few rows. Times are datetimes in UTC."""

    def arrow(self, sql: str) -> Iterable[pa.RecordBatch]:
        """Rows in batches; their number is not limited."""

    def files(self, folder: str) -> Files:
        """The file system in which it writes a folder that is not on this machine.

        PipelineError if it can't reach such a file system.
        """

    def close(self) -> None:
        """Drop all relations and their data."""


def cast(sql: str, types: Mapping[str, str]) -> str:
    """A query whose columns are cast to an engine's types, in their order."""
    columns = ", ".join(f'CAST("{name}" AS {kind}) AS "{name}"' for name, kind in types.items())
    return f"SELECT {columns} FROM ({sql}) AS made"
