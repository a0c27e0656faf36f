"""Tables in a folder, as Parquet: each is there whole or not at all.

A table is written beside its place, as `.NAME.partial`, and renamed when all of it is there; one
that is replaced steps aside as `.NAME.old` first. A job that is killed anywhere leaves the old
table or the new one, and its next run clears away what is left.
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
"""Which cluster the tables are of; readers of Parquet pass over names that begin so."""
ARCHIVE_FILES: Final = ("_archive.json", "_events_checkpoint")
"""What following a broker leaves beside the events that it adds to."""
GROWING: Final = ("events", "stretches")
"""The tables that following adds to."""
RUN_LOCK: Final = ".run.lock"
"""Held by the run that writes tables, and gone with it. An archive has a lock of its own."""


class DamagedNote(PipelineError):
    """The file that names the cluster of tables can't be understood; ``what`` says so alone."""

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
    """Whether files may lie beside the tables."""
    as_of_ms = 0
    """The time for which what is written holds, once a run knows it."""
    _lock: Lock | None = None

    def __init__(self, folder: str, files: Files | None = None) -> None:
        """``files`` is where the folder is; this machine's file system unless given."""
        self._files = files or LocalFiles()
        self.folder = os.path.abspath(folder) if files is None else folder.rstrip("/") or "/"

    def path(self, name: str) -> str:
        """Where a table is."""
        return f"{self.folder}/{name}"

    def reserve(self, *, new: bool = False) -> bool:
        """Keep other runs from writing into this folder until `close`; whether none did so before.

        ``new`` makes a folder that does not exist. Held names the run that writes there. Other
        machines' file systems, and those without locks, are not reserved.
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
        """Whether a table is there; one that a killed run was replacing is put back, and counts."""
        self._settle(name)
        return self._files.exists(self.path(name))

    def cluster_id(self) -> str | None:
        """The cluster of these tables; None while it is not known.

        PipelineError where the file that names it can't be understood.
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
        """PipelineError when these tables are of another cluster; None is not refused."""
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
        """Note the cluster of these tables, which `check_cluster` has accepted; None is not."""
        if cluster_id is not None and self.cluster_id() is None:
            self.write_text(CLUSTER_FILE, json.dumps({"cluster_id": cluster_id}))

    def since_ms(
        self,
        series: Sequence[str],  # noqa: ARG002
        asked_ms: int | None,
        end_ms: int | None,  # noqa: ARG002
    ) -> int | None:
        """Where a run's series begin that go into these tables; None for all of the history.

        What was asked, in a folder. ``end_ms`` is where the run ends, if that was asked too.
        """
        return asked_ms

    def grows(self) -> bool:
        """Whether an archive is here: its events, stretches and quarantine are its own."""
        return any(self.has_file(name) for name in ARCHIVE_FILES)

    def check_absent(self, names: Sequence[str], overwrite: bool) -> None:
        """PipelineError when one of these tables is there and is not to be replaced.

        What following a broker keeps is never replaced: its next batch would add to another table.
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
        """Write a table whole by a function that makes a new folder of files; where it is then.

        PipelineError when it is there and ``overwrite`` is not set, or the folder can't be written.
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
        """Write a query's rows as a table; where its files are. See `write`."""
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

        ``at`` is the time of a row, as SQL, where the rows are a series.
        """
        engine.open(relation, self.put(engine, name, query, schema, by, overwrite), schema)

    def table_files(self, name: str) -> Sequence[str]:
        """The Parquet files of a table that is there, or folders of them, for an engine."""
        return [self.path(name)]

    def table_urls(self, name: str) -> Sequence[str]:
        """Where a table's files are, as other programs find them; with ``*`` and ``**``."""
        return [f"{self.path(name)}/**/*.parquet"]

    def close(self) -> None:
        """A run has ended: others may write here, and what it staged is not needed."""
        if self._lock is not None:
            self._lock.delete()
            self._lock = None

    def has_file(self, name: str) -> bool:
        """Whether there is a file of this name beside the tables."""
        return self._files.exists(self.path(name))

    def read_text(self, name: str) -> str | None:
        """The text of a file beside the tables; None when there is no file."""
        try:
            return self._files.read_text(self.path(name))
        except OSError as error:
            raise PipelineError(
                f"{self.path(name)} can't be read ({error.strerror or error})"
            ) from error

    def write_text(self, name: str, text: str) -> None:
        """Write a file beside the tables, whole or not at all; one that is there is replaced."""
        try:
            self._files.write_text(self.path(name), text)
        except OSError as error:
            raise self._unwritable(error) from error

    def delete(self, name: str) -> None:
        """Delete a file or a table; nothing happens when there is none."""
        self._files.delete(self.path(name))

    def _aside(self, name: str, what: str) -> str:
        return f"{self.folder}/.{name}.{what}"

    def _settle(self, name: str) -> None:
        """Put back, or clear away, what a killed replacement left aside; not one that goes on."""
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
