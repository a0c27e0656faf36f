"""The head of a report: its source, its as-of time, and the thresholds of the lag."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LAG_THRESHOLD_S: Final = 60.0
"""The default threshold of the lag in seconds. It equals a broker's default of
`group.verdict.lagging.ms`."""


@dataclass(frozen=True)
class Thresholds:
    """The thresholds of the lag. The head of the report names the groups above a threshold. Plots
    show the thresholds as lines."""

    lag_s: float = LAG_THRESHOLD_S
    """The threshold for the age of the oldest unread record, in seconds."""
    lag_records: int | None = None
    """The threshold for the number of unread records of a group in all partitions; None for no such
    threshold."""


@dataclass(frozen=True)
class Head:
    """The facts in the head of the page."""

    source: str
    """The source as the user named it: HOST:PORT or a folder."""
    engine: str
    """The engine that made the tables, with its version; "not known" if the files of the run do not
    name it."""
    as_of_ms: int | None = None
    """The as-of time in ms, for which every verdict is valid; None for the last time in the tables.
    """
    cluster_id: str | None = None
    thresholds: Thresholds = Thresholds()
