"""Tables in a folder, as Parquet: each is written atomically.

A table is written next to its place, as `.NAME.partial`, and renamed when complete; a table that is
replaced is renamed to `.NAME.old` first. A job that is killed leaves the old table or the new one,
and its next run cleans up.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from pipeline.engines.engine import Engine
from pipeline.engines.files import Files, LocalFiles
from pipeline.errors import PipelineError
from pipeline.storage.formats import PARQUET, format_at
from pipeline.storage.lock import Held, Lock

CLUSTER_FILE: Final = "_muster.json"
"""The cluster of the tables; readers of Parquet skip names that begin with an underscore."""
ARCHIVE_FILES: Final = ("_archive.json", "_events_checkpoint")
"""Files that following a broker leaves next to the events that it appends."""
GROWING: Final = ("events", "stretches")
"""The tables that following appends to."""
RUN_LOCK: Final = ".run.lock"
"""Held by the run that writes tables, and deleted with it. An archive has its own lock."""


class DamagedNote(PipelineError):
    """The file with the tables' cluster is damaged; ``what`` is the message without the advice."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f'{what}: restore a copy of it, or write {{"cluster_id": "..."}} into it with the id'
            " of the tables' cluster"
        )
        self.what = what


class Store:
    """The tables in one folder."""

    format = PARQUET
    has_files = True
    """Whether the store can keep files next to the tables."""
    as_of_ms = 0
    """The time for which the written results hold, once a run knows it."""
    _lock: Lock | None = None

    def __init__(self, folder: str, files: Files | None = None) -> None:
        """``files`` is the folder's file system; this machine's by default."""
        self._files = files or LocalFiles()
        self.folder = os.path.abspath(folder) if files is None else folder.rstrip("/") or "/"

    def path(self, name: str) -> str:
        """The path of a table."""
        return f"{self.folder}/{name}"

    def reserve(self, *, new: bool = False) -> bool:
        """Keep other runs from writing into this folder until `close`; return False if already
        reserved.

        ``new`` creates a missing folder. Held names the run that writes there. File systems of
        other machines, and those without locks, are not reserved.
        """
        if self._lock or not self.has_files or not isinstance(self._files, LocalFiles):
            return False
        try:
            if new:
                os.makedirs(self.folder, exist_ok=True)
            elif not os.path.isdir(self.folder):
                return False
            self._lock = Lock.alone(Path(self.folder, RUN_LOCK))
        except Held:
            raise
        except PipelineError:
            return False
        except OSError as error:
            raise self._unwritable(error) from error
        return True

    def has(self, name: str) -> bool:
        """Whether a table exists; one that a killed run was replacing is restored first."""
        self._settle(name)
        return self._files.exists(self.path(name))

    def cluster_id(self) -> str | None:
        """The cluster of these tables; None if unknown.

        DamagedNote if the file that names it is damaged.
        """
        text = self.read_text(CLUSTER_FILE)
        if text is None:
            return None
        try:
            found: str | None = json.loads(text)["cluster_id"]
        except (ValueError, TypeError, KeyError) as error:
            why = str(error) if isinstance(error, ValueError) else "it has no cluster_id"
            raise DamagedNote(
                f"{self.path(CLUSTER_FILE)} is damaged ({why}), and the cluster of these tables is"
                " unknown"
            ) from None
        return found

    def check_cluster(self, cluster_id: str | None) -> None:
        """Raise PipelineError if these tables belong to another cluster; None is always
        accepted.
        """
        try:
            noted = None if cluster_id is None else self.cluster_id()
        except DamagedNote as error:
            raise PipelineError(
                f"{error.what}: choose another --out; if the tables are of cluster {cluster_id}"
                " like the source, delete that file, and the next run rewrites it"
            ) from None
        if noted not in (None, cluster_id):
            raise PipelineError(
                f"{self.folder} has tables of cluster {noted}, but the source is cluster"
                f" {cluster_id}: choose another --out"
            )

    def belong_to(self, cluster_id: str | None) -> None:
        """Note the cluster of these tables, which `check_cluster` has accepted; None is not
        noted.
        """
        if cluster_id is not None and self.cluster_id() is None:
            self.write_text(CLUSTER_FILE, json.dumps({"cluster_id": cluster_id}))

    def since_ms(
        self,
        series: Sequence[str],  # noqa: ARG002
        asked_ms: int | None,
        end_ms: int | None,  # noqa: ARG002
    ) -> int | None:
        """The start of the series that a run writes into these tables; None for the whole history.

        In a folder it is the requested start. ``end_ms`` is the end of the run, if requested.
        """
        return asked_ms

    def grows(self) -> bool:
        """Whether the folder is an archive: it keeps its own events, stretches and quarantine."""
        return any(self.has_file(name) for name in ARCHIVE_FILES)

    def check_absent(self, names: Sequence[str], overwrite: bool) -> None:
        """Raise PipelineError if one of these tables exists and may not be replaced.

        Tables that following appends to are never replaced: its next batch would go to another
        table.
        """
        grown = [name for name in names if name in GROWING]
        if grown and self.grows():
            raise PipelineError(
                f"{self.folder} is an archive that grows by --follow or --incremental: its"
                f" {', '.join(grown)} are never replaced; add what is new with `muster pipeline all"
                " --incremental`, or choose another --out"
            )
        there = [name for name in names if self.has(name)]
        if there and not overwrite:
            raise PipelineError(
                f"{self.folder} already has {', '.join(there)}: choose another --out, or replace"
                " what is there with --overwrite"
            )
        for name in there:
            form = format_at(self._files, self.path(name))
            if form != self.format:
                raise PipelineError(
                    f"{self.path(name)} is a table in {form}, not in {self.format}: replace it with"
                    f" --format {form}, or choose another --out"
                )

    def write(self, name: str, into: Callable[[str], None], overwrite: bool = False) -> str:
        """Write a table atomically by a function that creates a folder of files; return its path.

        PipelineError if it exists and ``overwrite`` is not set, or if the folder can't be written.
        """
        self.check_absent([name], overwrite)
        partial, old, place = (
            self._aside(name, "partial"),
            self._aside(name, "old"),
            self.path(name),
        )
        try:
            self._files.delete(partial)
            into(partial)
            if self._files.exists(place):
                self._files.rename(place, old)
            self._files.rename(partial, place)
            self._files.delete(old)
        except OSError as error:
            raise self._unwritable(error) from error
        return place

    def put(
        self,
        engine: Engine,
        name: str,
        query: str,
        schema: pa.Schema,
        by: str | None,
        overwrite: bool = False,
    ) -> Sequence[str]:
        """Write a query's rows as a table; return the paths of its files. See `write`."""
        return [self.write(name, lambda folder: engine.write(query, schema, folder, by), overwrite)]

    def make(
        self,
        engine: Engine,
        relation: str,
        name: str,
        query: str,
        schema: pa.Schema,
        by: str | None,
        overwrite: bool = False,
        at: str | None = None,  # noqa: ARG002
    ) -> None:
        """Write a query's rows as a table, and define a relation of them; see `write`.

        ``at`` is the time of a row, as SQL, if the rows are a series.
        """
        engine.open(relation, self.put(engine, name, query, schema, by, overwrite), schema)

    def table_files(self, name: str) -> Sequence[str]:
        """The Parquet files of an existing table, or folders of them, for an engine."""
        return [self.path(name)]

    def table_urls(self, name: str) -> Sequence[str]:
        """The addresses of a table's files for other programs; with ``*`` and ``**``."""
        return [f"{self.path(name)}/**/*.parquet"]

    def close(self) -> None:
        """End a run: release the lock, and delete staged files."""
        if self._lock is not None:
            self._lock.delete()
            self._lock = None

    def has_file(self, name: str) -> bool:
        """Whether a file of this name exists next to the tables."""
        return self._files.exists(self.path(name))

    def read_text(self, name: str) -> str | None:
        """The text of a file next to the tables; None if it does not exist."""
        try:
            return self._files.read_text(self.path(name))
        except OSError as error:
            raise PipelineError(
                f"{self.path(name)} can't be read ({error.strerror or error})"
            ) from error

    def write_text(self, name: str, text: str) -> None:
        """Write a file next to the tables atomically; an existing one is replaced."""
        try:
            self._files.write_text(self.path(name), text)
        except OSError as error:
            raise self._unwritable(error) from error

    def delete(self, name: str) -> None:
        """Delete a file or a table; do nothing if it does not exist."""
        self._files.delete(self.path(name))

    def _aside(self, name: str, what: str) -> str:
        return f"{self.folder}/.{name}.{what}"

    def _settle(self, name: str) -> None:
        """Restore or delete leftovers of a killed replacement; leave one in progress alone."""
        place, old = self.path(name), self._aside(name, "old")
        if not self._files.exists(old):
            return
        try:
            mine = self.reserve()
        except Held:
            return
        try:
            if self._files.exists(place):
                self._files.delete(old)
            elif self._files.exists(old):
                self._files.rename(old, place)
        finally:
            if mine:
                Store.close(self)

    def _unwritable(self, error: OSError) -> PipelineError:
        return PipelineError(f"{self.folder} can't be written: {error.strerror or error}")
