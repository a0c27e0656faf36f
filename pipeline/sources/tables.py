"""Reads the tables of an earlier run as a source: the table `events`, and `stretches` if it
exists."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence

import pyarrow.dataset as ds

from pipeline.sources.source import OfFiles, TimesAsked
from pipeline.storage.store import Store
from pipeline.storage.whole import check_files, table_files

EVENTS = "events"
STRETCHES = "stretches"


class TablesSource(OfFiles):
    """A source that reads the tables of a store."""

    def __init__(self, where: str, store: Store) -> None:
        self.where = where
        self._store = store
        self.cluster_id = store.cluster_id()

    def event_parts(self, partitions: Collection[int] | None) -> None:
        """Returns None, because `event_files` returns all events as Parquet files."""

    def event_files(self) -> Sequence[str]:
        """Implements `Source.event_files`. Raises PipelineError that names the file if a file is
        damaged."""
        self.check()
        return self._store.table_files(EVENTS)

    def check(self, *, deep: bool = False) -> None:
        """Raises PipelineError if a file on this machine is damaged. ``deep`` reads each file
        completely."""
        for name in (EVENTS, STRETCHES):
            places = self._store.table_files(name) if self._store.has(name) else ()
            here = [place for place in places if os.path.exists(place)]
            check_files(table_files(here), deep=deep)

    def stretch_parts(self, asked: TimesAsked) -> None:
        """Returns None, because `stretch_files` returns all stretches as Parquet files."""

    def stretch_files(self) -> Sequence[str] | None:
        """Implements `Source.stretch_files`. Returns None if the folder has no stretches table."""
        return self._store.table_files(STRETCHES) if self._store.has(STRETCHES) else None

    def topics(self) -> None:
        """Returns None: this source reads no topics, because it has the stretches as files."""

    def records_estimate(self) -> int | None:
        """Implements `Source.records_estimate`. Returns None if the files are on other machines."""
        if not os.path.isdir(self._store.path(EVENTS)):
            return None
        self.check()
        rows: int = ds.dataset(self._store.path(EVENTS), partitioning="hive").count_rows()
        return rows

    def end_ms(self) -> None:
        """Returns None, because the history ends at the time of its last record."""
