"""The archive: a growing history in a folder, whose files are never overwritten.

The folders `events/day=.../`, `stretches/day=.../` and `quarantine/` contain Parquet files. The
manifest `_archive.json` lists the valid files, and the next offset to read of each partition of
`__consumer_offsets`. Renaming a new manifest commits rows and offsets together: after a kill, the
archive contains the whole append or nothing of it. The next writer deletes files that the manifest
does not list.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.errors import PipelineError
from pipeline.storage.arrivals import Arrivals
from pipeline.storage.day_files import (
    OWN_NAME,
    PARTIAL_NAME,
    TABLES,
    NewFiles,
    batches_of,
)
from pipeline.storage.lock import Lock
from pipeline.storage.manifest import (
    MANIFEST,
    LiveFile,
    Manifest,
    TopicEnds,
    has_manifest,
    load,
    save,
)
from pipeline.storage.set_aside import given_up, settle

ROWS_OF_A_COMMIT: Final = 2_000_000
FILES_OF_A_DAY: Final = 12
"""The maximum number of files of one table for one day."""
LARGE_ROWS: Final = 4_000_000
"""A file of a past day with at least this number of rows is not merged with other files."""
WRITER: Final = ".archive.lock"
READERS: Final = ".archive.readers"
_DAY_MS: Final = 86_400_000


@dataclass(frozen=True)
class Appended:
    """The numbers of rows that one append added to an archive."""

    events: int = 0
    stretches: int = 0
    damaged: int = 0


class Archive:
    """An archive that this process has locked as its only writer. It is a context manager."""

    def __init__(self, folder: Path, lock: Lock, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest
        self.said: list[str] = []
        """One sentence for each damaged file that was moved, and for each file that is intact
        again."""
        self._lock = lock
        self._unneeded: set[str] = set()

    @classmethod
    def open(cls, where: str, cluster_id: str | None = None) -> Archive:
        """Opens the archive in a folder, or creates it. Moves damaged files to `quarantine/`.

        Raises PipelineError if another process writes to the archive, if the archive belongs to
        another cluster, or if the folder has events that are not part of an archive.
        """
        folder = Path(where)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            check_layout(folder)
            lock = Lock.alone(folder / WRITER)
        except OSError as error:
            raise _not_written(folder, error) from None
        try:
            manifest = load(folder)
            if manifest is None:
                manifest = Manifest(cluster_id)
                save(folder, manifest)
            else:
                manifest = _belonging(folder, manifest, cluster_id)
            archive = cls(folder, lock, manifest)
            archive.set_aside()
            archive._clear_left_overs()
        except OSError as error:
            lock.release()
            raise _not_written(folder, error) from None
        except BaseException:
            lock.release()
            raise
        return archive

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Releases the lock, so that other processes can write."""
        self._lock.release()

    def files(self, table: str) -> list[Path]:
        return [self.folder / path for path in self.manifest.read(table)]

    def set_aside(self, deep: Collection[str] = ()) -> bool:
        """Moves damaged files to `quarantine/`. If a moved file is intact and at its old path
        again, adds it to the archive. Returns True if any file was moved or added.

        For the tables in ``deep``, reads the files completely to find damage.
        """
        settled = settle(self.folder, self.manifest, deep)
        if settled is None:
            return False
        before = self.manifest.live()
        self.manifest = settled.manifest
        self.said += settled.said
        moved = {gone.file.path for gone in self.manifest.set_aside}
        self._unneeded |= before - self.manifest.live() - moved
        return True

    def whole(self, work: Callable[[], None]) -> None:
        """Runs a function that reads files. If it fails because files are damaged, moves these
        files to `quarantine/` and runs the function again."""
        try:
            work()
        except (pa.ArrowException, OSError):
            if not self.set_aside(TABLES):
                raise
            work()

    def append(
        self,
        batches: Iterable[pa.RecordBatch],
        *,
        next_offsets: Mapping[int, int] | None = None,
        stretches: Iterable[pa.Table] = (),
        topics: Mapping[str, TopicEnds] | None = None,
        forgotten: Sequence[str] = (),
        log_topic_id: str | None = None,
        read_until_ms: int | None = None,
    ) -> Appended:
        """Adds new EVENTS, in the order of each partition's log, and new STRETCHES to the archive.

        ``next_offsets`` has the offset up to which each partition's log was read, even if no rows
        were added. ``topics`` has the end offsets of topics; None if they have never been
        requested. ``forgotten`` lists recreated topics: the archive deletes the rows of these
        topics. The append is atomic, except that a very large number of events is committed in
        several parts.
        """
        if forgotten:  # stretches of these topics are rewritten
            with self._writing():
                self.set_aside(["stretches"])
        adding = Arrivals(self.manifest)
        new = NewFiles(self.folder, self.manifest.next_file)
        try:
            for batch in batches:
                with self._writing():
                    adding.take(batch, new)
                    if new.rows >= ROWS_OF_A_COMMIT:
                        self._commit(new, adding.noted(self.manifest))
                        new = NewFiles(self.folder, self.manifest.next_file)
            adding.end(next_offsets or {})
            grown = 0
            for rows in stretches:
                with self._writing():
                    new.add("stretches", rows)
                grown += rows.num_rows
            with self._writing():
                manifest = adding.noted(self._without(forgotten, new))
                manifest = replace(
                    manifest,
                    topics={**manifest.topics, **(topics or {})},
                    topics_asked=topics is not None,
                    log_topic_id=log_topic_id or manifest.log_topic_id,
                    read_until_ms=_later(manifest.read_until_ms, read_until_ms),
                )
                touched = self._commit(new, manifest)
                self.whole(partial(self._compact, touched))
        except BaseException:
            new.drop()
            raise
        return Appended(adding.events, grown, adding.damaged)

    def compact(self) -> None:
        """Joins the files of each table and day into one file."""
        with self._writing():
            self.whole(self._join_all)

    def _join_all(self) -> None:
        for folder, files in self._folders().items():
            if len(files) > 1:
                self._join(folder, files)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Converts an OSError to a PipelineError that names the archive's folder."""
        try:
            yield
        except OSError as error:
            raise _not_written(self.folder, error) from None

    def _commit(self, new: NewFiles, manifest: Manifest) -> set[str]:
        """Commits new files and the manifest. Returns the folders that received new files."""
        found = new.finish()
        files = dict(manifest.files)
        for table, live in found.items():
            files[table] = (*files.get(table, ()), *live)
        gone = self.manifest.live()
        manifest = replace(manifest, files=files, next_file=new.next_number)
        if manifest != self.manifest:
            save(self.folder, manifest)
        self.manifest = manifest
        self._unneeded |= gone - manifest.live()
        self._clear()
        return {file.folder for live in found.values() for file in live}

    def _without(self, topics: Sequence[str], new: NewFiles) -> Manifest:
        """Removes the rows of ``topics``: writes new files without these rows in place of the files
        that contain them. Returns the manifest with the new files."""
        if not topics:
            return self.manifest
        kept: list[LiveFile] = []
        names = pa.array(topics, pa.string())
        manifest = given_up(self.manifest, "stretches")
        for file in manifest.files.get("stretches", ()):
            path = self.folder / file.path
            column = pq.read_table(path, columns=["topic"], partitioning=None).column("topic")
            if not pc.any(pc.is_in(column, names)).as_py():
                kept.append(file)
                continue
            for rows in batches_of(path, TABLES["stretches"]):
                new.add_to(file.folder, rows.filter(pc.invert(pc.is_in(rows["topic"], names))))
        return replace(
            manifest,
            files={**manifest.files, "stretches": tuple(kept)},
            topics={n: t for n, t in manifest.topics.items() if n not in topics},
        )

    def _compact(self, touched: set[str]) -> None:
        """Merges the files of the current day if there are many of them, and the files of each past
        day."""
        until_ms = self.manifest.read_until_ms or 0
        today = f"day={np.datetime64(until_ms // _DAY_MS, 'D')}"
        for folder, files in self._folders().items():
            day = folder.rpartition("/")[2]
            if day[4:5].isdigit() and day < today and folder not in touched:
                small = [file for file in files if file.rows < LARGE_ROWS]
                if len(small) > 1:
                    self._join(folder, small)
            elif count := due([file.rows for file in files]):
                self._join(folder, files[-count:])

    def _folders(self) -> dict[str, list[LiveFile]]:
        found: dict[str, list[LiveFile]] = {}
        for files in self.manifest.files.values():
            for file in files:
                found.setdefault(file.folder, []).append(file)
        return found

    def _join(self, folder: str, files: Sequence[LiveFile]) -> None:
        table = folder.partition("/")[0]
        new = NewFiles(self.folder, self.manifest.next_file)
        try:
            for file in files:
                for rows in batches_of(self.folder / file.path, TABLES[table]):
                    new.add_to(folder, rows)
            left = tuple(file for file in self.manifest.files[table] if file not in files)
            self._commit(new, replace(self.manifest, files={**self.manifest.files, table: left}))
        except BaseException:
            new.drop()
            raise

    def _clear_left_overs(self) -> None:
        """Deletes the files that a killed writer left, and old files that were kept for readers."""
        live = self.manifest.live()
        away = {gone.file.path for gone in self.manifest.set_aside}
        for table in TABLES:
            for file in _files_in(self.folder / table):
                path = str(file.relative_to(self.folder))
                if PARTIAL_NAME.fullmatch(file.name):
                    file.unlink()
                elif OWN_NAME.fullmatch(file.name) and path not in live and path not in away:
                    self._unneeded.add(path)
        (self.folder / f".{MANIFEST}.partial").unlink(missing_ok=True)
        self._clear()

    def _clear(self) -> None:
        """Deletes the files that the manifest does not list, unless a process reads the archive
        now."""
        lock = Lock.nobody_shares(self.folder / READERS)
        if lock is None:
            return
        try:
            for path in self._unneeded:
                (self.folder / path).unlink(missing_ok=True)
            self._unneeded.clear()
        finally:
            lock.release()


