"""`muster pipeline compare`: compares the activity of groups in two time windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from cli import output
from cli.client.security import security_of
from cli.layout import Column, shortened
from cli.pipeline.engine import Conf, EngineName, Master, Verbose, means_of, running
from cli.pipeline.extra import LIGHT, needs, sentences
from cli.pipeline.options import takes
from cli.pipeline.source import saying
from cli.times import instant
from pipeline.run.options import COMPARE_OPTIONS, Given

if TYPE_CHECKING:
    from pipeline.run.compare import Compared, Comparison, Window

_SHOWN = {
    "commits": "commits",
    "read_records": "records read",
    "read_per_s": "read per s",
    "rewinds": "rewinds",
    "rebalances": "rebalances",
    "most_lag_records": "most lag",
    "most_lag_s": "oldest unread s",
}
"""The compared figures, each with its header in the table."""
_NAMED = 5
_NAME_WIDTH = 60
"""The maximum length of a name in a warning; JSON contains the whole name."""
_SAME = 0.005
"""The relative difference (half a percent) up to which two figures are shown as equal."""


@takes(COMPARE_OPTIONS)
def compare(
    given: Given,
    engine: EngineName = None,
    master: Master = None,
    conf: Conf = None,
    verbose: Verbose = False,
) -> None:
    """Compare each group's activity in two windows of time, and show new and gone groups.

    A window is FROM/TO or FROM/1h, as in --first 2026-01-30T12:00Z/1h --second 2026-01-31T12:00Z/1h
    """
    needs(*LIGHT)
    with sentences():
        from pipeline.run.compare import compare as compared
        from pipeline.run.job_options import comparison_options
        from pipeline.sources.open import open_source

        wanted = comparison_options(given)
        source = open_source(wanted.source, security_of(wanted.settings), wanted.timeout_s)
        records = source.records_estimate()
    means = means_of(engine, master, conf, verbose)
    with running(means, records, wanted.source) as (chosen, bars), saying(source):

        def look_at(nth: int) -> None:
            bars.step(("first window", "second window")[nth], nth, 2)

        found = compared(chosen, source, wanted.question, look_at)
    _warn(found)
    if wanted.json:
        output.show_json(_as_json(found))
        return
    names = [Column("group"), *([Column("topic")] if wanted.question.by_topic else [])]
    columns = [*names, *(Column(name, title) for name, title in _SHOWN.items()), Column("news")]
    rows = [_row(each) for each in found.rows]
    output.show_table(rows, columns, "No groups in either window", _title(found))


def _title(found: Comparison) -> str:
    moved = f", {found.moved_bytes:,} bytes fetched" if found.moved_bytes else ""
    windows = f"first {_span(found.first)}, second {_span(found.second)}"
    return f"compare: {windows}; {found.engine}{moved}"


def _span(window: Window) -> str:
    return " to ".join(instant(ms, to_the_ms=True) for ms in (window.since_ms, window.until_ms))


def _warn(found: Comparison) -> None:
    """Prints warnings: for groups that occur in only one of the two windows, and for a window whose
    start is before the first record of the history."""
    begins_ms = found.begins_ms
    for word, window in (("first", found.first), ("second", found.second)):
        if begins_ms is not None and window.since_ms < begins_ms:
            output.warn(
                f"the {word} window begins before the history, which begins at"
                f" {instant(begins_ms, to_the_ms=True)}"
            )
    for news, word in (("new", "second"), ("gone", "first")):
        named = [_name(each) for each in found.rows if each.news == news]
        if named:
            output.warn(f"groups only in the {word} window: {_listed(named)}")


def _name(each: Compared) -> str:
    return each.group_id if each.topic is None else f"{each.group_id} in {each.topic}"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(shortened(name, _NAME_WIDTH) for name in names[:_NAMED]) + more


def _row(each: Compared) -> output.Row:
    pairs = {
        name: _pair(
            None if each.first is None else each.first[name],
            None if each.second is None else each.second[name],
        )
        for name in _SHOWN
    }
    return {"group": each.group_id, "topic": each.topic, **pairs, "news": each.news}


def _pair(first: float | None, second: float | None) -> str | None:
    """Returns two figures as text, such as ``1,200 > 900 (-25%)``; one number if they are equal."""
    if first is None and second is None:
        return None
    if first == second:
        return _number(first)
    change = ""
    if first and second is not None and abs(second - first) / abs(first) >= _SAME:
        change = f" ({(second - first) / abs(first):+.0%})"
    return f"{_number(first)} > {_number(second)}{change}"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"


def _as_json(found: Comparison) -> output.Row:
    whole = asdict(found)
    whole["rows"] = [
        {**row, "change": each.change, "news": each.news}
        for row, each in zip(whole["rows"], found.rows, strict=True)
    ]
    return whole
