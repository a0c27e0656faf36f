"""Stores tables in a folder as Parquet files. Each table is written atomically.

A table is written as `.NAME.partial` and renamed when it is complete. A table that is replaced is
first renamed to `.NAME.old`. A killed job leaves either the old or the new table, and the next run
deletes the partial files.
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
"""The file that contains the cluster id of the tables. Readers of Parquet skip names that begin
with an underscore."""
ARCHIVE_FILES: Final = ("_archive.json", "_events_checkpoint")
"""Files that show that a folder is an archive. `--follow` writes these files next to the events
that it appends."""
GROWING: Final = ("events", "stretches")
"""The tables to which `--follow` appends."""
RUN_LOCK: Final = ".run.lock"
"""The lock file of the run that writes tables. The run deletes it at its end. An archive has a
different lock file."""


class DamagedNote(PipelineError):
    """Raised if the file that contains the cluster id of the tables is damaged. ``what`` is the
    error message without the advice on how to repair the file."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f'{what}: restore a copy of this file, or write {{"cluster_id": "..."}} into it with'
            " the id of the tables' cluster"
        )
        self.what = what


class Store:
    """The tables in one folder."""

    format = PARQUET
    has_files = True
    """True if the store can contain files next to the tables."""
    as_of_ms = 0
    """The as-of time of the written results, in ms. The run sets it."""
    _lock: Lock | None = None

    def __init__(self, folder: str, files: Files | None = None) -> None:
        """``files`` is the file system of the folder; None means the file system of this
        machine."""
        self._files = files or LocalFiles()
        self.folder = os.path.abspath(folder) if files is None else folder.rstrip("/") or "/"

    def path(self, name: str) -> str:
        return f"{self.folder}/{name}"

    def reserve(self, *, new: bool = False) -> bool:
        """Locks the folder until `close`, so that no other run writes to it. Returns True if this
        call has locked the folder. Returns False if the store had locked the folder already, or
        can't lock it: a folder on another machine or on a file system without locks.

        With ``new``, creates a missing folder. If another run has the lock, raises Held, which
        names this run.
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
        """Returns True if a table exists. If a killed run was replacing the table, it is restored
        first."""
        self._settle(name)
        return self._files.exists(self.path(name))

    def cluster_id(self) -> str | None:
        """Returns the cluster id of these tables; None if it is unknown. Raises DamagedNote if the
        file with the cluster id is damaged."""
        text = self.read_text(CLUSTER_FILE)
        if text is None:
            return None
        try:
            found: str | None = json.loads(text)["cluster_id"]
        except (ValueError, TypeError, KeyError) as error:
            why = str(error) if isinstance(error, ValueError) else "the field cluster_id is missing"
            raise DamagedNote(
                f"{self.path(CLUSTER_FILE)} is damaged ({why}), and the cluster of these tables is"
                " unknown"
            ) from None
        return found

    def check_cluster(self, cluster_id: str | None) -> None:
        """Raises PipelineError if the tables of the store belong to another cluster. The cluster id
        None is always accepted."""
        try:
            noted = None if cluster_id is None else self.cluster_id()
        except DamagedNote as error:
            raise PipelineError(
                f"{error.what}: choose another --out. If the tables belong to cluster {cluster_id},"
                " as the source does, delete the damaged file: the next run writes a new file"
            ) from None
        if noted not in (None, cluster_id):
            raise PipelineError(
                f"{self.folder} has tables of cluster {noted}, but the source is cluster"
                f" {cluster_id}: choose another --out"
            )

    def belong_to(self, cluster_id: str | None) -> None:
        """Stores ``cluster_id`` as the cluster id of the tables in this store, unless a cluster id
        is stored already. The caller must have passed the cluster id to `check_cluster` before.
        Does nothing for None."""
        if cluster_id is not None and self.cluster_id() is None:
            self.write_text(CLUSTER_FILE, json.dumps({"cluster_id": cluster_id}))

    def since_ms(
        self,
        series: Sequence[str],  # noqa: ARG002
        asked_ms: int | None,
        end_ms: int | None,  # noqa: ARG002
    ) -> int | None:
        """Returns the start, in ms, of the time series ``series`` (names of tables) that a run
        writes; None if the run writes the whole history.

        ``asked_ms`` and ``end_ms`` are the requested start and end of the run, or None. A store in
        a folder always returns ``asked_ms``.
        """
        return asked_ms

    def grows(self) -> bool:
        """Returns True if the folder is an archive, which has its own events, stretches and
        quarantine."""
        return any(self.has_file(name) for name in ARCHIVE_FILES)

    def check_absent(self, names: Sequence[str], overwrite: bool) -> None:
        """Raises PipelineError if one of these tables exists and may not be replaced.

        Tables to which `--follow` appends are never replaced, because its next batch would be
        appended to the wrong table.
        """
        grown = [name for name in names if name in GROWING]
        if grown and self.grows():
            raise PipelineError(
                f"{self.folder} is an archive that grows by --follow or --incremental; a run can't"
                f" replace {', '.join(grown)} there: add new records with `muster pipeline all"
                " --incremental`, or choose another --out"
            )
        there = [name for name in names if self.has(name)]
        if there and not overwrite:
            raise PipelineError(
                f"{self.folder} already has {', '.join(there)}: choose another --out, or replace"
                " these tables with --overwrite"
            )
        for name in there:
            form = format_at(self._files, self.path(name))
            if form != self.format:
                raise PipelineError(
                    f"{self.path(name)} has the format {form}, not {self.format}: run again with"
                    f" --format {form}, or choose another --out"
                )

    def write(self, name: str, into: Callable[[str], None], overwrite: bool = False) -> str:
        """Writes a table atomically. ``into`` writes the table's files into a folder that it
        creates. Returns the path of the table.

        Raises PipelineError if the table exists and ``overwrite`` is not set, or if the folder
        can't be written.
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
        """Writes the rows of a query as a table, and returns the paths of the table's files. Raises
        the errors of `write`."""
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
        """Writes the rows of ``query`` as the table ``name``, and defines a relation of these rows.
        Raises the errors of `write`. If the table is a time series, ``at`` is the SQL expression
        for the time of a row."""
        engine.open(relation, self.put(engine, name, query, schema, by, overwrite), schema)

    def table_files(self, name: str) -> Sequence[str]:
        """Returns the Parquet files of an existing table, or folders that contain them, for an
        engine."""
        return [self.path(name)]

    def table_urls(self, name: str) -> Sequence[str]:
        """Returns the addresses of a table's files for other programs. An address may contain the
        wildcards ``*`` and ``**``."""
        return [f"{self.path(name)}/**/*.parquet"]

    def close(self) -> None:
        """Ends a run: releases the lock, and deletes staged files."""
        if self._lock is not None:
            self._lock.delete()
            self._lock = None

    def has_file(self, name: str) -> bool:
        """Returns True if a file with this name exists next to the tables."""
        return self._files.exists(self.path(name))

    def read_text(self, name: str) -> str | None:
        """Returns the text of a file next to the tables; None if the file does not exist."""
        try:
            return self._files.read_text(self.path(name))
        except OSError as error:
            raise PipelineError(
                f"{self.path(name)} can't be read ({error.strerror or error})"
            ) from error

    def write_text(self, name: str, text: str) -> None:
        """Writes a file next to the tables atomically. Replaces an existing file."""
        try:
            self._files.write_text(self.path(name), text)
        except OSError as error:
            raise self._unwritable(error) from error

    def delete(self, name: str) -> None:
        """Deletes a file or a table. Does nothing if it does not exist."""
        self._files.delete(self.path(name))

    def _aside(self, name: str, what: str) -> str:
        return f"{self.folder}/.{name}.{what}"

    def _settle(self, name: str) -> None:
        """If a killed run has begun to replace the table ``name``, completes or undoes this
        replacement. Leaves the files alone while another run replaces the table."""
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
