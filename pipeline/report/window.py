"""The time axis of a report, with SQL for every engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

GROUPS: Final = "report_groups"
"""The relation with a row for each group. The query `queries.groups` defines it."""


@dataclass(frozen=True)
class Window:
    """The time axis of a report, divided into columns of ``column_ms``.

    ``parts`` is the number of groups that have their own section in the report. These are the
    groups with the worst states.
    """

    from_ms: int
    until_ms: int
    column_ms: int
    parts: int

    def of(self, alias: str) -> str:
        """Returns the SQL of a join with the relation `GROUPS`. The join keeps those rows of the
        table ``alias`` whose group has a section in the report."""
        return f"JOIN {GROUPS} g ON g.group_id = {alias}.group_id AND g.place <= {self.parts}"

    def holds(self, at: str) -> str:
        """Returns the SQL condition that the time ``at`` is within the time axis of the report's
        charts."""
        return (
            f"{at} >= timestamp_millis({self.from_ms}) AND"
            f" {at} <= timestamp_millis({self.until_ms})"
        )

    def column(self, at: str) -> str:
        """Returns SQL for the number of the time step (a column of the report's charts) that
        contains the time ``at``."""
        ms = f"(unix_millis({at}) - {self.from_ms})"
        return f"CAST(floor({ms} / {self.column_ms}) AS INT)"

    def column_of_end(self, at: str) -> str:
        """Returns SQL for the number of a column of the time axis. The column contains the time
        ``at``, which is the end of a minute. If this time is the border of two columns, the earlier
        one is meant."""
        ms = f"(unix_millis({at}) - {self.from_ms} - 1)"
        return f"greatest(CAST(floor({ms} / {self.column_ms}) AS INT), 0)"
