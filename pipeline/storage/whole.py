"""Checks whether a Parquet file is intact, with every byte as it was written.

A fault is an error in the bytes of a file, for every reader and at every time. A temporary read
error (permissions, a network, a disk) is not a fault: it raises OSError.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.engines.files import parquet_files
from pipeline.errors import PipelineError
from pipeline.storage.day_files import OWN_NAME, TABLES

_MAGIC: Final = b"PAR1"
_TAIL_BYTES: Final = 8
"""The size of the end of a file: the length of the footer in four bytes, and the magic."""
_KEYS: Final = {
    "events": ("log_partition", "log_offset", "kind"),
    "stretches": ("topic", "partition", "base_offset", "last_offset"),
    "quarantine": ("reason",),
}
"""Columns that the files of a table have in every version of Muster."""


def fault_of(
    file: Path, table: str | None = None, rows: int | None = None, *, deep: bool = False
) -> str | None:
    """Return the fault of a file, as the end of a sentence that begins with "it"; None if the file
    is intact.

    ``table`` and ``rows`` are the expected content. The beginning and the end of the file are read;
    with ``deep`` the whole file is read and decoded.
    """
    with file.open("rb") as opened:
        size = os.fstat(opened.fileno()).st_size
        head = opened.read(len(_MAGIC))
        opened.seek(max(size - _TAIL_BYTES, 0))
        tail = opened.read(_TAIL_BYTES)
        length = int.from_bytes(tail[:4], "little")
        if not size:
            return "is empty"
        if head != _MAGIC:
            return "is not a Parquet file"
        if tail[4:] != _MAGIC or length > size - _TAIL_BYTES - len(_MAGIC):
            return "is truncated"
        opened.seek(size - _TAIL_BYTES - length)
        footer = opened.read(length)
        whole = b""
        if deep:
            opened.seek(0)
            whole = opened.read()
    return _of_footer(_MAGIC + footer + tail, table, rows) or (_of_rows(whole) if deep else None)


def _of_footer(data: bytes, table: str | None, rows: int | None) -> str | None:
    """Return the fault in the bytes of a file without its rows."""
    try:
        metadata = pq.read_metadata(pa.BufferReader(data))
        schema = metadata.schema.to_arrow_schema()
    except (pa.ArrowException, OSError) as error:
        return f"has a damaged footer ({_words(error)})"
    for name in _KEYS.get(table or "", ()):
        kind = TABLES[table or ""].field(name).type
        if name not in schema.names or schema.field(name).type != kind:
            return f"has no column {name} of type {kind}; another program wrote the file"
    if rows is not None and metadata.num_rows != rows:
        return f"has {metadata.num_rows} rows instead of {rows}"
    return None


def _of_rows(data: bytes) -> str | None:
    """Return the fault in all bytes of a file; the bytes are in memory, so no error is a temporary
    read error."""
    try:
        with pq.ParquetFile(pa.BufferReader(data)) as opened:
            for batch in opened.iter_batches():
                batch.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        return f"has damaged rows ({_words(error)})"
    return None


def table_files(places: Iterable[str], *, may_have_none: bool = False) -> list[str]:
    """List the Parquet files of a table at its paths on this machine.

    PipelineError names a folder without files, because even a table without rows has a file. Only
    tables of a growing archive may have no file (``may_have_none``).
    """
    found = []
    for place in places:
        files = list(parquet_files(place))
        if not files and not may_have_none:
            raise PipelineError(
                f"the table {place} has no Parquet files: restore them, or make the table again"
                " with --overwrite"
            )
        found += files
    return found


def check_files(files: Iterable[str], *, deep: bool = False) -> None:
    """Raise PipelineError if a local file of a table is damaged or can't be read."""
    for file in files:
        try:
            fault = fault_of(Path(file), deep=deep)
        except OSError as error:
            raise PipelineError(f"{file} can't be read ({error.strerror or error})") from None
        if fault is not None:
            advice = "make the table again with --overwrite"
            if OWN_NAME.fullmatch(Path(file).name):
                advice = "to set the file aside, run `muster pipeline all --incremental`"
            raise PipelineError(f"{file} is damaged (it {fault}): {advice}")


def _words(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
