"""What a run's answers hold for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

OFFSETS_RETENTION: Final = timedelta(days=7)
"""Kafka's `offsets.retention.minutes` unless the cluster's is given."""


@dataclass(frozen=True)
class Params:
    """Numbers that stand in the tables' SQL."""

    as_of_ms: int
    """The time for which every judgement holds."""
    since_ms: int | None = None
    """Rows of series before it are left out; what was true by then still counts."""
    offsets_retention_ms: int = round(OFFSETS_RETENTION.total_seconds() * 1000)

    @property
    def as_of(self) -> str:
        """As SQL."""
        return f"timestamp_millis({self.as_of_ms})"

    def in_window(self, at: str) -> str:
        """As SQL: whether a time is in the window; what has no time is in every one."""
        if self.since_ms is None:
            return "true"
        return f"coalesce({at} >= timestamp_millis({self.since_ms}), true)"
