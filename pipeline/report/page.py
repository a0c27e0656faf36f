"""Makes the report as one HTML file, which contains no scripts and loads nothing over the network.

The content security policy of the page forbids scripts and all loading. Any client can choose the
names of groups, topics, clients and hosts, so the page escapes them.
"""

from __future__ import annotations

from collections.abc import Collection

from pipeline.engines.engine import Engine
from pipeline.report.facts import Facts, Row, collect
from pipeline.report.head import Head, Thresholds
from pipeline.report.labels import age, counted, duration, moment, name_of, safe, whole
from pipeline.report.parts import group_id, part_of
from pipeline.report.plots import Axis
from pipeline.report.states import DROWNING, NOBODY, OUT_OF_RANGE, STATES, STUCK
from pipeline.report.style import STYLE
from pipeline.times import instant

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_NAMED = 8
"""The maximum number of groups that the head of the report names."""


def make_report(engine: Engine, there: Collection[str], head: Head, made_ms: int) -> str:
    """Makes the report from an engine's tables. ``there`` contains the names of the existing
    tables."""
    return page(collect(engine, there, head), head, made_ms)


def page(facts: Facts, head: Head, made_ms: int) -> str:
    axis = Axis(facts.window)
    title = f"Offsets of {safe(head.source)}"
    parts = "".join(part_of(part, axis, head.thresholds) for part in facts.parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{title}</title>'
        f"<style>{STYLE}</style></head><body>{_head(facts, head)}"
        f"<main>{_list(facts, head.thresholds)}{parts}</main>"
        f"<footer>Made by muster pipeline at {instant(made_ms)}. Times are UTC.</footer>"
        "</body></html>\n"
    )


def _head(facts: Facts, head: Head) -> str:
    span = (
        "no commits and no groups"
        if facts.began_ms is None or facts.ended_ms is None
        else f"{instant(facts.began_ms)} to {instant(facts.ended_ms)},"
        f" {duration((facts.ended_ms - facts.began_ms) / 1000)}"
    )
    facts_listed = [
        ("source", head.source),
        *([("cluster", head.cluster_id)] if head.cluster_id else []),
        ("as of", "not known" if facts.as_of_ms is None else instant(facts.as_of_ms)),
        ("history", span),
        ("engine", head.engine),
    ]
    listed = "".join(
        f"<div><dt>{name}</dt><dd><bdi>{safe(value)}</bdi></dd></div>"
        for name, value in facts_listed
    )
    return (
        f"<header><h1>Offsets of <bdi>{safe(head.source)}</bdi></h1>"
        f'<dl class="facts">{listed}</dl>{_not_known(facts)}{_figures(facts)}'
        f"{_above(facts, head.thresholds)}</header>"
    )


def _not_known(facts: Facts) -> str:
    said = []
    if facts.unknown:
        said.append(
            f"{counted(facts.unknown, 'record')} of the history could not be decoded:"
            " the changes that these records made to groups are not known"
        )
    if facts.torn:
        said.append(
            f"{counted(facts.torn, 'log')} ended in the middle of a batch: see table quarantine in"
            " the folder of this report"
        )
    if facts.damaged:
        said.append(
            f"{counted(facts.damaged, 'part')} of the history could not be read: see table"
            " quarantine in the folder of this report"
        )
    return "".join(f'<p class="warn">{safe(sentence)}.</p>' for sentence in said)


def _figures(facts: Facts) -> str:
    totals = facts.totals
    cards = [
        ("groups", totals["all_groups"], False),
        *[
            (state.name, facts.states.get(state.name, 0), True)
            for state in (DROWNING, STUCK, NOBODY)
        ],
        ("above a threshold", totals["all_above"], True),
        ("commits", totals["commits"], False),
        ("rebalances", totals["rebalances"], False),
        ("rewinds", totals["rewinds"], False),
    ]
    if beyond := facts.states.get(OUT_OF_RANGE.name):
        cards.insert(3, (OUT_OF_RANGE.name, beyond, True))
    if totals["expired"]:
        cards.append(("offsets expired", totals["expired"], False))
    if any(totals[f"tx_{outcome}"] for outcome in ("committed", "aborted", "open")):
        cards += [
            ("commits in transactions", totals["tx_committed"], False),
            ("aborted", totals["tx_aborted"], False),
            ("open", totals["tx_open"], False),
        ]
    listed = "".join(
        f"<li{' class=bad' if bad and value else ''}><b>{whole(value)}</b>{safe(label)}</li>"
        for label, value, bad in cards
    )
    return f'<ul class="figures">{listed}</ul>'


