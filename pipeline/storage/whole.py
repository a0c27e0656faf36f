"""Checks whether a Parquet file is intact: whether every byte is as it was written.

A fault is an error in the bytes of a file, which every reader sees at any time. A read error that
may be temporary (permissions, network, disk) does not count as a fault, and raises OSError.
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
"""The size of the end of a Parquet file: four bytes with the length of the footer, and four bytes
of magic."""
_KEYS: Final = {
    "events": ("log_partition", "log_offset", "kind"),
    "stretches": ("topic", "partition", "base_offset", "last_offset"),
    "quarantine": ("reason",),
}
"""By table, the columns that its files have in every version of Muster."""


def fault_of(
    file: Path, table: str | None = None, rows: int | None = None, *, deep: bool = False
) -> str | None:
    """Returns the fault of a file, as the end of a sentence that begins with "it"; None if the file
    is intact.

    ``table`` and ``rows`` are the expected content. The check reads the beginning and the end of
    the file. With ``deep`` it reads and decodes the whole file.
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
    """Returns what is wrong with the footer of a Parquet file, as text; None if the footer is
    intact. ``data`` is the content of the file without the rows."""
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
    """Returns what is wrong with the rows of a Parquet file, as text; None if they are intact.
    ``data`` has all bytes of the file, so an error is never a temporary error of a read."""
    try:
        with pq.ParquetFile(pa.BufferReader(data)) as opened:
            for batch in opened.iter_batches():
                batch.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        return f"has damaged rows ({_words(error)})"
    return None


def table_files(places: Iterable[str], *, may_have_none: bool = False) -> list[str]:
    """Returns the Parquet files of a table at its paths on this machine.

    Raises PipelineError for a folder without Parquet files: even a table without rows has a file.
    Set ``may_have_none`` for an archive, in which a table may not have a file yet.
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
    """Raises PipelineError if one of the table's files on this machine is damaged or can't be read.
    ``deep`` reads each file completely."""
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
