"""`muster groups watch`: groups as they change, until Ctrl-C."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.console import Group as Lines
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cli import clock, output
from cli.errors import CommandError
from cli.groups.why import name_of, partitions_of, some, story
from cli.http import Api, api_at, group_path
from cli.layout import shown
from cli.options import BOOTSTRAP, TIMEOUT_S, Bootstrap, Every, Http, Json, Timeout
from cli.times import span

Value = dict[str, Any]
_COLUMNS = ("group", "state", "generation", "members", "lag", "rebalances", "last_why")
_NOT_A_CHANGE = ("lag", "last_heard_ms_ago", "remaining_ms")


def watch(
    group: Annotated[str | None, typer.Argument(metavar="GROUP", help="Only this group.")] = None,
    every: Every = 1.0,
    bootstrap: Bootstrap = BOOTSTRAP,
    http: Http = None,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Follow all groups, or one, until Ctrl-C; --json prints a line a change. Needs Muster's HTTP.

    A change is a new state, generation, member or rebalance, or another member to wait for; a new
    lag is none. In a file or a pipe the whole view is printed again at each change.
    """
    api = api_at(bootstrap, "groups watch", http, timeout, group)
    if json:
        _print_changes(api, group, every)
    elif not sys.stdout.isatty():
        _append_changes(api, group, every)
    else:
        _show_live(api, group, every)


def _look(api: Api, group: str | None) -> list[Value]:
    api.renew()
    if group is None:
        found: list[Value] = api.get("/api/groups")["groups"]
        return sorted(found, key=lambda each: str(each["group"]))
    one: Value = api.get(group_path(group))
    one["journal"] = api.get(group_path(group, "journal"), last=3)
    return [one]


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
    """A view without what moves all the time."""
    if isinstance(value, dict):
        kept = {key: _gist(each) for key, each in value.items() if key not in _NOT_A_CHANGE}
        kept.pop("offsets", None)
        return kept
    if isinstance(value, list):
        return [_gist(each) for each in value]
    return value


def _append_changes(api: Api, group: str | None, every: float) -> None:
    console = Console(width=10_000, highlight=False)
    known: Any = None
    while True:
        now = _look(api, group)
        if known != (gist := _gist(now)):
            if known is not None:
                console.print()
            console.print(_drawn(now, group))
            console.file.flush()
        known = gist
        clock.sleep(every)


def _show_live(api: Api, group: str | None, every: float) -> None:
    with Live(_drawn(_look(api, group), group), auto_refresh=False, transient=False) as live:
        while True:
            clock.sleep(every)
            try:
                drawn: Any = _drawn(_look(api, group), group)
            except CommandError as error:
                drawn = Text(str(error))  # a broker that restarts comes back
            live.update(drawn, refresh=True)


def _drawn(groups: list[Value], group: str | None) -> Any:
    if group is not None:
        return _one(groups[0])
    if not groups:
        return Text("No groups yet")
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in _COLUMNS:
        table.add_column(column.upper().replace("_", "-").replace("LAST-WHY", "LAST REBALANCE"))
    for each in groups:
        table.add_row(*(Text(shown(each[column])) for column in _COLUMNS))
    return table


def _one(view: Value) -> Any:
    head = f"{view['group']}  {view['state']}  generation {view['generation']}  lag {view['lag']}"
    lines: list[Any] = [Text(head)]
    awaits = view["awaits"]
    if awaits is not None:
        names = some(map(name_of, awaits["members"])) or "the initial delay"
        left = span(awaits["remaining_ms"])
        lines.append(Text(f"{awaits['phase']}: waits for {names}, {left} more at most"))
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("MEMBER", "CLIENT", "HOST", "HEARD", "PARTITIONS"):
        table.add_column(column, overflow="fold")
    for member in view["members"]:
        silent_ms = member["last_heard_ms_ago"]
        heard = f"waits ({member['waits_with']})"
        if silent_ms is not None:
            heard = f"{span(silent_ms)} ago of {span(member['session_timeout_ms'])}"
        table.add_row(
            Text(name_of(member)),
            Text(member["client"]),
            Text(member["host"]),
            heard,
            Text(partitions_of(member["partitions"], member["assignment_bytes"])),
        )
    lines.append(table if view["members"] else Text("No members"))
    lines += [Text(line) for line in story(view["journal"])[1:]]
    return Lines(*lines)
