"""Selects a part of a history with SQL: some groups and partitions, up to a time.

Damaged records, records of unknown kinds and transaction markers belong to no group. They are
always selected, so a selection neither hides damage nor changes the outcome of a transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pipeline.engines.dialect import Dialect
from pipeline.model.events import DAMAGED, MARKER, TORN, UNKNOWN
from pipeline.names import where_named
from pipeline.run.as_of import Span

WRITTEN = "coalesce(written_at, commit_at)"
"""SQL: the time when an event was appended to the log. Logs of the oldest message format have only
the commit timestamp."""


@dataclass(frozen=True)
class Selection:
    """The requested part of a history. A field that is None does not restrict the selection."""

    groups: Sequence[str] | None = None
    """Group names, or patterns with ``*``."""
    partitions: Sequence[int] | None = None
    """Partition numbers of `__consumer_offsets`."""
    span: Span = field(default_factory=Span)
    """The time span. Records at or after its `until_ms`, and records after its `as_of_ms`, are left
    out."""

    def events(self, d: Dialect, history: str) -> str:
        """Returns SQL for the selected rows of the relation ``history``, with the columns of
        EVENTS. Rows without a time are always selected."""
        conditions = []
        if self.partitions is not None:
            conditions.append(f"log_partition IN ({', '.join(map(str, self.partitions))})")
        if self.groups is not None:
            nobody = ", ".join(d.text(kind) for kind in (DAMAGED, TORN, UNKNOWN, MARKER))
            conditions.append(f"(kind IN ({nobody}) OR {where_named(d, self.groups)})")
        for sign, ms in (("<", self.span.until_ms), ("<=", self.span.as_of_ms)):
            if ms is not None:
                conditions.append(f"coalesce({WRITTEN} {sign} timestamp_millis({ms}), true)")
        where = " AND ".join(conditions) or "true"
        return f"SELECT * FROM {history} WHERE {where}"
