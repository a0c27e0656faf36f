"""What a job needs of an engine: relations by name, SQL over them, and files of what it gives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from pipeline.engines.dialect import Dialect
from pipeline.engines.files import Files


class Part(Protocol):
    """A piece of a history that can be read by itself, in another process or on another machine.

    Parts are pickled. The rows of one partition of a log are in one part, in the log's order, or in
    several whose offsets do not overlap.
    """

    def read(self) -> Iterator[pa.RecordBatch]:
        """Its rows. PipelineError where they can't be read at all.

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
    """The bytes that reading a part moved over the wire; 0 for files."""
    moved: int = getattr(part, "moved_bytes", 0)
    return moved


class Engine(Protocol):
    """DuckDB or Spark. All names are lower case; a relation that is defined again is replaced.

    So many threads as `at_once` says may define, open, write and ask at the same time.
    """

    @property
    def dialect(self) -> Dialect:
        """How its SQL is spelled."""

    @property
    def name(self) -> str:
        """With its version, as a summary has it: ``DuckDB 2.0.0``."""

    @property
    def at_once(self) -> int:
        """How many tables are made side by side."""

    @property
    def is_here(self) -> bool:
        """Whether all that it writes into folders of this machine is there."""

    @property
    def moved_bytes(self) -> int:
        """What reading parts has moved over the wire until now, in whatever process."""

    def begin(self, what: str) -> None:
        """Say what this thread does next, where the engine shows it."""

    def interrupt(self) -> None:
        """End what other threads have asked of it: that raises there."""

    def read(self, name: str, parts: Sequence[Part], schema: pa.Schema) -> None:
        """Define a relation of parts' rows, read once and kept for the session."""

    def open(self, name: str, files: Sequence[str], schema: pa.Schema) -> None:
        """Define a relation of Parquet files, or folders of them laid out by columns.

        Columns that the files lack are null, those that ``schema`` lacks are left out. In files of
        a table that an older Muster wrote, columns have their former names.
        """

    def define(self, name: str, sql: str, *, keep: bool) -> None:
        """Define a relation by a query; ``keep`` computes it now, once for all that read it."""

    def write(self, sql: str, schema: pa.Schema, folder: str, by: str | None) -> None:
        """Write a query's rows as Parquet files into a new folder, laid out by column ``by``.

        Columns are cast to ``schema`` and in its order. No rows make one empty file.
        """

    def ask(self, sql: str) -> list[dict[str, Any]]:
        """A few rows. Times are datetimes in UTC."""

    def arrow(self, sql: str) -> Iterable[pa.RecordBatch]:
        """Rows in batches, as many as there are."""

    def files(self, folder: str) -> Files:
        """The file system in which it writes a folder that is not of this machine.

        PipelineError where it reaches none such.
        """

    def close(self) -> None:
        """Forget all relations, and what is kept of them."""


def cast(sql: str, types: Mapping[str, str]) -> str:
    """A query whose columns are cast to an engine's types, in their order."""
    columns = ", ".join(f'CAST("{name}" AS {kind}) AS "{name}"' for name, kind in types.items())
    return f"SELECT {columns} FROM ({sql}) AS made"
