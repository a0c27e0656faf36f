"""Writes tables as plain Parquet files to object storage, where nothing can be renamed.

Each write uses new file names. After all files are written, the list of the table's files
(`_files.json`) is replaced. This publishes the new files. Then the files of the previous write are
deleted.

Muster reads only the files in the list. A program that reads all files in the folder may see the
files of two writes while one replaces the other. If Muster is killed during a write, such a program
sees the files of the incomplete write until the next write. Delta and Iceberg do not have this
problem.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow import fs

from pipeline import clock
from pipeline.errors import PipelineError
from pipeline.storage.formats import PARQUET
from pipeline.storage.manifest import MANIFEST, all_files
from pipeline.storage.s3 import COPY_BYTES, SCHEME, Settings, fetch, key_of

LIST: Final = "_files.json"


class S3Parquet:
    """The format of plain Parquet files in object storage."""

    name = PARQUET

    def publish(self, staged: str, place: str, schema: pa.Schema, by: str | None) -> None:  # noqa: ARG002
        storage, folder = Settings.of_environment().file_system(), key_of(place)
        run = clock.fresh_id()
        names: list[str] = []
        try:
            for path in _parquet_below(staged):
                within = os.path.dirname(os.path.relpath(path, staged))
                names.append(os.path.join(within, f"{run}-{len(names)}.parquet"))
                _send(path, storage, f"{folder}/{names[-1]}")
            with storage.open_output_stream(f"{folder}/{LIST}") as to:
                to.write(json.dumps({"files": names}).encode())
            kept = {f"{folder}/{name}" for name in (LIST, *names)}
            for key in _objects_below(storage, folder):
                if key not in kept:
                    storage.delete_file(key)
        except OSError as error:
            raise PipelineError(f"{place} can't be written: {error}") from error

    def files(self, place: str) -> list[str]:
        """Implements `Format.files`. Returns all files in the folder if another program wrote the
        table."""
        return [SCHEME + key for key in self._keys(place)]

    def _keys(self, place: str) -> list[str]:
        storage, folder = Settings.of_environment().file_system(), key_of(place)
        listed = _text(storage, f"{folder}/{LIST}")
        if listed is not None:
            try:
                return [f"{folder}/{name}" for name in json.loads(listed)["files"]]
            except (ValueError, TypeError, KeyError) as error:
                raise PipelineError(
                    f"{place}/{LIST} is damaged ({error}), and the files of the table are unknown:"
                    " make the table again with --overwrite"
                ) from None
        return [path for path in _objects_below(storage, folder) if path.endswith(".parquet")]


def fetch_archive(url: str, folder: str) -> None:
    """Downloads the files of an archive from object storage to a local folder. The archive's
    manifest lists these files."""
    files = [MANIFEST]
    while files:
        path = fetch(f"{url}/{files.pop()}", url, folder)
        if os.path.basename(path) == MANIFEST:
            files = all_files(Path(path), f"{url}/{MANIFEST}")


def _send(path: str, storage: fs.FileSystem, key: str) -> None:
    with open(path, "rb") as source, storage.open_output_stream(key) as to:
        while data := source.read(COPY_BYTES):
            to.write(data)


def _parquet_below(staged: str) -> Iterator[str]:
    for parent, _, names in sorted(os.walk(staged)):
        for name in sorted(names):
            if name.endswith(".parquet") and not name.startswith((".", "_")):
                yield os.path.join(parent, name)


def _objects_below(storage: fs.FileSystem, folder: str) -> list[str]:
    found = storage.get_file_info(fs.FileSelector(folder, recursive=True, allow_not_found=True))
    return sorted(each.path for each in found if each.is_file)


def _text(storage: fs.FileSystem, path: str) -> str | None:
    try:
        with storage.open_input_stream(path) as stream:
            return bytes(stream.read()).decode(errors="replace")
    except FileNotFoundError:
        return None
