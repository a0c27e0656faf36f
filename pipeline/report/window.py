"""The time axis of a report, as SQL for every engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

GROUPS: Final = "report_groups"
"""A relation with a row for each group; `queries.groups` defines it."""


@dataclass(frozen=True)
class Window:
    """The time axis in columns of ``column_ms``, for the first ``parts`` groups."""

    from_ms: int
    until_ms: int
    column_ms: int
    parts: int

    def of(self, alias: str) -> str:
        """SQL: the join that keeps the groups with a part."""
        return f"JOIN {GROUPS} g ON g.group_id = {alias}.group_id AND g.place <= {self.parts}"

    def holds(self, at: str) -> str:
        """SQL condition: a time is on the axis."""
        return (
            f"{at} >= timestamp_millis({self.from_ms}) AND"
            f" {at} <= timestamp_millis({self.until_ms})"
        )

    def column(self, at: str) -> str:
        """SQL: the number of the chart's column in which the time ``at`` falls."""
        ms = f"(unix_millis({at}) - {self.from_ms})"
        return f"CAST(floor({ms} / {self.column_ms}) AS INT)"

    def column_of_end(self, at: str) -> str:
        """SQL: the column of a time that ends a minute."""
        ms = f"(unix_millis({at}) - {self.from_ms} - 1)"
        return f"greatest(CAST(floor({ms} / {self.column_ms}) AS INT), 0)"
