"""What an archive says of itself: `_archive.json`, replaced whole or not at all.

Only what it names counts. A file is written and made safe before the manifest that names it takes
the place of the one before, so that a process may end anywhere.
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
"""Readers of Parquet pass over names that begin so."""
VERSION: Final = 1


@dataclass(frozen=True)
class LiveFile:
    """A file of a table: its path in the archive, and its rows."""

    path: str
    rows: int

    @property
    def folder(self) -> str:
        """What it lies in: `events/day=2026-01-31`."""
        return self.path.rpartition("/")[0]


@dataclass(frozen=True)
class SetAside:
    """A file that was damaged, moved to `quarantine/`."""

    table: str
    file: LiveFile
    """As it was when it counted. A whole copy that is put back in its place counts again."""
    reason: str
    """What is wrong with it, as a sentence."""
    stand_ins: dict[str, tuple[LiveFile, ...]] = field(default_factory=dict)
    """By table, files of rows that say what is missing; they count instead of it."""


@dataclass(frozen=True)
class TopicEnds:
    """Where a topic ended when it was last looked at."""

    topic_id: str | None
    """None where it is not known: in files, and of old brokers."""
    ends: dict[int, int]
    """By partition, the offset behind its last record."""
    at_ms: int | None
    """None where no look told it, but the records themselves."""


@dataclass(frozen=True)
class Manifest:
    """The state of an archive."""

    cluster_id: str | None = None
    log_topic_id: str | None = None
    """Of `__consumer_offsets`."""
    next_offsets: dict[int, int] = field(default_factory=dict)
    """By partition of `__consumer_offsets`: the first offset that is not here yet."""
    damaged_at: dict[int, int] = field(default_factory=dict)
    """By partition, the last offset that could not be read."""
    read_until_ms: int | None = None
    """All that was written before is here."""
    topics: dict[str, TopicEnds] = field(default_factory=dict)
    topics_asked: bool = True
    """Whether the topics of all events here were looked at; a run that ended between may not."""
    next_file: int = 1
    """Number of the next file; none is used twice."""
    files: dict[str, tuple[LiveFile, ...]] = field(default_factory=dict)
    """By table, in the order in which they were written."""
    set_aside: tuple[SetAside, ...] = ()
    """Files that were damaged, and do not count."""

    def read(self, table: str) -> list[str]:
        """The paths of the files that a reader of a table reads."""
        stand_ins = [file for gone in self.set_aside for file in gone.stand_ins.get(table, ())]
        return [file.path for file in (*self.files.get(table, ()), *stand_ins)]

    def rows(self, table: str) -> int:
        """How many rows a table has."""
        return sum(file.rows for file in self.files.get(table, ()))

    def live(self) -> set[str]:
        """The paths of all files that count."""
        tables = {*self.files, *(table for gone in self.set_aside for table in gone.stand_ins)}
        return {path for table in tables for path in self.read(table)}


def has_manifest(folder: Path) -> bool:
    """Whether a folder is an archive."""
    return (folder / MANIFEST).is_file()


def load(folder: Path) -> Manifest | None:
    """The manifest of a folder; None without one. PipelineError where it can't be understood."""
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
            " that version"
        )
    try:
        return _read(said)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PipelineError(_not_understood(name, repr(error))) from None


def all_files(file: Path, name: str) -> list[str]:
    """The paths of all files that count in the archive whose manifest a file is a copy of.

    PipelineError where it can't be understood; ``name`` is where the manifest is.
    """
    return sorted(_understood(file.read_bytes(), name).live())


def save(folder: Path, manifest: Manifest) -> None:
    """Take the place of the manifest that is there, once this one is safe on disk."""
    said = {"version": VERSION, **asdict(manifest)}
    LocalFiles().write_text(str(folder / MANIFEST), json.dumps(said, indent=1))
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder safe on disk."""
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
        " in another one"
    )
