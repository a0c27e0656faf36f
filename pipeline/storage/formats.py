"""The formats of tables: plain Parquet files, Delta Lake, Apache Iceberg.

An engine writes Parquet files into a staging folder. A format publishes these files atomically as a
table, and lists the files of a table. A table is in a local folder, or at a URL of object storage.
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
"""The file that names the current metadata file of an Iceberg table, for readers that use no
catalog."""


class Format(Protocol):
    """The interface of a table format."""

    name: str

    def publish(self, staged: str, place: str, schema: pa.Schema, by: str | None) -> None:
        """Publishes the Parquet files in the local folder ``staged`` as the table at ``place``.
        ``by`` is the column whose values name the subfolders.

        An existing table is replaced. Raises PipelineError if the table can't be written.
        """

    def files(self, place: str) -> list[str]:
        """Returns the Parquet files of the table's current version, as local paths or as URLs like
        ``place``."""


def format_at(files: Files, place: str) -> str | None:
    """Returns the format of the table at ``place``; None if ``place`` does not exist."""
    if files.exists(f"{place}/{_DELTA_LOG}"):
        return DELTA
    if files.exists(f"{place}/{ICEBERG_HINT}"):
        return ICEBERG
    return PARQUET if files.exists(place) else None


def staged_rows(staged: str, schema: pa.Schema, by: str | None) -> pa.RecordBatchReader:
    """Returns a reader of the rows that an engine staged. All columns are nullable."""
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
