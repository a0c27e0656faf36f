"""A part of a history: some groups, a span of time, some partitions of `__consumer_offsets`.

What could not be read or is of no known kind belongs to no group and stays in, so that a selection
hides no damage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipeline.contract import DAMAGED, UNKNOWN, conform, of_kind
from pipeline.names import named
from pipeline.sources.segments import SharedTask
from pipeline.spark_source import Source


@dataclass(frozen=True)
class Selection:
    """What of a history is wanted; None is all of it."""

    groups: Sequence[str] | None = None
    """Names, or patterns with ``*``."""
    since: datetime | None = None
    until: datetime | None = None
    """Records written from `since` on and before `until`."""
    partitions: Sequence[int] | None = None
    """Of `__consumer_offsets`."""


def selected(events: DataFrame, selection: Selection) -> DataFrame:
    """`EVENTS`, or `CHAINED`, to the same: those of the selection.

    What has no time is in every span.
    """
    of_nobody = of_kind(DAMAGED, UNKNOWN)
    found = events
    if selection.partitions is not None:
        found = found.where(F.col("log_partition").isin(list(selection.partitions)))
    if selection.groups is not None:
        found = found.where(of_nobody | named(selection.groups))
    written = F.coalesce("written_at", "commit_at")
    if selection.since is not None:
        found = found.where(written.isNull() | (written >= F.lit(selection.since)))
    if selection.until is not None:
        found = found.where(written.isNull() | (written < F.lit(selection.until)))
    return conform(found, events.schema)


class SelectedSource:
    """A part of a source."""

    def __init__(self, source: Source, selection: Selection) -> None:
        self._source = source
        self._selection = selection

    def events(self) -> DataFrame:
        """See Source."""
        return selected(self._source.events(), self._selection)

    def chained(self) -> DataFrame | None:
        """See Source; None for a history that begins in its midst: its first commits know none."""
        if self._selection.since is not None:
            return None
        chained = self._source.chained()
        return None if chained is None else selected(chained, self._selection)

    def tasks(self) -> Sequence[SharedTask] | None:
        """See Source; None for a selection that is of some rows of a partition."""
        wanted = self._selection.partitions
        if self._selection != Selection(partitions=wanted):
            return None
        tasks = self._source.tasks()
        if tasks is None or wanted is None:
            return tasks
        chosen = [
            [part for part in task.parts if part[0].segment.partition in wanted] for task in tasks
        ]
        return [SharedTask(parts) for parts in chosen if parts]

    def batches(self, topics: Sequence[str] | None = None) -> DataFrame | None:
        """See Source; topics are chosen by name, and all of their time is of use."""
        return self._source.batches(topics)