def _above(facts: Facts, limits: Thresholds) -> str:
    named = [f"{duration(limits.lag_s)} (oldest unread record)"]
    if limits.lag_records is not None:
        named.append(f"{whole(limits.lag_records)} unread records")
    words = " or ".join(named)
    many = facts.totals["all_above"]
    if not many:
        return f'<p class="above">No group is above the lag threshold of {words}.</p>'
    shown = [row for row in facts.groups if row["above"]][:_NAMED]
    since = {part.place: _since(row, facts) for part in facts.parts for row in part.since}
    lines = [
        f"{_name(row, facts)} <b>{_age(row)}</b> {whole(row['lag_records'])} unread"
        f"{since.get(row['place'], '')}"
        for row in shown
    ]
    if many > len(shown):
        lines.append(f"and {many - len(shown):,} more")
    listed = "".join(f"<li>{line}</li>" for line in lines)
    head = f'<p class="above">Groups above the lag threshold of {words}:</p>'
    return f'{head}<ul class="above">{listed}</ul>'


def _since(row: Row, facts: Facts) -> str:
    """Returns text that says since when the group has had unread records, if this is known, and
    since when its lag has been above the threshold."""
    ms, above = row["unread_ms"], moment(row["ms"], facts.as_of_ms)
    unread = "" if ms is None else f" since {moment(ms, facts.as_of_ms)}"
    if unread and row["is_least"]:
        unread += " or earlier"
    earlier = " or earlier" if row["crossed_at_least"] else ""
    return f"{unread}, above the threshold since {above}{earlier}"


def _age(row: Row) -> str:
    return age(row["lag_s"], is_least=row["lag_is_least"])


def _list(facts: Facts, limits: Thresholds) -> str:
    if not facts.groups:
        return (
            '<section id="groups"><h2>Groups</h2><p class="nothing">The history has no'
            " commits and no groups.</p></section>"
        )
    columns = ["group", "state", "unread#", "oldest#", "members#", "rebalances#", "rewinds#",
               "commits#", "in transactions"]  # fmt: skip
    head = "".join(
        f"<th{' class=n' if name.endswith('#') else ''}>{name.rstrip('#')}</th>" for name in columns
    )
    rows = "".join(_row(row, facts, limits) for row in facts.groups)
    notes = (
        [
            f"Only the first {len(facts.parts):,} of {facts.totals['all_groups']:,} groups have"
            " plots below."
        ]
        if facts.totals["all_groups"] > len(facts.parts)
        else []
    )
    if facts.totals["all_groups"] > len(facts.groups):
        notes.append(
            f"Only the first {len(facts.groups):,} groups are listed; the tables have all groups."
        )
    cut = f'<p class="cut">{" ".join(notes)}</p>' if notes else ""
    meanings = "".join(
        f"<div><dt>{state.name}</dt><dd>{state.meaning}</dd></div>"
        for state in STATES.values()
        if facts.states.get(state.name)
    )
    return (
        f'<section id="groups"><h2>Groups, worst first</h2><dl class="meanings">{meanings}</dl>'
        f'{cut}<table class="groups"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
        "</section>"
    )


def _name(row: Row, facts: Facts) -> str:
    name = name_of(row["group_id"])
    if row["place"] > len(facts.parts):
        return name
    return f'<a href="#{group_id(row["place"])}">{name}</a>'


def _row(row: Row, facts: Facts, limits: Thresholds) -> str:
    state = STATES[row["state"]]
    transactions = ", ".join(
        f"{whole(row[f'tx_{outcome}'])} {outcome}"
        for outcome in ("committed", "aborted", "open", "superseded")
        if row[f"tx_{outcome}"]
    )
    over_s = row["above"] and row["lag_s"] is not None and row["lag_s"] > limits.lag_s
    over = (
        row["above"]
        and limits.lag_records is not None
        and row["lag_records"] is not None
        and row["lag_records"] > limits.lag_records
    )
    cells = [
        ("state", "", f'<span class="state{" bad" if state.bad else ""}">{state.name}</span>'),
        ("unread", "n over" if over else "n", whole(row["lag_records"])),
        ("oldest", "n over" if over_s else "n", _age(row)),
        ("members", "n", whole(row["members"]) if row["understood"] else "not known"),
        ("rebalances", "n", whole(row["rebalances"])),
        ("rewinds", "n", whole(row["rewinds"])),
        ("commits", "n", whole(row["commits"])),
        ("in transactions", "", transactions or "-"),
    ]
    return (
        f'<tr><th scope="row">{_name(row, facts)}</th>'
        + "".join(
            f'<td class="{kind}" data-label="{name}">{cell}</td>' for name, kind, cell in cells
        )
        + "</tr>"
    )
