"""The manifest of an archive: `_archive.json`, which is replaced atomically.

Only files that the manifest lists belong to the archive. A new file is fsynced before a new
manifest lists it. Therefore a kill at any moment leaves a valid archive.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from pipeline.engines.files import LocalFiles
from pipeline.errors import PipelineError

MANIFEST: Final = "_archive.json"
"""The file name of the manifest. Readers of Parquet skip names that begin with an underscore."""
VERSION: Final = 1


@dataclass(frozen=True)
class LiveFile:
    """A file that belongs to the archive: its path relative to the archive's folder, and its number
    of rows."""

    path: str
    rows: int

    @property
    def folder(self) -> str:
        """The folder of the file relative to the archive's folder, such as
        `events/day=2026-01-31`."""
        return self.path.rpartition("/")[0]


@dataclass(frozen=True)
class SetAside:
    """A damaged file that was moved to `quarantine/`."""

    table: str
    file: LiveFile
    """The path and the number of rows that the file had. If an intact copy is put back at this
    path, the file belongs to the archive again."""
    reason: str
    stand_ins: dict[str, tuple[LiveFile, ...]] = field(default_factory=dict)
    """By table: the files whose rows replace the rows of the damaged file."""


@dataclass(frozen=True)
class TopicEnds:
    """The end offsets of a topic when they were last read."""

    topic_id: str | None
    """The topic id; None if it is unknown, as for files and for brokers before Kafka 2.8."""
    ends: dict[int, int]
    """The offset after the last record, by partition."""
    at_ms: int | None
    """The time in ms at which the end offsets were requested; None if they come from records in
    files."""


@dataclass(frozen=True)
class Manifest:
    """The files of an archive, and how far the archive contains the history."""

    cluster_id: str | None = None
    log_topic_id: str | None = None
    """The topic id of `__consumer_offsets`; None if it is unknown."""
    next_offsets: dict[int, int] = field(default_factory=dict)
    """The first offset that is not in the archive yet, by partition of `__consumer_offsets`."""
    damaged_at: dict[int, int] = field(default_factory=dict)
    """The last offset that could not be read, by partition of `__consumer_offsets`."""
    read_until_ms: int | None = None
    """The archive contains all records up to this time in ms. None if the time is unknown."""
    topics: dict[str, TopicEnds] = field(default_factory=dict)
    topics_asked: bool = True
    """False if a run appended events to the archive, but ended before it requested the end offsets
    of the topics in these events."""
    next_file: int = 1
    """The number of the next new file. No number is used twice."""
    files: dict[str, tuple[LiveFile, ...]] = field(default_factory=dict)
    """The files of the archive by table, in the order in which they were written."""
    set_aside: tuple[SetAside, ...] = ()
    """The damaged files, which no longer belong to the archive."""

    def read(self, table: str) -> list[str]:
        """Returns the paths of the files that contain a table's rows, including the files that
        replace damaged files."""
        stand_ins = [file for gone in self.set_aside for file in gone.stand_ins.get(table, ())]
        return [file.path for file in (*self.files.get(table, ()), *stand_ins)]

    def rows(self, table: str) -> int:
        """Returns the number of rows of a table. Does not count the rows that stand in for damaged
        files."""
        return sum(file.rows for file in self.files.get(table, ()))

    def live(self) -> set[str]:
        """Returns the paths of all files that belong to the archive, including the files whose rows
        replace the rows of damaged files."""
        tables = {*self.files, *(table for gone in self.set_aside for table in gone.stand_ins)}
        return {path for table in tables for path in self.read(table)}


def has_manifest(folder: Path) -> bool:
    """Returns True if a folder contains an archive."""
    return (folder / MANIFEST).is_file()


def load(folder: Path) -> Manifest | None:
    """Loads the manifest of a folder; None if the folder has no manifest. Raises PipelineError if
    the manifest is damaged."""
    file = folder / MANIFEST
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise PipelineError(f"{file} can't be read: {error.strerror}") from None
    return _understood(data, str(file))


def _understood(data: bytes, name: str) -> Manifest:
    try:
        said = json.loads(data)
    except ValueError as error:
        raise PipelineError(_not_understood(name, str(error))) from None
    version = said.get("version") if isinstance(said, dict) else None
    if isinstance(version, int) and version > VERSION:
        raise PipelineError(
            f"{name} has archive version {version}, which a later version of Muster wrote: use"
            " the later version"
        )
    try:
        return _read(said)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PipelineError(_not_understood(name, repr(error))) from None


def all_files(file: Path, name: str) -> list[str]:
    """Returns the paths of all files of an archive, from a copy of its manifest.

    Raises PipelineError if the copy is damaged. ``name`` is the path of the original manifest, for
    the error message.
    """
    return sorted(_understood(file.read_bytes(), name).live())


def save(folder: Path, manifest: Manifest) -> None:
    """Fsyncs a new manifest and replaces the folder's manifest with it."""
    said = {"version": VERSION, **asdict(manifest)}
    LocalFiles().write_text(str(folder / MANIFEST), json.dumps(said, indent=1))
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Fsyncs a folder, so that the names in it are durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(said: Mapping[str, Any]) -> Manifest:
    return Manifest(
        said["cluster_id"],
        said["log_topic_id"],
        _numbers(said["next_offsets"]),
        _numbers(said["damaged_at"]),
        said["read_until_ms"],
        {
            name: TopicEnds(topic["topic_id"], _numbers(topic["ends"]), topic["at_ms"])
            for name, topic in said["topics"].items()
        },
        said["topics_asked"],
        said["next_file"],
        _files(said["files"]),
        tuple(
            SetAside(
                gone["table"],
                LiveFile(gone["file"]["path"], gone["file"]["rows"]),
                gone["reason"],
                _files(gone["stand_ins"]),
            )
            for gone in said.get("set_aside", ())
        ),
    )


def _files(said: Mapping[str, Any]) -> dict[str, tuple[LiveFile, ...]]:
    return {
        table: tuple(LiveFile(file["path"], file["rows"]) for file in files)
        for table, files in said.items()
    }


def _numbers(said: Mapping[str, int]) -> dict[int, int]:
    return {int(partition): int(offset) for partition, offset in said.items()}


def _not_understood(name: str, why: str) -> str:
    return (
        f"{name} is not the manifest of an archive ({why}): restore a copy of the folder, or start"
        " in another folder"
    )
