"""Makes the section of one group: its plots, generations, rewinds, partitions and members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pipeline.report.facts import Part, Row
from pipeline.report.head import Thresholds
from pipeline.report.labels import age, counted, duration, name_of, ranges, safe, whole
from pipeline.report.plots import Axis, plots
from pipeline.report.states import DEAD, DELETED, EMPTY, NOBODY, STATES
from pipeline.times import instant

_SAYS_WHO: Final = (NOBODY, EMPTY, DEAD, DELETED)
"""The states of a group without members. The report has a sentence about each of these states, so
it does not also print the number of members."""


def group_id(place: int) -> str:
    return f"g{place}"


def part_of(part: Part, axis: Axis, limits: Thresholds) -> str:
    group = part.group
    state = STATES[group["state"]]
    bad = " bad" if state.bad else ""
    held = _Holders(part)
    inner = "".join(
        [
            f'<p class="said"><b class="state{bad}">{state.name}</b> {safe(_said(group))}</p>',
            plots(part, axis, limits, held.at),
            _partitions(part),
            _rewinds(part, held),
            held.listed(),
            _moves(part, held),
            _restless(part),
            _transactions(group),
            _expiring(group),
        ]
    )
    return (
        f'<section id="{group_id(part.place)}" class="part">'
        f'<h2><a href="#{group_id(part.place)}">{name_of(group["group_id"])}</a></h2>'
        f'{inner}<p class="up"><a href="#groups">All groups</a></p></section>'
    )


def _said(group: Row) -> str:
    """Returns the sentence that explains the group's state."""
    state = STATES[group["state"]]
    if not group["understood"]:
        who = "; the members are not known: some records of the group could not be decoded"
    elif state in _SAYS_WHO:
        who = ""
    elif group["members"] is not None:
        who = f"; {counted(group['members'], 'member')}"
    elif group["seen"]:
        who = "; no members: clients commit offsets without joining the group"
    else:
        who = "; the history does not show the members of the group"
    if group["group_type"] is not None:
        who += f"; a {group['group_type']} group"
    unread = group["lag_records"]
    waits = f"; {counted(unread, 'record')} unread" if unread is not None else ""
    lost = group["lost_records"]
    gone = f"; {counted(lost, 'record')} deleted before the group read them" if lost else ""
    return f"{state.meaning}{who}{waits}{gone}."


