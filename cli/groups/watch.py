"""`muster groups watch`: shows groups and their changes until Ctrl-C."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Group as Lines
from rich.live import Live
from rich.text import Text

from cli import clock, output
from cli.errors import CommandError
from cli.groups.why import finding_lines, name_of, some, story
from cli.http import Api, api_at, group_path
from cli.layout import Column, Columns, laid_out
from cli.names import numbered, owned, safe
from cli.options import BOOTSTRAP, TIMEOUT_S, Bootstrap, Every, Http, Json, Timeout
from cli.streams import follow
from cli.times import instant, span
from verdicts.names import Verdict
from verdicts.spelling import plain_host

Value = dict[str, Any]

_GROUPS: Columns = [
    "group",
    "verdict",
    "state",
    "members",
    "lag",
    "rebalances",
    Column("last_why", "LAST REBALANCE"),
]
_MEMBERS: Columns = ["member", "instance", "client", "host", "heard", "partitions"]
_NOT_A_CHANGE = frozenset(
    {
        "ends_ms",
        "findings",
        "lag",
        "last_heard_ms",
        "last_heard_ms_ago",
        "more_findings",
        "offsets",
        "remaining_ms",
        "sentence",
        "verdict_since_ms",
        "words",
    }
)
"""Fields that are not compared, because they change even if the group does not. For example, a
sentence may contain the time since an event."""
_FINDINGS = 3
_RANKS = {verdict.value: verdict.rank for verdict in Verdict}


def watch(
    group: Annotated[
        str | None, typer.Argument(metavar="GROUP", help="Watch only this group.")
    ] = None,
    every: Every = 1.0,
    bootstrap: Bootstrap = BOOTSTRAP,
    http: Http = None,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Show all groups, or one group, and every change until Ctrl-C. Needs Muster's HTTP API.

    A change is a new verdict, state, generation, member or rebalance, or a change of the members
    that a rebalance waits for. A new lag is not a change. A new verdict is printed on its own line.
    --json prints one line per change.
    In a file or a pipe the whole view is printed again at each change.
    """
    api = api_at(bootstrap, "groups watch", http, timeout, group)
    if json:
        _print_changes(api, group, every)
    elif not sys.stdout.isatty():
        _append_changes(api, group, every)
    else:
        _show_live(api, group, every)


def _look(api: Api, group: str | None) -> list[Value]:
    """Returns the groups from the API, worst verdicts first."""
    api.renew()
    if group is None:
        found: list[Value] = api.get("/api/groups")["groups"]
        return sorted(found, key=lambda each: (_RANKS.get(each["verdict"], -1), each["group"]))
    one: Value = api.get(group_path(group))
    one["journal"] = api.get(group_path(group, "journal"), last=3)
    return [one]


