"""Writes tables as Delta Lake. Each write makes a version, and earlier versions stay readable."""

from __future__ import annotations

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from pipeline.errors import PipelineError
from pipeline.storage import s3
from pipeline.storage.formats import DELTA, staged_rows


class Delta:
    """The table format Delta Lake."""

    name = DELTA

    def publish(self, staged: str, place: str, schema: pa.Schema, by: str | None) -> None:
        """Implements `Format.publish`. The commit of a new version publishes the files."""
        try:
            write_deltalake(
                place,
                staged_rows(staged, schema, by),
                mode="overwrite",
                schema_mode="overwrite",
                partition_by=by,
                storage_options=_options(place),
            )
        except (DeltaError, OSError) as error:
            raise PipelineError(f"{place} can't be written: {error}") from error

    def files(self, place: str) -> list[str]:
        """Implements `Format.files`. Raises PipelineError if rows of the files are deleted by
        deletion vectors."""
        try:
            table = DeltaTable(place, storage_options=_options(place))
        except (DeltaError, OSError) as error:
            raise PipelineError(f"{place} can't be read: {error}") from error
        if "deletionVectors" in (table.protocol().reader_features or []):
            raise PipelineError(
                f"{place} has deletion vectors, which can't be read: remove them with"
                " REORG TABLE ... APPLY (PURGE)"
            )
        return table.file_uris()


def _options(place: str) -> dict[str, str] | None:
    return s3.Settings.of_environment().delta_options() if s3.is_s3(place) else None
