"""Writes tables as Apache Iceberg without a catalog. Each write makes a snapshot.

The folder of a table contains data and metadata. The file `version-hint.text` names the current
metadata. It is replaced last, so readers never see an incomplete snapshot. DuckDB's `iceberg_scan`
and PyIceberg's `StaticTable` read such a folder directly, and any catalog can register its
metadata.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.exceptions import RESTError, ValidationError
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table import StaticTable, Table

from pipeline.errors import PipelineError
from pipeline.storage import s3
from pipeline.storage.formats import ICEBERG, ICEBERG_HINT, staged_rows

CHUNK_BYTES = 128 << 20
"""The approximate size in bytes of the rows that are written at once. A snapshot can have several
such chunks."""
_NAME = ("muster", "table")


class Iceberg:
    """The table format Apache Iceberg."""

    name = ICEBERG

    def publish(self, staged: str, place: str, schema: pa.Schema, by: str | None) -> None:
        """Implements `Format.publish`. Replacing the hint file publishes the snapshot."""
        schema = pa.schema([_known(field) for field in schema])
        try:
            table = self._open_or_create(place, schema, by)
            with warnings.catch_warnings(), table.transaction() as change:
                warnings.simplefilter("ignore")  # it warns of a deletion from an empty table
                if table.current_snapshot() is not None:
                    change.delete(AlwaysTrue())
                for rows in _chunks(staged_rows(staged, schema, by)):
                    change.append(rows)
            name = os.path.basename(table.metadata_location)
            hint = f"{place}/{ICEBERG_HINT}"
            s3.files_at(place).write_text(hint, name.removesuffix(".metadata.json"))
        except (ValidationError, RESTError, OSError) as error:
            raise PipelineError(f"{place} can't be written: {error}") from error

    def files(self, place: str) -> list[str]:
        """Implements `Format.files`. Raises PipelineError if rows of the data files are deleted by
        delete files."""
        try:
            tasks = list(self._at(place).scan().plan_files())
        except (OSError, ValueError, EOFError) as error:
            raise _unreadable(place, error) from error
        if any(task.delete_files for task in tasks):
            raise PipelineError(
                f"{place} has Iceberg delete files, which can't be read: compact the table with"
                " rewrite_data_files first"
            )
        return [task.file.file_path.removeprefix("file://") for task in tasks]

    def _at(self, place: str) -> StaticTable:
        try:
            return StaticTable.from_metadata(place, _properties(place))
        except (OSError, ValueError) as error:
            raise _unreadable(place, error) from error

    def _open_or_create(self, place: str, schema: pa.Schema, by: str | None) -> Table:
        """Opens or creates the table with the columns of ``schema``, in a catalog in the memory of
        this process."""
        catalog = InMemoryCatalog("muster", **_properties(place))
        catalog.create_namespace(_NAME[0])
        if not s3.files_at(place).exists(f"{place}/{ICEBERG_HINT}"):
            table = catalog.create_table(_NAME, schema, location=place)
            if by is not None:
                with table.update_spec() as spec:
                    spec.add_identity(by)
            return table
        table = catalog.register_table(_NAME, self._at(place).metadata_location)
        with table.update_schema(allow_incompatible_changes=True) as columns:
            for name in set(table.schema().column_names) - set(schema.names):
                if "." not in name:
                    columns.delete_column(name)
            columns.union_by_name(schema)
        return table


def _unreadable(place: str, error: Exception) -> PipelineError:
    words = " ".join(str(error).split())[:200]
    return PipelineError(f"{place} can't be read: its metadata is damaged or missing ({words})")


def _known(field: pa.Field) -> pa.Field:
    """Converts a field to a type that Iceberg supports. Iceberg has no 16-bit integers."""
    kind = pa.int32() if pa.types.is_int16(field.type) else field.type
    return pa.field(field.name, kind)


def _chunks(rows: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """Splits rows into tables of about CHUNK_BYTES each."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in rows:
        waiting.append(batch)
        size += batch.nbytes
        if size >= CHUNK_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def _properties(place: str) -> dict[str, Any]:
    return s3.Settings.of_environment().iceberg_properties() if s3.is_s3(place) else {}