def due(rows: Sequence[int]) -> int:
    """Returns how many of a day's newest files must be merged into one file; 0 if the day has only
    a few files. ``rows`` has the number of rows of each file, oldest file first.

    Beginning with the newest file, files are merged until the next older file is larger than the
    merged files together. Therefore each row is rewritten only a few times, even on a day with
    thousands of appends.
    """
    if len(rows) < FILES_OF_A_DAY:
        return 0
    count = 2
    joined = rows[-1] + rows[-2]
    while count < len(rows) and rows[-count - 1] < joined:
        count += 1
        joined += rows[-count]
    return count


def check_layout(folder: Path) -> None:
    """Raises PipelineError if a folder has events, stretches or a quarantine that are not part of
    an archive."""
    archived = has_manifest(folder)
    for table in TABLES:
        for file in _files_in(folder / table):
            if file.suffix != ".parquet" or file.name.startswith("."):
                continue
            if archived and OWN_NAME.fullmatch(file.name):
                continue
            raise PipelineError(_not_ours(folder, file, archived))


def _not_ours(folder: Path, file: Path, archived: bool) -> str:
    found = file.relative_to(folder)
    if archived:
        return (
            f"{folder} is an archive, but also has {found}, which is not part of the archive:"
            " move this file to another folder"
        )
    if re.match(r"events/batch=", str(found)):
        return (
            f"{folder} was written by --follow of an earlier version of Muster: convert it with"
            f" `muster pipeline events --source {folder} --out NEW`, then use NEW"
        )
    return (
        f"{folder} has {found}, which is not part of an archive: choose another --out; `muster"
        f" pipeline events --source {folder} --out NEW` makes an archive of its events"
    )


def _belonging(folder: Path, manifest: Manifest, cluster_id: str | None) -> Manifest:
    """Returns the manifest. If the manifest has no cluster id yet, sets it to ``cluster_id``.
    Raises PipelineError if the archive belongs to another cluster."""
    if None not in (cluster_id, manifest.cluster_id) and cluster_id != manifest.cluster_id:
        raise PipelineError(
            f"{folder} is an archive of cluster {manifest.cluster_id}, but the source is cluster"
            f" {cluster_id}: choose another --out"
        )
    return replace(manifest, cluster_id=manifest.cluster_id or cluster_id)


def _files_in(folder: Path) -> Iterator[Path]:
    with contextlib.suppress(FileNotFoundError):
        yield from sorted(path for path in folder.rglob("*") if path.is_file())


def _later(one: int | None, other: int | None) -> int | None:
    return max((ms for ms in (one, other) if ms is not None), default=None)


def _not_written(folder: Path, error: OSError) -> PipelineError:
    return PipelineError(
        f"{folder} can't be written ({error.strerror or error}): the archive is unchanged"
    )
