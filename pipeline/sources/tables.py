"""A history as a run wrote it: a folder with the table `events`, and `stretches` where known."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

import pyarrow.compute as pc
import pyarrow.dataset as ds

from pipeline.sources.segment_files import local_folder

EVENTS_TABLE: Final = "events"
STRETCHES_TABLE: Final = "stretches"
MARK: Final = "_muster.json"
"""Which cluster the tables of a folder are of; readers of Parquet pass over names that begin so."""


class TablesSource:
    """The tables of a folder on this machine."""

    def __init__(self, where: str) -> None:
        self.where = where
        self._folder = Path(local_folder(where))
        self.cluster_id = cluster_of(self._folder)

    @classmethod
    def at(cls, where: str) -> TablesSource | None:
        """None where there is no table of events."""
        if "," in where or not os.path.isdir(os.path.join(local_folder(where), EVENTS_TABLE)):
            return None
        return cls(where)

    def event_parts(self, partitions: Collection[int] | None) -> None:
        """They are files."""

    def event_files(self) -> Sequence[str]:
        """See Source."""
        return [str(self._folder / EVENTS_TABLE)]

    def stretch_parts(self, topics: Collection[str]) -> None:
        """They are files."""

    def stretch_files(self) -> Sequence[str] | None:
        """See Source; None when none were written."""
        folder = self._folder / STRETCHES_TABLE
        return [str(folder)] if folder.is_dir() else None

    def topics(self) -> Collection[str]:
        """See Source."""
        found = self.stretch_files()
        if found is None:
            return set()
        names = ds.dataset(found[0], partitioning="hive").to_table(["topic"])["topic"]
        return set(pc.unique(names).to_pylist())

    def records_estimate(self) -> int:
        """See Source."""
        rows: int = ds.dataset(self.event_files()[0], partitioning="hive").count_rows()
        return rows

    def end_ms(self) -> None:
        """The last record's time."""

    def moved_bytes(self) -> int:
        """Nothing comes over the wire."""
        return 0


def cluster_of(folder: Path) -> str | None:
    """The cluster whose tables a folder has; None while it is not known."""
    try:
        found: str | None = json.loads((folder / MARK).read_text()).get("cluster_id")
    except FileNotFoundError:
        return None
    return found
