"""The parameters of a run's queries: the times for which its results hold."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

OFFSETS_RETENTION: Final = timedelta(days=7)
"""Kafka's default of `offsets.retention.minutes`, for a cluster whose setting is not given."""
DAY_MS: Final = 86_400_000


@dataclass(frozen=True)
class Params:
    """The numbers in the tables' SQL, which `run/as_of.py` determines."""

    as_of_ms: int
    """The as-of in ms: the time for which every verdict holds."""
    since_ms: int | None = None
    """The start of the window in ms; None without a window.

    Rows of time series before the start are left out, but earlier records still count for later
    states.
    """
    offsets_retention_ms: int = round(OFFSETS_RETENTION.total_seconds() * 1000)
    read_ms: int | None = None
    """The time in ms by which all returned records had been written; None means the as-of.

    This time is later than the as-of if a past as-of was requested.
    """

    @property
    def as_of(self) -> str:
        """Return SQL for the as-of."""
        return f"timestamp_millis({self.as_of_ms})"

    @property
    def written_by_ms(self) -> int:
        """The upper bound in ms for the arrival of every record, independently of its timestamp."""
        return self.as_of_ms if self.read_ms is None else self.read_ms

    @property
    def lag_since_ms(self) -> int:
        """The start of the steps of lag in ms: the start of the window, or a day before the
        as-of.
        """
        return self.as_of_ms - DAY_MS if self.since_ms is None else self.since_ms

    def in_window(self, at: str) -> str:
        """Return the SQL condition that the time is in the window; a null time is in every
        window."""
        if self.since_ms is None:
            return "true"
        return f"coalesce({at} >= timestamp_millis({self.since_ms}), true)"

    def from_since(self, at: str) -> str:
        """Return SQL for the time, or for the start of the window if the start is later."""
        if self.since_ms is None:
            return at
        return f"greatest({at}, timestamp_millis({self.since_ms}))"
