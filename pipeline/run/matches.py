"""Rejects a selection that matches nothing, so that a mistake in the selection does not look like
an empty result.

If the selection names neither groups nor partitions, a history without records is accepted, and its
tables are empty.
"""

from __future__ import annotations

from typing import Any, Final

from pipeline.engines.engine import Engine
from pipeline.errors import PipelineError
from pipeline.names import where_named
from pipeline.run.as_of import Span
from pipeline.run.selection import WRITTEN, Selection
from pipeline.sources.segment_files import OFFSETS_TOPIC
from pipeline.times import instant

_MS: Final = f"unix_millis({WRITTEN})"


def check_matches(
    engine: Engine,
    where: str,
    history: str,
    selection: Selection,
    *,
    each_group: bool,
    may_be_empty: bool,
) -> None:
    """Raises PipelineError if the history ``history`` has no record that ``selection`` selects, or
    no record for one of the group names and patterns in ``selection``.

    If ``each_group`` is False, it is enough that a group has a record outside the time span,
    because the selection is then only one of two windows that are compared. If ``may_be_empty`` is
    True, the selected partitions may have no records, because the source has already checked that
    these partitions exist.
    """
    span, groups = selection.span, selection.groups or ()
    if not groups and selection.partitions is None and _end(span) is None:
        return
    found = _found(engine, history, selection)
    if selection.partitions is not None and not (found["records"] or may_be_empty):
        numbers = ", ".join(map(str, selection.partitions))
        raise PipelineError(
            f"{where} has no record of partition {numbers} of {OFFSETS_TOPIC}: choose other"
            " partitions with --partitions"
        )
    absent = [name for nth, name in enumerate(groups) if not found[f"records_{nth}"]]
    if absent:
        raise PipelineError(
            f"{where} has no group {', '.join(absent)}: --group accepts names, and patterns with *;"
            " `muster pipeline churn` without --group lists the groups"
        )
    _check_time(where, span, "the history", found["begins_ms"])
    for nth, name in enumerate(groups if each_group else ()):
        _check_time(where, span, f"group {name}", found[f"begins_ms_{nth}"])


def _found(engine: Engine, history: str, selection: Selection) -> dict[str, Any]:
    """Returns one row with the number of records and the time of the first record: for all groups
    together, and for each group name or pattern of ``selection``."""
    columns = ["count(*) AS records", f"min({_MS}) AS begins_ms"]
    for nth, name in enumerate(selection.groups or ()):
        named = where_named(engine.dialect, [name])
        columns.append(f"count(CASE WHEN {named} THEN 1 END) AS records_{nth}")
        columns.append(f"min(CASE WHEN {named} THEN {_MS} END) AS begins_ms_{nth}")
    where = "true"
    if selection.partitions is not None:
        where = f"log_partition IN ({', '.join(map(str, selection.partitions))})"
    [found] = engine.ask(f"SELECT {', '.join(columns)} FROM {history} WHERE {where}")
    return found


def _end(span: Span) -> int | None:
    """Returns the last selected millisecond; None if the span has no end."""
    ends = [] if span.until_ms is None else [span.until_ms - 1]
    ends += [] if span.as_of_ms is None else [span.as_of_ms]
    return min(ends, default=None)


def _check_time(where: str, span: Span, what: str, begins_ms: int | None) -> None:
    """Raises PipelineError if a group, or the history, begins after the end of the selected time
    range ``span``. ``what`` is its name in the error message."""
    end_ms = _end(span)
    if end_ms is None or begins_ms is None or begins_ms <= end_ms:
        return
    is_until = span.until_ms is not None and end_ms == span.until_ms - 1
    word, asked_ms = ("before", span.until_ms) if is_until else ("up to", span.as_of_ms)
    raise PipelineError(
        f"{where} has no records {word} {instant(asked_ms)}: {what} begins at"
        f" {instant(begins_ms)}; choose a later time"
    )
