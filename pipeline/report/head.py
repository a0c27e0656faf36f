"""The head of a report: its source, the time it holds for, and the thresholds of its verdicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LAG_THRESHOLD_S: Final = 60.0
"""The default of a broker's `group.verdict.lagging.ms`, in seconds."""


@dataclass(frozen=True)
class Thresholds:
    """The thresholds above which a group is named at the top; a plot draws them as lines."""

    lag_s: float = LAG_THRESHOLD_S
    """The age of the oldest unread record, in seconds."""
    lag_records: int | None = None
    """Unread records of a group, over all its partitions; None for no such threshold."""


@dataclass(frozen=True)
class Head:
    """The facts in the head of the page."""

    source: str
    """The source as the user named it: HOST:PORT or a folder."""
    engine: str
    """The engine that made the tables, with its version; "not known" if the tables do not
    name it."""
    as_of_ms: int | None = None
    """The time for which every verdict holds; None for the last one in the tables."""
    cluster_id: str | None = None
    thresholds: Thresholds = Thresholds()
