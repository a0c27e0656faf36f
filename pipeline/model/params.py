"""What a run's answers hold for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

OFFSETS_RETENTION: Final = timedelta(days=7)
"""Kafka's `offsets.retention.minutes` unless the cluster's is given."""
DAY_MS: Final = 86_400_000


@dataclass(frozen=True)
class Params:
    """Numbers that stand in the tables' SQL; `run/as_of.py` finds them."""

    as_of_ms: int
    """The time for which every judgement holds."""
    since_ms: int | None = None
    """Rows of series before it are left out; what was true by then still counts."""
    offsets_retention_ms: int = round(OFFSETS_RETENTION.total_seconds() * 1000)
    read_ms: int | None = None
    """Everything that the source gave had been written by then; None for the as-of. It is later
    than the as-of where a past time is asked for."""

    @property
    def as_of(self) -> str:
        """As SQL."""
        return f"timestamp_millis({self.as_of_ms})"

    @property
    def written_by_ms(self) -> int:
        """No record can have been written after it, whatever its own date says."""
        return self.as_of_ms if self.read_ms is None else self.read_ms

    @property
    def lag_since_ms(self) -> int:
        """Where the minutes of lag begin: the window's first, or a day before the as-of."""
        return self.as_of_ms - DAY_MS if self.since_ms is None else self.since_ms

    def in_window(self, at: str) -> str:
        """As SQL: whether a time is in the window; what has no time is in every one."""
        if self.since_ms is None:
            return "true"
        return f"coalesce({at} >= timestamp_millis({self.since_ms}), true)"

    def from_since(self, at: str) -> str:
        """As SQL: the time, or the window's beginning where that is later."""
        if self.since_ms is None:
            return at
        return f"greatest({at}, timestamp_millis({self.since_ms}))"
