"""The parameters of the queries of a run: the times for which the results are valid."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

OFFSETS_RETENTION: Final = timedelta(days=7)
"""Kafka's default of `offsets.retention.minutes`. It is used if the cluster's setting is not given.
"""
DAY_MS: Final = 86_400_000


@dataclass(frozen=True)
class Params:
    """The numbers that the tables' SQL contains. `run/as_of.py` determines them."""

    as_of_ms: int
    """The as-of time in ms. Every verdict describes the groups at this time."""
    since_ms: int | None = None
    """The start of the window in ms; None without a window. Time series have no rows before the
    start, but earlier records still determine later states."""
    offsets_retention_ms: int = round(OFFSETS_RETENTION.total_seconds() * 1000)
    read_ms: int | None = None
    """The time in ms at which the history was read; None means the as-of time. It is later than the
    as-of time if the user requested an as-of time in the past. All records of the history were
    written before this time."""

    @property
    def as_of(self) -> str:
        return f"timestamp_millis({self.as_of_ms})"

    @property
    def written_by_ms(self) -> int:
        """A time in ms by which all records had arrived at the broker. It does not depend on the
        timestamps of the records."""
        return self.as_of_ms if self.read_ms is None else self.read_ms

    @property
    def lag_since_ms(self) -> int:
        """The start of the time series of lag in ms: the start of the window. Without a window, it
        is a day before the as-of time."""
        return self.as_of_ms - DAY_MS if self.since_ms is None else self.since_ms

    def in_window(self, at: str) -> str:
        """Return an SQL condition that is true if the time ``at`` is null, or not before the start
        of the window."""
        if self.since_ms is None:
            return "true"
        return f"coalesce({at} >= timestamp_millis({self.since_ms}), true)"

    def from_since(self, at: str) -> str:
        """Return SQL for the later of the time ``at`` and the start of the window."""
        if self.since_ms is None:
            return at
        return f"greatest({at}, timestamp_millis({self.since_ms}))"
