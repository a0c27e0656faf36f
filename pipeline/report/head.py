"""The head of a report: its source, its as-of, and the thresholds of the lag."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LAG_THRESHOLD_S: Final = 60.0
"""The default of a broker's `group.verdict.lagging.ms`, in seconds."""


@dataclass(frozen=True)
class Thresholds:
    """The lag thresholds: the head of the report names the groups above a threshold; plots show the
    thresholds as lines."""

    lag_s: float = LAG_THRESHOLD_S
    """The threshold for the age of the oldest unread record, in seconds."""
    lag_records: int | None = None
    """The threshold for the number of unread records of a group in all partitions; None means that
    no such threshold applies."""


@dataclass(frozen=True)
class Head:
    """The facts in the head of the page."""

    source: str
    """The source as the user named it: HOST:PORT or a folder."""
    engine: str
    """The engine that made the tables, with its version; "not known" if no file of the run names
    the engine."""
    as_of_ms: int | None = None
    """The time for which every verdict holds; None means the last time in the tables."""
    cluster_id: str | None = None
    thresholds: Thresholds = Thresholds()
