"""Moves damaged files of an archive to `quarantine/`, and replaces their rows with stand-in rows.

The content of a damaged file is unknown, and stand-in rows mark where it is missing. If events are
missing, each partition of `__consumer_offsets` gets a row of kind DAMAGED, so that tables report
their results as unknown. If stretches are missing, each missing range of offsets gets a stretch
without a time. The table `quarantine` gets a row for each moved file.

If an intact copy is put back at the file's path, the copy belongs to the archive again and the
stand-in rows are dropped. A file that does not exist or can't be read at present does not count as
damaged, and is not moved.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline import clock
from pipeline.errors import PipelineError
from pipeline.model.events import DAMAGED, EVENTS, STRETCHES
from pipeline.model.tables import QUARANTINE
from pipeline.storage.day_files import TABLES, NewFiles, batches_of, make_folders
from pipeline.storage.manifest import MANIFEST, LiveFile, Manifest, SetAside, save, sync_folder
from pipeline.storage.whole import fault_of

FOLDER: Final = "quarantine"
YOUNG_S: Final = 10.0
"""A file that was changed less than this number of seconds ago may be a copy in progress."""


class Damaged(NamedTuple):
    """A damaged file of an archive."""

    table: str
    file: LiveFile
    fault: str
    """The damage in words, as `fault_of` returns it. The words complete a sentence that begins with
    "it"."""

    def lost(self, folder: str) -> str:
        """Returns the start of a sentence, with the name of the damaged file and the damage."""
        return f"{folder}/{self.file.path} is damaged (it {self.fault})"

    @property
    def missing(self) -> str:
        """Returns the consequence of the damage, such as "its 5 rows are missing from the history",
        as a part of a sentence."""
        return (
            f"its {self.file.rows} rows are missing from the history until an intact copy is put"
            " back"
        )


class FileGone(PipelineError):
    """A file that the manifest lists does not exist."""


class Settled(NamedTuple):
    """The manifest of an archive after its damaged files were moved."""

    manifest: Manifest
    said: tuple[str, ...]
    """One sentence for each moved or restored file."""


def damaged_files(
    folder: Path, manifest: Manifest, deep: Collection[str] = ()
) -> tuple[Damaged, ...]:
    """Returns the damaged files among those that the manifest lists.

    The check reads the files of the tables ``deep`` completely. If it finds a damaged file, a
    second check reads all files completely. Raises FileGone if a file is missing, and PipelineError
    if a file can't be read at present.
    """
    found = tuple(_damaged(folder, manifest, deep))
    if found and set(deep) < set(TABLES):
        found = tuple(_damaged(folder, manifest, TABLES))
    return found


def _damaged(folder: Path, manifest: Manifest, deep: Collection[str]) -> Iterator[Damaged]:
    for table, files in manifest.files.items():
        for file in files:
            path = folder / file.path
            try:
                fault = fault_of(path, table, file.rows, deep=table in deep)
            except FileNotFoundError:
                raise FileGone(
                    f"{path} is missing, but {MANIFEST} lists it: restore the file from a copy, or"
                    " start in another folder"
                ) from None
            except OSError as error:
                raise PipelineError(
                    f"{path} can't be read ({error.strerror or error}): nothing was moved"
                ) from None
            if fault is not None:
                yield Damaged(table, file, fault)


def in_place(folder: Path, gone: SetAside) -> bool:
    """Checks the former path of the file ``gone``, which was moved to `quarantine/`. Returns True
    if an intact file is there now. Returns False if no file is there, or if it is damaged or
    unreadable."""
    try:
        return fault_of(folder / gone.file.path, gone.table, gone.file.rows, deep=True) is None
    except OSError:
        return False


def left_behind(folder: Path, manifest: Manifest) -> list[Damaged]:
    """Returns the damaged files that are in the folder although the manifest marks them as moved to
    `quarantine/`.

    This has one of three reasons. The file was not moved, because it had just changed. The process
    ended before the move. Or the file was moved, and later a damaged copy was put at its former
    path.
    """
    found = []
    for gone in manifest.set_aside:
        with contextlib.suppress(OSError):
            fault = fault_of(folder / gone.file.path, gone.table, gone.file.rows, deep=True)
            if fault is not None:
                found.append(Damaged(gone.table, gone.file, fault))
    return found


def settle(folder: Path, manifest: Manifest, deep: Collection[str] = ()) -> Settled | None:
    """Moves damaged files to `quarantine/`, and restores files that are intact again. Returns None
    if there is nothing to move or restore.

    The caller must hold the writer's lock. The rows that replace a damaged file are fsynced before
    the manifest lists them. Only then is the damaged file moved. If the process is killed at any
    moment, the next process continues this work.
    """
    back = [gone for gone in manifest.set_aside if in_place(folder, gone)]
    left = left_behind(folder, manifest)
    found = damaged_files(folder, manifest, deep)
    settled = manifest
    if found or back:
        settled = _stood_in(folder, counted_again(without(manifest, found), back), found)
        save(folder, settled)
    moved = [_moved(folder, each) for each in (*left, *found)]
    again = [f"{folder / gone.file.path} is intact again and will be read" for gone in back]
    return Settled(settled, (*moved, *again)) if moved or again else None


def _stood_in(folder: Path, settled: Manifest, found: Iterable[Damaged]) -> Manifest:
    """For each damaged file, writes a new file with rows that mark the missing data. Returns a
    manifest that lists the new files instead of the damaged files."""
    for each in found:
        new = NewFiles(folder, settled.next_file)
        try:
            rows = stand_ins(folder, settled, each)
            for table, some in rows.items():
                new.add_to(each.file.folder if table == each.table else table, some)
            files = {table: tuple(live) for table, live in new.finish().items()}
        except BaseException:
            new.drop()
            raise
        gone = SetAside(each.table, each.file, f"The file {each.fault}.", files)
        settled = replace(settled, next_file=new.next_number, set_aside=(*settled.set_aside, gone))
    return settled


def without(manifest: Manifest, damaged: Iterable[Damaged]) -> Manifest:
    """Returns a manifest from which the damaged files are removed."""
    paths = {each.file.path for each in damaged}
    files = {
        table: tuple(file for file in files if file.path not in paths)
        for table, files in manifest.files.items()
    }
    return replace(manifest, files=files)


def counted_again(manifest: Manifest, back: Collection[SetAside]) -> Manifest:
    """Returns a manifest in which the files ``back``, which had been moved to `quarantine/`, belong
    to the archive again."""
    files = dict(manifest.files)
    for gone in back:
        files[gone.table] = (*files.get(gone.table, ()), gone.file)
    left = tuple(gone for gone in manifest.set_aside if gone not in back)
    return replace(manifest, files=files, set_aside=left)


def given_up(manifest: Manifest, table: str) -> Manifest:
    """Returns a manifest without the damaged files of a table. If these files are restored from a
    copy later, they are not used any more. The files that replaced them become ordinary files of
    the table."""
    files = dict(manifest.files)
    gone = [each for each in manifest.set_aside if each.table == table]
    for name, live in (pair for each in gone for pair in each.stand_ins.items()):
        files[name] = (*files.get(name, ()), *live)
    left = tuple(each for each in manifest.set_aside if each.table != table)
    return replace(manifest, files=files, set_aside=left)


def stand_ins(folder: Path, manifest: Manifest, damaged: Damaged) -> dict[str, pa.Table]:
    """Returns, by table, the rows that replace the content of a damaged file. The caller must first
    remove the file from the manifest."""
    path, reason = damaged.file.path, f"The file {damaged.fault}."
    rows = {
        "quarantine": _table(QUARANTINE, [{"file": path, "reason": reason}]),
    }
    if damaged.table == "events":
        lost = [
            {
                "log_partition": partition,
                "log_offset": offset,
                "kind": DAMAGED,
                "damage": {"file": path, "position": None, "reason": reason},
            }
            for partition, offset in sorted(_ends(folder, manifest, damaged.file.folder).items())
        ]
        rows["events"] = _table(EVENTS, lost)
    if damaged.table == "stretches":
        rows["stretches"] = _table(STRETCHES, list(_gaps(folder, manifest)))
    return {table: some for table, some in rows.items() if some.num_rows}


def _table(schema: pa.Schema, rows: Sequence[dict[str, object]]) -> pa.Table:
    return pa.Table.from_pylist([{**dict.fromkeys(schema.names), **row} for row in rows], schema)


def _ends(folder: Path, manifest: Manifest, day: str) -> dict[int, int]:
    """Returns the offset after the last event in the archive's files of ``day`` and of earlier
    days, by partition of `__consumer_offsets`. ``day`` is the name of a day's folder."""
    ends = dict.fromkeys(manifest.next_offsets, 0)
    for file in manifest.files.get("events", ()):
        if file.folder <= day:
            columns = ["log_partition", "log_offset"]
            rows = pq.read_table(folder / file.path, columns=columns, partitioning=None)
            last = rows.group_by("log_partition").aggregate([("log_offset", "max")])
            for row in last.to_pylist():
                partition = row["log_partition"]
                ends[partition] = max(ends.get(partition, 0), row["log_offset_max"] + 1)
    return ends


