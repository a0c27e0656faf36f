"""Selects a part of a history, some groups up to a time, as SQL over the records read.

Damaged and unknown records and transaction markers belong to no group and stay in, so a selection
hides no damage and changes no outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pipeline.engines.dialect import Dialect
from pipeline.model.events import DAMAGED, MARKER, TORN, UNKNOWN
from pipeline.names import where_named
from pipeline.run.as_of import Span

WRITTEN = "coalesce(written_at, commit_at)"
"""The time when an event reached the log; logs of the oldest format have only the commit's own."""


@dataclass(frozen=True)
class Selection:
    """The wanted part of a history; None for all."""

    groups: Sequence[str] | None = None
    """Names, or patterns with ``*``."""
    partitions: Sequence[int] | None = None
    """Partitions of `__consumer_offsets`."""
    span: Span = field(default_factory=Span)
    """Records at or after its `until_ms`, or after its `as_of_ms`, are not read."""

    def events(self, d: Dialect, history: str) -> str:
        """The selected rows of relation ``history``, with columns of EVENTS. Rows without a time
        stay.
        """
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