class Verdicts:
    """The last verdict on each group, for the detection of new verdicts."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}

    def changes(self, groups: Sequence[Value]) -> list[str]:
        """Returns a line for each group whose verdict has changed since the last call."""
        lines = []
        now = instant(clock.now_ms())
        for each in groups:
            name, verdict = each["group"], each["verdict"]
            before = self._last.get(name, Verdict.OK)
            if verdict != before:
                again = " again" if verdict == Verdict.OK else ""
                lines.append(f"{now}  {safe(name)} is {verdict}{again}: {safe(each['sentence'])}")
        there = {each["group"]: each["verdict"] for each in groups}
        lines += [
            f"{now}  {safe(name)} no longer exists; the last verdict was {verdict}"
            for name, verdict in self._last.items()
            if name not in there and verdict != Verdict.OK
        ]
        self._last = there
        return lines


# ------------------------------------------------------------------------ the ways to show it


def _print_changes(api: Api, group: str | None, every: float) -> None:
    known: dict[str, Value] = {}
    while True:
        now = {each["group"]: each for each in _look(api, group)}
        for name, each in now.items():
            each.pop("journal", None)
            if name not in known or _gist(known[name]) != _gist(each):
                output.show_json_line(each)
        for name in known.keys() - now.keys():
            output.show_json_line({"group": name, "state": "Dead"})
        known = now
        clock.sleep(every)


def _gist(value: Any) -> Any:
    """Returns the value without the fields in _NOT_A_CHANGE."""
    if isinstance(value, dict):
        return {key: _gist(each) for key, each in value.items() if key not in _NOT_A_CHANGE}
    if isinstance(value, list):
        return [_gist(each) for each in value]
    return value


def _append_changes(api: Api, group: str | None, every: float) -> None:
    verdicts, known = Verdicts(), None
    while True:
        now = _look(api, group)
        changes = verdicts.changes(now)
        if known != (gist := _gist(now)):
            parts = [*changes, *(part.plain for part in _drawn(now, group, None))]
            follow(("" if known is None else "\n") + "\n".join(parts) + "\n")
        known = gist
        clock.sleep(every)


def _show_live(api: Api, group: str | None, every: float) -> None:
    verdicts, now = Verdicts(), _look(api, group)
    with Live(Text(""), auto_refresh=False, transient=False) as live:
        while True:
            for line in verdicts.changes(now):
                live.console.print(Text(line))
            live.update(Lines(*_drawn(now, group, output.terminal_width())), refresh=True)
            now = _next_look(api, group, every, live)


def _next_look(api: Api, group: str | None, every: float, live: Live) -> list[Value]:
    """Returns the groups. Repeats the request until a broker responds, because the broker may be
    restarting."""
    while True:
        clock.sleep(every)
        try:
            return _look(api, group)
        except CommandError as error:
            live.update(Text(str(error)), refresh=True)


# ------------------------------------------------------------------------------------ drawing


def _drawn(groups: Sequence[Value], group: str | None, width: int | None) -> list[Text]:
    if group is not None:
        return _one(groups[0], width)
    return [_table(groups, _GROUPS, width) if groups else Text("No groups yet")]


def _table(rows: Sequence[Value], columns: Columns, width: int | None) -> Text:
    """Returns a table that fits into ``width`` columns. If ``width`` is None (the output is a pipe
    or a file), no text is shortened."""
    if width is not None:
        return output.table(rows, columns)
    lines = laid_out(rows, columns, None)
    return Text("\n".join([*lines.header, *lines.body]))


def _one(view: Value, width: int | None) -> list[Text]:
    lines = [
        f"{safe(view['group'])}  {view['state']}  generation {view['generation']}"
        f"  lag {'-' if view['lag'] is None else view['lag']}  {view['verdict']}"
    ]
    lines += finding_lines(view["findings"][:_FINDINGS], "groups watch")
    members = view["members"]
    numbers = {each["member"]: f"#{number}" for number, each in enumerate(members, 1)}
    awaits = view["awaits"]
    if awaits is not None:
        names = (
            some(_awaited(each, numbers) for each in awaits["members"])
            or "the end of the initial delay"
        )
        earlier_ms = awaits["deadline_ms"] - awaits["ends_ms"]
        left = span(awaits["remaining_ms"] - earlier_ms)
        lines.append(f"{awaits['phase']} phase: waiting for {names}, at most {left} more")
    rows = list(map(_member, members))
    journal = story({**view["journal"], "findings": []})[1:]
    return [
        *(Text(safe(line)) for line in lines),
        _table(numbered(rows, rows), _MEMBERS, width) if rows else Text("No members"),
        *(Text(safe(line)) for line in journal),
    ]


def _awaited(each: Value, numbers: dict[str, str]) -> str:
    return numbers.get(each["member"]) or name_of(each)


def _member(each: Value) -> Value:
    silent_ms = each["last_heard_ms_ago"]
    heard = f"waiting ({each['waits_with']})"
    if silent_ms is not None:
        heard = f"{span(silent_ms)} ago of {span(each['session_timeout_ms'])}"
    known = each["partitions"]
    return {
        "member": each["member"],
        "instance": each["instance"],
        "client": each["client"],
        "host": plain_host(each["host"]),
        "heard": heard,
        "partitions": f"{each['assignment_bytes']} bytes" if known is None else owned(known),
    }