def _gaps(folder: Path, manifest: Manifest) -> Iterator[dict[str, object]]:
    """Yields a row of STRETCHES without times for each gap of the archive. A gap is a range of
    offsets whose rows the archive has lost."""
    spans: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for file in manifest.files.get("stretches", ()):
        for rows in batches_of(folder / file.path, STRETCHES):
            columns = [rows[name].to_pylist() for name in STRETCHES.names[:4]]
            for topic, partition, base, last in zip(*columns, strict=True):
                spans.setdefault((topic, partition), []).append((base, last + 1))
    for topic, known in manifest.topics.items():
        for partition, end in known.ends.items():
            if (topic, partition) in spans:
                spans[topic, partition].append((end, end))
    for (topic, partition), known_spans in sorted(spans.items()):
        position = min(known_spans)[0]
        for base, behind in sorted(known_spans):
            if base > position:
                yield {
                    "topic": topic,
                    "partition": partition,
                    "base_offset": position,
                    "last_offset": base - 1,
                }
            position = max(position, behind)


def _quarantined(folder: Path, file: LiveFile) -> Path:
    """Returns an unused path in `quarantine/` for a damaged file. The file name begins with an
    underscore, so that readers of Parquet skip the file."""
    name = f"_{file.path.rpartition('/')[2]}"
    ends = chain(["damaged"], (f"{nth}.damaged" for nth in count(2)))
    places = (folder / FOLDER / f"{name}.{end}" for end in ends)
    return next(place for place in places if not place.exists())


def _moved(folder: Path, damaged: Damaged) -> str:
    """Moves a damaged file, unless it has just changed. Returns a sentence that says what was
    done."""
    path = folder / damaged.file.path
    if clock.now_ms() - path.stat().st_mtime * 1000 <= YOUNG_S * 1000:
        done = "the file was not moved, because it has just changed and may not be complete yet"
    else:
        to = _quarantined(folder, damaged.file)
        make_folders(folder, FOLDER)
        os.replace(path, to)
        sync_folder(folder / FOLDER)
        sync_folder(path.parent)
        done = f"the file was moved to {to}"
    return f"{damaged.lost(str(folder))}: {done}, and {damaged.missing}"
