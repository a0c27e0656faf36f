"""The report as one HTML file, which opens without a network: style, script and plots are in it.

Its policy lets nothing be loaded and no script run but its own; names of groups, topics, clients
and hosts are anybody's, and stand in it as text.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from datetime import datetime

from pipeline.report.facts import Facts, Shown, Tables, collect
from pipeline.report.plots import heat, lines, timeline
from pipeline.report.style import SCRIPT, STYLE
from pipeline.report.svg import Span, duration, number, safe
from pipeline.times import instant


def make_report(tables: Tables, source: str, now: datetime) -> str:
    """The report of the tables that a run of `all` has made from ``source``."""
    return page(collect(tables), source, now)


def page(facts: Facts, source: str, now: datetime) -> str:
    """HTML of what was collected."""
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    policy = (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline';"
        f" script-src 'sha256-{digest}'"
    )
    body = "".join(
        [
            _head(facts, source),
            _lag(facts),
            _rebalances(facts),
            _commits(facts),
            _movers(facts),
        ]
    )
    made = f"Made by muster pipeline at {now:%Y-%m-%dT%H:%M:%SZ}. Times are UTC."
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>Offsets of {safe(source)}</title>'
        f"<style>{STYLE}</style></head><body>{body}<footer>{safe(made)}</footer>"
        f'<div id="tip" hidden></div><script>{SCRIPT}</script></body></html>\n'
    )


def _head(facts: Facts, source: str) -> str:
    count = facts.counts
    cards = [
        ("groups", count["groups"], False),
        ("commits", count["commits"], False),
        ("generations", count["generations"], False),
        ("rewinds", count["rewinds"], False),
        ("will never catch up", count["never"], count["never"] > 0),
        ("offsets expired", count["expired"], False),
        ("dead groups", count["dead"], False),
    ]
    when = (
        "The history has neither commits nor groups."
        if facts.began_ms is None
        else f"From {instant(facts.began_ms)} to {instant(facts.ended_ms)}, "
        f"{duration(((facts.ended_ms or 0) - facts.began_ms) / 1000)}."
    )
    listed = "".join(
        f"<li{' class=bad' if bad else ''}><b>{number(value)}</b>{safe(label)}</li>"
        for label, value, bad in cards
    )
    return (
        f"<header><h1>Offsets of <bdi>{safe(source)}</bdi></h1>"
        f'<p class="sub">{safe(when)}</p></header><ul class="figures">{listed}</ul>'
    )


def _lag(facts: Facts) -> str:
    groups = {name: line for name, line in facts.lag.items() if line}
    if not groups:
        return _section(
            "Lag over time", "", _nothing("No lag is known: no topic's records were read.")
        )
    records = lines(
        "Lag in records over time",
        {name: [(ms, float(many)) for ms, many, _ in line] for name, line in groups.items()},
    )
    aged = {
        name: [(ms, seconds) for ms, _, seconds in line if seconds is not None]
        for name, line in groups.items()
    }
    aged = {name: line for name, line in aged.items() if line}
    ages = (
        '<p class="note">The same in time: how old the oldest unread record is.</p>'
        + lines("Age of the oldest unread record over time", aged, seconds=True)
        if aged
        else _nothing("The times of unread records are not known.")
    )
    return _section(
        "Lag over time",
        "Records that a group has not read, over all its partitions.",
        records + ages + _cut(facts.lag_shown, "farthest behind"),
    )


def _rebalances(facts: Facts) -> str:
    if not facts.bars:
        return _section("Rebalances", "", _nothing("No group has had members."))
    ended = max([facts.ended_ms or 0, *[bar.ended_ms or bar.began_ms for bar in facts.bars]])
    span = Span(min(bar.began_ms for bar in facts.bars), ended)
    return _section(
        "Rebalances",
        "Each bar is a generation, darker with more members, pale when the group was empty."
        " Point at one to see why it came about.",
        timeline(facts.bars, facts.bars_shown.groups, span)
        + _cut(facts.bars_shown, "with most generations"),
    )


def _commits(facts: Facts) -> str:
    if not facts.heat:
        return _section("Commits", "", _nothing("Nothing was committed."))
    return _section(
        "Commits",
        f"Commits of each group in each {duration(facts.heat_column_ms / 1000)}.",
        heat(facts.heat, facts.heat_shown.groups, facts.heat_began_ms, facts.heat_column_ms)
        + _cut(facts.heat_shown, "with most commits"),
    )


def _movers(facts: Facts) -> str:
    tables = (_rewound, _behind, _churned, _restless, _expiring)
    return _section(
        "Top movers",
        "",
        f'<div class="tables">{"".join(table(facts) for table in tables)}</div>',
    )


def _rewound(facts: Facts) -> str:
    rows = [
        [
            row.group_id,
            f"{row.topic}:{row.partition}",
            instant(row["at"]),
            f"{row.previous_offset:,}",
            f"{row.committed_offset:,}",
            "-" if row.rewound_records is None else f"{row.rewound_records:,}",
            f"{row.owner.client_id} at {row.owner.client_host}"
            if row.owner
            else "no member of the group",
        ]
        for row in facts.rewinds
    ]
    return _table(
        "Went backwards, farthest first",
        ["group", "partition", "when", "from#", "to#", "records#", "by"],
        rows,
        "No commit went backwards.",
        facts.counts["rewinds"],
    )


def _behind(facts: Facts) -> str:
    rows = [
        [
            row.group_id,
            f"{row.topic}:{row.partition}",
            row.verdict,
            f"{row.lag_records:,}",
            duration(row.lag_s),
            f"{row.consumed_per_s:,.1f}",
            f"{row.produced_per_s:,.1f}",
        ]
        for row in facts.behind
    ]
    return _table(
        "Will never catch up at the present rates",
        ["group", "partition", "verdict", "records#", "oldest#", "reads/s#", "written/s#"],
        rows,
        "Every group whose lag is known keeps up.",
        facts.counts["never"],
    )


def _churned(facts: Facts) -> str:
    rows = [
        [
            row.group_id,
            f"{row.rebalances:,}",
            "-" if row.rebalances_per_hour is None else f"{row.rebalances_per_hour:,.1f}",
            f"{row.members_joined:,}",
            f"{row.members_left:,}",
            duration(row.median_generation_s),
        ]
        for row in facts.churn
    ]
    return _table(
        "Most rebalances",
        ["group", "rebalances#", "an hour#", "joined#", "left#", "a generation lasts#"],
        rows,
        "No group has rebalanced.",
    )


def _restless(facts: Facts) -> str:
    rows = [
        [
            row.group_id,
            row.group_instance_id or row.client_id,
            row.client_host,
            f"{row.rebalances:,}",
            f"{row.joins:,}",
            f"{row.leaves:,}",
        ]
        for row in facts.restless
    ]
    return _table(
        "Members who cause most of them",
        ["group", "client", "host", "rebalances#", "joined#", "left#"],
        rows,
        "Nobody joined or left.",
    )


def _expiring(facts: Facts) -> str:
    rows = [
        [row.group_id, instant(row.expires_ms), f"{row.offsets:,}", f"{row.expired:,}", row.rule]
        for row in facts.expiring
    ]
    return _table(
        "Offsets that expire next",
        ["group", "when", "offsets#", "expired already#", "because"],
        rows,
        "No offset will expire while its group stays what it is.",
    )


def _table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    nothing: str,
    of: int | None = None,
) -> str:
    """A column whose name ends in # holds numbers."""
    if not rows:
        return f"<div><h3>{safe(title)}</h3>{_nothing(nothing)}</div>"
    classes = [' class="n"' if name.endswith("#") else "" for name in columns]
    head = "".join(
        f"<th{kind}>{safe(name.rstrip('#'))}</th>"
        for name, kind in zip(columns, classes, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{kind}><bdi>{safe(cell)}</bdi></td>"
            for cell, kind in zip(row, classes, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    cut = f'<p class="cut">{len(rows)} of {of:,}.</p>' if of and of > len(rows) else ""
    return (
        f'<div><h3>{safe(title)}</h3><div class="scroll" tabindex="0"><table><thead><tr>{head}</tr>'
        f"</thead><tbody>{body}</tbody></table></div>{cut}</div>"
    )


def _section(title: str, note: str, inner: str) -> str:
    paragraph = f'<p class="note">{safe(note)}</p>' if note else ""
    return f"<section><h2>{safe(title)}</h2>{paragraph}{inner}</section>"


def _nothing(sentence: str) -> str:
    return f'<p class="nothing">{safe(sentence)}</p>'


def _cut(shown: Shown, which: str) -> str:
    if shown.of <= len(shown.groups):
        return ""
    return f'<p class="cut">{len(shown.groups)} of {shown.of:,} groups: those {safe(which)}.</p>'
