"""The time axis of a report, with SQL for every engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

GROUPS: Final = "report_groups"
"""The relation with a row for each group, which `queries.groups` defines."""


@dataclass(frozen=True)
class Window:
    """The time axis, divided into columns of ``column_ms``; the first ``parts`` groups have a
    section.
    """

    from_ms: int
    until_ms: int
    column_ms: int
    parts: int

    def of(self, alias: str) -> str:
        """Return SQL for the join that keeps only groups with a section."""
        return f"JOIN {GROUPS} g ON g.group_id = {alias}.group_id AND g.place <= {self.parts}"

    def holds(self, at: str) -> str:
        """Return the SQL condition that the time is on the axis."""
        return (
            f"{at} >= timestamp_millis({self.from_ms}) AND"
            f" {at} <= timestamp_millis({self.until_ms})"
        )

    def column(self, at: str) -> str:
        """Return SQL for the number of the column that has the time ``at``."""
        ms = f"(unix_millis({at}) - {self.from_ms})"
        return f"CAST(floor({ms} / {self.column_ms}) AS INT)"

    def column_of_end(self, at: str) -> str:
        """Return SQL for the number of the column that has the minute before the time ``at``."""
        ms = f"(unix_millis({at}) - {self.from_ms} - 1)"
        return f"greatest(CAST(floor({ms} / {self.column_ms}) AS INT), 0)"
