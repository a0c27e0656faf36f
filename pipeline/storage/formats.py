"""The formats that tables are kept in: plain Parquet files, Delta Lake, Apache Iceberg.

Engines write Parquet. A format publishes what an engine staged at a table's place, whole or not at
all, and tells what is there; place is a folder of this machine or a URL of object storage.
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
"""Names the metadata that counts, as readers of Iceberg folders without a catalog know it."""


class Format(Protocol):
    """How tables are kept."""

    name: str

    def publish(self, staged: str, place: str, schema: pa.Schema, by: str | None) -> None:
        """Make the Parquet files in a local folder, laid out by column ``by``, the table there.

        A table that is there is replaced. PipelineError where it can't be written.
        """

    def files(self, place: str) -> list[str]:
        """The Parquet files that are the table now, at places of the same kind."""


def format_at(files: Files, place: str) -> str | None:
    """The format of what is at a place; None where nothing is."""
    if files.exists(f"{place}/{_DELTA_LOG}"):
        return DELTA
    if files.exists(f"{place}/{ICEBERG_HINT}"):
        return ICEBERG
    return PARQUET if files.exists(place) else None


def staged_rows(staged: str, schema: pa.Schema, by: str | None) -> pa.RecordBatchReader:
    """What an engine staged, all columns nullable, in batches."""
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
