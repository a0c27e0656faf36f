"""The time axis of a report, as SQL that every engine runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

GROUPS: Final = "report_groups"
"""A row for each group; `queries.groups` makes it."""


@dataclass(frozen=True)
class Window:
    """The time axis, in so many columns, for so many groups."""

    from_ms: int
    until_ms: int
    column_ms: int
    parts: int

    def of(self, alias: str) -> str:
        """As SQL: the join that leaves the groups that have a part."""
        return f"JOIN {GROUPS} g ON g.group_id = {alias}.group_id AND g.place <= {self.parts}"

    def holds(self, at: str) -> str:
        """As SQL: whether a time is on the axis."""
        return (
            f"{at} >= timestamp_millis({self.from_ms}) AND"
            f" {at} <= timestamp_millis({self.until_ms})"
        )

    def column(self, at: str) -> str:
        """As SQL: the column of a time on the axis."""
        ms = f"(unix_millis({at}) - {self.from_ms})"
        return f"CAST(floor({ms} / {self.column_ms}) AS INT)"

    def column_of_end(self, at: str) -> str:
        """As SQL: the same of a time that ends a minute."""
        ms = f"(unix_millis({at}) - {self.from_ms} - 1)"
        return f"greatest(CAST(floor({ms} / {self.column_ms}) AS INT), 0)"
