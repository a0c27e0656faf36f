"""The formats of tables: plain Parquet files, Delta Lake, Apache Iceberg.

An engine writes Parquet to a staging folder. A format publishes these files as a table, atomically,
and lists the files of a table. A table is in a local folder, or at a URL of object storage.
"""

from __future__ import annotations

from typing import Final, Protocol

import pyarrow as pa
import pyarrow.dataset as ds

from pipeline.engines.files import Files

PARQUET: Final = "parquet"
DELTA: Final = "delta"
ICEBERG: Final = "iceberg"
FORMATS: Final = (PARQUET, DELTA, ICEBERG)

_DELTA_LOG: Final = "_delta_log"
ICEBERG_HINT: Final = "metadata/version-hint.text"
"""The file that names the current metadata, for readers of Iceberg folders without a catalog."""


class Format(Protocol):
    """A format in which tables are stored."""

    name: str

    def publish(self, staged: str, place: str, schema: pa.Schema, by: str | None) -> None:
        """Publish the Parquet files in a local folder as the table at a path; ``by`` names the
        column of the subfolders.

        An existing table is replaced. Raise PipelineError if the table can't be written.
        """

    def files(self, place: str) -> list[str]:
        """Return the Parquet files of the table's current version, as local paths or URLs like
        ``place``."""


def format_at(files: Files, place: str) -> str | None:
    """Detect the format of the table at a path; None if the path does not exist."""
    if files.exists(f"{place}/{_DELTA_LOG}"):
        return DELTA
    if files.exists(f"{place}/{ICEBERG_HINT}"):
        return ICEBERG
    return PARQUET if files.exists(place) else None


def staged_rows(staged: str, schema: pa.Schema, by: str | None) -> pa.RecordBatchReader:
    """Read, in batches, the rows that an engine staged; all columns are nullable."""
    layout = None
    if by is not None:
        layout = ds.partitioning(pa.schema([schema.field(by)]), flavor="hive")
    found = ds.dataset(
        staged,
        pa.schema([field.with_nullable(True) for field in schema]),
        format=ds.ParquetFileFormat(coerce_int96_timestamp_unit="us"),  # Spark's timestamps
        partitioning=layout,
    )
    return found.scanner(batch_readahead=2, fragment_readahead=1).to_reader()
