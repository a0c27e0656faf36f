"""A part of a history: some groups, up to a time. As SQL, over what was read.

What could not be read, is of no known kind, or ends a transaction belongs to no group and stays in,
so that a selection hides no damage and changes no outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pipeline.engines.dialect import Dialect
from pipeline.model.events import DAMAGED, MARKER, TORN, UNKNOWN
from pipeline.names import where_named
from pipeline.run.as_of import Span

WRITTEN = "coalesce(written_at, commit_at)"
"""When an event reached the log; logs of the oldest format have only the commit's own time."""


@dataclass(frozen=True)
class Selection:
    """What of a history is wanted; None is all of it."""

    groups: Sequence[str] | None = None
    """Names, or patterns with ``*``."""
    partitions: Sequence[int] | None = None
    """Of `__consumer_offsets`."""
    span: Span = field(default_factory=Span)
    """Nothing from its `until_ms` on is read, and nothing after its `as_of_ms`."""

    def events(self, d: Dialect, history: str) -> str:
        """The relation ``history``, of EVENTS, to the selected rows. What has no time stays."""
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