class _Holders:
    """The generations that a group's section lists, with a lookup of the generation that was
    current at a given time."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self._earlier = f"{group_id(part.place)}-earlier"

    def at(self, ms: int) -> str | None:
        """Returns the HTML id of the generation that was current at the time ``ms``; None if the
        history has no such generation."""
        for row in self.part.generations:
            ended = row["ended_ms"]
            began = row["began_ms"]
            if began is not None and began <= ms and (ended is None or ms < ended):
                return self._id(row)
        for row in self.part.earlier:
            if row["began_ms"] <= ms < (row["ended_ms"] or ms + 1):
                return self._earlier
        return None

    def link(self, ms: int) -> str:
        """Returns an HTML link to the generation that was current at the time ``ms``; "-" if the
        history has no such generation."""
        found = self.at(ms)
        if found is None:
            return "-"
        if found == self._earlier:
            return f'<a href="#{found}">an earlier generation</a>'
        row = next(row for row in self.part.generations if self._id(row) == found)
        return f'<a href="#{found}">generation {row["generation"]}</a>'

    def listed(self) -> str:
        """Returns HTML: the list of the group's generations, the latest first. If the user selects
        a generation in the report, its line shows the members of this generation."""
        if not self.part.generations:
            return ""
        lines = "".join(self._generation(row) for row in self.part.generations)
        for row in self.part.earlier:
            ended = f" to {instant(row['ended_ms'])}" if row["ended_ms"] is not None else ""
            lines += (
                f'<li id="{self._earlier}">{counted(row["generations"], "earlier generation")},'
                f" {instant(row['began_ms'])}{ended}: see table <code>generations</code></li>"
            )
        return (
            "<h3>Generations</h3>"
            '<p class="note">Latest first. Select a generation to see its members and their'
            f' partitions.</p><ol class="gens">{lines}</ol>'
        )

    def _id(self, row: Row) -> str:
        return f"{group_id(self.part.place)}-{row['nth']}"

    def _generation(self, row: Row) -> str:
        lasted = "current" if row["ended_ms"] is None else f"for {duration(row['duration_s'])}"
        head = (
            f"<b>generation {row['generation']}</b> {instant(row['began_ms'])}, {lasted}:"
            f" {safe(row['change'])}, {counted(row['member_count'] or 0, 'member')}"
        )
        changes = [
            f"{word}: {', '.join(map(str, names))}"
            + (f" and {count - len(names)} more" if count > len(names) else "")
            for word, names, count in (
                ("joined", row["joined"], row["joined_count"]),
                ("left", row["gone"], row["gone_count"]),
            )
            if names
        ]
        if row["moved_count"]:
            changes.append(f"{counted(row['moved_count'], 'partition')} moved")
        if row["protocol"]:
            changes.append(f"assignor {row['protocol']}")
        if not row["known"]:
            changes.append(
                "some records of this generation could not be decoded: the members may be wrong"
            )
        what = f"<p>{safe('; '.join(changes))}</p>" if changes else ""
        return (
            f'<li id="{self._id(row)}"><a href="#{self._id(row)}">{head}</a>'
            f'<div class="held">{what}{_members(row)}</div></li>'
        )


def _members(row: Row) -> str:
    rows = [
        [
            member["group_instance_id"] or member["client_id"],
            member["client_host"],
            _holding(member),
            member["member_id"],
        ]
        for member in row["members"] or ()
    ]
    if not rows:
        return '<p class="nothing">This generation had no members.</p>'
    return _table(["client", "host", "partitions", "member id"], rows, row["member_count"])


def _holding(member: Row) -> str:
    held = []
    for each in member["held"] or ():
        more = (
            f" and {each['size'] - len(each['partitions'])} more"
            if (each["size"] > len(each["partitions"]))
            else ""
        )
        held.append(f"{each['topic']}:{ranges(each['partitions'])}{more}")
    if (member["topics"] or 0) > len(held):
        held.append(f"{member['topics'] - len(held)} more topics")
    return " ".join(held) or "none"


def _partitions(part: Part) -> str:
    if not part.partitions:
        return ""
    rows = [
        [
            f"{row['topic']}:{row['partition']}",
            row["verdict"],
            whole(row["lag_records"]),
            age(row["lag_s"], is_least=row["lag_precision_s"] is None),
            _rate(row["consumed_per_s"]),
            _rate(row["produced_per_s"]),
            "never" if row["catch_up_s"] is None else duration(row["catch_up_s"]),
        ]
        for row in part.partitions
    ]
    columns = [
        "partition",
        "verdict",
        "unread#",
        "oldest#",
        "reads/s#",
        "written/s#",
        "caught up in#",
    ]
    return "<h3>Partitions with the most lag</h3>" + _table(columns, rows, part.partitions[0]["of"])


def _rewinds(part: Part, held: _Holders) -> str:
    if not part.rewinds:
        return ""
    rows = [
        [
            instant(row["ms"]),
            f"{row['topic']}:{row['partition']}",
            whole(row["previous_offset"]),
            whole(row["committed_offset"]),
            whole(row["rewound_records"]),
            _by(row, part.group["group_type"]),
            _Link(held.link(row["ms"])),
        ]
        for row in part.rewinds
    ]
    columns = ["when", "partition", "from#", "to#", "records#", "by", "generation"]
    return "<h3>Rewinds, latest first</h3>" + _table(columns, rows, part.group["rewinds"])


def _by(row: Row, group_type: str | None) -> str:
    if row["client_id"] is not None:
        return f"{row['client_id']} at {row['client_host']}"
    if not row["known"]:
        return "not known"
    if not row["peopled"]:
        return "a client outside the group"
    # The table has no owners of a streams group, which assigns tasks.
    return "not known" if group_type == "streams" else "no member owned the partition"


def _moves(part: Part, held: _Holders) -> str:
    if not part.moves:
        return ""
    rows = [
        [
            instant(row["ms"]),
            f"{row['topic']}:{row['partition']}",
            row["from_who"],
            row["to_who"],
            duration(row["revoking_s"]),
            duration(row["unowned_s"]),
            _Link(held.link(row["ms"])),
        ]
        for row in part.moves
    ]
    columns = ["when", "partition", "from", "to", "revoked in#", "without owner#", "generation"]
    return (
        '<h3>Partitions that moved, latest first</h3><p class="note">Tables <code>moves</code> and'
        " <code>assignments</code> have every move, and the epoch, state and partitions of each"
        " member.</p>" + _table(columns, rows, part.moves[0]["of"])
    )


def _restless(part: Part) -> str:
    if not part.restless:
        return ""
    group = part.group
    rows = [
        [
            row["group_instance_id"] or row["client_id"],
            row["client_host"],
            whole(row["rebalances"]),
            whole(row["joins"]),
            whole(row["leaves"]),
        ]
        for row in part.restless
    ]
    rate = group["rebalances_per_hour"]
    note = (
        f"{counted(group['rebalances'], 'rebalance')}"
        + (f", {rate:,.1f} an hour" if rate is not None else "")
        + f"; the median duration of a generation is {duration(group['median_generation_s'])};"
        f" {counted(group['partitions_moved'] or 0, 'partition')} moved."
    )
    return (
        f'<h3>Members that caused the most rebalances</h3><p class="note">{safe(note)}</p>'
        + _table(
            ["client", "host", "rebalances#", "joined#", "left#"], rows, part.restless[0]["of"]
        )
    )


def _transactions(group: Row) -> str:
    outcomes = [
        f"{whole(group[f'tx_{outcome}'])} {outcome}"
        for outcome in ("committed", "aborted", "open", "superseded")
        if group[f"tx_{outcome}"]
    ]
    if not outcomes:
        return ""
    return (
        "<h3>Commits in transactions</h3>"
        f'<p class="tx">{", ".join(outcomes)}. The number of commits does not include'
        " commits in aborted and open transactions.</p>"
    )


def _expiring(group: Row) -> str:
    if not group["expired"] and group["expires_ms"] is None:
        return ""
    said = []
    if group["expires_ms"] is not None:
        said.append(f"the next offset expires at {instant(group['expires_ms'])}")
    if group["expired"]:
        said.append(f"{counted(group['expired'], 'offset')} of {whole(group['offsets'])} expired")
    sentence = "; ".join(said)
    return f"<h3>Expiring offsets</h3><p>{sentence[0].upper()}{sentence[1:]}.</p>"


class _Link(str):
    """The text of a table cell that is already HTML, so `_table` does not escape it."""


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str | None]], of: int) -> str:
    """Formats an HTML table. A column whose name ends in ``#`` contains numbers and is
    right-aligned."""
    names = [name.rstrip("#") for name in columns]
    classes = [' class="n"' if name.endswith("#") else "" for name in columns]
    head = "".join(f"<th{kind}>{safe(n)}</th>" for n, kind in zip(names, classes, strict=True))
    body = "".join(
        "<tr>"
        + "".join(
            f'<td{kind} data-label="{safe(name)}">{_cell(cell)}</td>'
            for cell, kind, name in zip(row, classes, names, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    cut = f'<p class="cut">Only {len(rows)} of {of:,} rows are shown.</p>' if of > len(rows) else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{cut}"


def _cell(cell: str | None) -> str:
    if isinstance(cell, _Link):
        return cell
    return name_of("-" if cell is None else cell)
