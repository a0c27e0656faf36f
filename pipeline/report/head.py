"""What a report is about: its source, the time it holds for, and the settings of its judgements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LAG_THRESHOLD_S: Final = 60.0
"""As `group.verdict.lagging.ms` of a broker has it."""


@dataclass(frozen=True)
class Thresholds:
    """From when on a group's lag is named at the top, and where a line is drawn."""

    lag_s: float = LAG_THRESHOLD_S
    """The age of the oldest unread record, in seconds."""
    lag_records: int | None = None
    """Unread records of a group, over all its partitions; None for no such threshold."""


@dataclass(frozen=True)
class Head:
    """What stands above the answers."""

    source: str
    """As a person named it: HOST:PORT or a folder."""
    engine: str
    """What made the tables, with its version; "not known" for tables that do not say."""
    as_of_ms: int | None = None
    """The time that every judgement holds for; None for the last one of the tables."""
    cluster_id: str | None = None
    thresholds: Thresholds = Thresholds()
