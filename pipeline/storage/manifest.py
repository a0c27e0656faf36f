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

    def rows(self, table: str) -> int:
        """How many rows a table has."""
        return sum(file.rows for file in self.files.get(table, ()))

    def live(self) -> set[str]:
        """The paths of all files that count."""
        return {file.path for files in self.files.values() for file in files}


def has_manifest(folder: Path) -> bool:
    """Whether a folder is an archive."""
    return (folder / MANIFEST).is_file()


def load(folder: Path) -> Manifest | None:
    """The manifest of a folder; None without one. PipelineError where it can't be understood."""
    file = folder / MANIFEST
    try:
        said = json.loads(file.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise PipelineError(f"{file} can't be read: {error.strerror}") from None
    except ValueError as error:
        raise PipelineError(_not_understood(file, str(error))) from None
    version = said.get("version") if isinstance(said, dict) else None
    if isinstance(version, int) and version > VERSION:
        raise PipelineError(
            f"{folder} is an archive of version {version}, which a later Muster wrote: use that one"
        )
    try:
        return _read(said)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PipelineError(_not_understood(file, repr(error))) from None


def all_files(text: str) -> list[str]:
    """The paths of all files that count in the archive whose manifest this is."""
    return [file["path"] for files in json.loads(text)["files"].values() for file in files]


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
        {
            table: tuple(LiveFile(file["path"], file["rows"]) for file in files)
            for table, files in said["files"].items()
        },
    )


def _numbers(said: Mapping[str, int]) -> dict[int, int]:
    return {int(partition): int(offset) for partition, offset in said.items()}


def _not_understood(file: Path, why: str) -> str:
    return (
        f"{file} is not the manifest of an archive ({why}): put back a copy of the folder, or begin"
        " in another one"
    )
