"""`muster top`: shows the busiest groups, topics and clients of a Muster broker, live.

Rates are differences between two reads of the broker's HTTP API: `/metrics` for topics, commits and
requests, `/api/groups` for groups and members, `/api/clients` for the traffic of clients. READ/S of
a client counts how far the committed offsets advance in the partitions that the client owns.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer
from rich.console import Group as Lines
from rich.live import Live
from rich.text import Text

from cli import clock, output
from cli.errors import CommandError
from cli.http import Api, api_at, group_path
from cli.layout import Column, Columns
from cli.options import (
    BOOTSTRAP,
    INT32,
    TIMEOUT_S,
    Bootstrap,
    Every,
    Http,
    Json,
    Timeout,
    Wide,
    whole_number,
)
from cli.streams import follow
from cli.times import instant
from verdicts.names import Verdict
from verdicts.spelling import plain_host

Value = dict[str, Any]
Partition = tuple[str, str]

_LINE = re.compile(r"([a-z_]+)(?:\{(.*)\})? ([0-9.eE+-]+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}
_TABLES: dict[str, Columns] = {
    "groups": [
        "group",
        "verdict",
        "state",
        "members",
        "lag",
        Column("read_per_s", "READ/S"),
        Column("rebalances", "REBAL."),
    ],
    "topics": ["topic", "partitions", Column("written_per_s", "WRITTEN/S"), "end_offsets"],
    "clients": [
        "client",
        "host",
        Column("requests_per_s", "REQ/S"),
        Column("kb_in_per_s", "KB-IN/S"),
        Column("kb_out_per_s", "KB-OUT/S"),
        "groups",
        Column("partitions", "OWNS"),
        Column("read_per_s", "READ/S"),
    ],
}
"""The tables and their columns. The tables fit into 80 characters if names are shortened."""
_OF_GROUPS = ("group", "verdict", "state", "members", "lag", "rebalances")
_AROUND = 4
"""The number of lines of a live table in addition to its rows: empty line, header, and list of
omitted columns."""
_HEAD_LINES = 3

_TRAFFIC = ("requests", "bytes_in", "bytes_out")
_NOTHING = dict.fromkeys(_TRAFFIC, 0)
"""The counters of a client before its first request."""


@dataclass
class Look:
    """The state of the broker at one moment."""

    at_s: float
    requests: float = 0
    connections: float = 0
    ends: dict[Partition, float] = field(default_factory=dict)
    """The log end offset, by topic and partition."""
    committed: dict[tuple[str, str, str], float] = field(default_factory=dict)
    """The committed offset, by group, topic and partition."""
    groups: list[Value] = field(default_factory=list)
    members: dict[str, list[Value]] = field(default_factory=dict)
    """The members of the groups with the largest lag, by group id."""
    clients: dict[tuple[str, str], Value] = field(default_factory=dict)
    """The counters of each client, by client id and host."""


def top(
    once: Annotated[
        bool, typer.Option("--once", help="Print one view and exit, for scripts.")
    ] = False,
    every: Every = 1.0,
    lines: Annotated[
        int, whole_number("--lines", "-n", least=1, most=INT32, help="Number of lines per table.")
    ] = 10,
    wide: Wide = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    http: Http = None,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Show the busiest groups, topics and clients until Ctrl-C. Needs Muster's HTTP API.

    In a file or a pipe the tables are printed again for each view.
    """
    api = api_at(bootstrap, "top", http, timeout)
    before = look(api, lines)
    clock.sleep(every)
    after = look(api, lines)
    view = {**_whose(api), **measured(before, after, lines)}
    if once:
        if json:
            output.show_json(view)
        else:
            _print(view, wide)
        return
    while json or not sys.stdout.isatty():
        if json:
            output.show_json_line(view)
        else:
            _print(view, wide)
            follow("\n")
        clock.sleep(every)
        before, after = after, look(api, lines)
        view = {**_whose(api), **measured(before, after, lines)}
    _live(api, before, after, every, lines)


def _live(api: Api, before: Look, after: Look, every: float, lines: int) -> None:
    drawn: Any = _drawn({**_whose(api), **measured(before, after, lines)})
    with Live(drawn, auto_refresh=False, screen=True) as live:
        while True:
            live.refresh()
            clock.sleep(every)
            try:
                before, after = after, look(api, lines)
                drawn = _drawn({**_whose(api), **measured(before, after, lines)})
            except CommandError as error:
                drawn = Text(str(error))  # the broker may be restarting
            live.update(drawn)


def _whose(api: Api) -> Value:
    """Returns the fields that all views show: the broker's identity, and the current time."""
    names = ("cluster", "broker", "address")
    return {**{name: api.broker[name] for name in names}, "at_ms": clock.now_ms()}


def look(api: Api, lines: int) -> Look:
    api.renew()
    seen = Look(clock.monotonic_s())
    for line in api.text("/metrics").splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        name, number = found[1], float(found[3])
        if name == "muster_requests_total":
            seen.requests += number
        elif name == "muster_connections":
            seen.connections = number
        elif name == "kafka_topic_partition_current_offset":
            labels = _labels(found[2])
            seen.ends[labels["topic"], labels["partition"]] = number
        elif name == "kafka_consumergroup_current_offset":
            labels = _labels(found[2])
            seen.committed[labels["consumergroup"], labels["topic"], labels["partition"]] = number
    seen.groups = api.get("/api/groups")["groups"]
    seen.clients = {
        (each["client"], each["host"]): each for each in api.get("/api/clients")["clients"]
    }
    members = [group for group in seen.groups if group["members"]]
    for group in sorted(members, key=lambda group: -int(group["lag"] or 0))[:lines]:
        with contextlib.suppress(CommandError):  # the group may have been deleted since
            seen.members[group["group"]] = api.get(group_path(group["group"]))["members"]
    return seen


def _labels(text: str | None) -> dict[str, str]:
    return {
        name: re.sub(r"\\.", lambda match: _ESCAPES.get(match[0], match[0]), value)
        for name, value in _LABEL.findall(text or "")
    }


def measured(before: Look, after: Look, lines: int) -> Value:
    """Returns the rates between two reads, with the busiest groups, topics and clients first."""
    seconds = max(after.at_s - before.at_s, 1e-3)

    def rate(now: float, then: float | None) -> float:
        return round(max(0.0, now - then) / seconds, 1) if then is not None else 0.0

    read = {key: rate(now, before.committed.get(key)) for key, now in after.committed.items()}
    by_group: dict[str, float] = defaultdict(float)
    for (group, _, _), per_s in read.items():
        by_group[group] += per_s
    groups = [
        {
            **{name: each[name] for name in _OF_GROUPS},
            "read_per_s": round(by_group[each["group"]], 1),
        }
        for each in after.groups
    ]
    groups.sort(key=lambda row: (-row["read_per_s"], -(row["lag"] or 0), row["group"]))
    topics = _topics(
        after, {key: rate(end, before.ends.get(key)) for key, end in after.ends.items()}
    )
    traffic = {
        client: {
            f"{name}_per_s": rate(now[name], before.clients.get(client, _NOTHING)[name])
            for name in _TRAFFIC
        }
        for client, now in after.clients.items()
    }
    return {
        "seconds": round(seconds, 3),
        "requests_per_s": rate(after.requests, before.requests),
        "connections": int(after.connections),
        "verdicts": _counted(each["verdict"] for each in after.groups),
        "groups": groups[:lines],
        "topics": topics[:lines],
        "clients": _clients(after, read, traffic)[:lines],
    }


def _counted(verdicts: Iterable[str]) -> dict[str, int]:
    """Returns the number of groups with each verdict, worst verdict first."""
    found = Counter(verdicts)
    return {each.value: found[each] for each in Verdict if found[each]}


def _topics(seen: Look, written: dict[Partition, float]) -> list[Value]:
    rows: dict[str, Value] = {}
    for (topic, partition), end in seen.ends.items():
        row = rows.setdefault(
            topic, {"topic": topic, "partitions": 0, "written_per_s": 0.0, "end_offsets": 0}
        )
        row["partitions"] += 1
        row["end_offsets"] += int(end)
        row["written_per_s"] = round(row["written_per_s"] + written[topic, partition], 1)
    return sorted(rows.values(), key=lambda row: (-row["written_per_s"], row["topic"]))


def _clients(
    seen: Look,
    read: dict[tuple[str, str, str], float],
    traffic: dict[tuple[str, str], dict[str, float]],
) -> list[Value]:
    """Returns the clients that are connected, own partitions, or sent requests between the two
    reads."""
    rows: dict[tuple[str, str], Value] = {}

    def row_of(key: tuple[str, str]) -> Value:
        if key not in rows:
            rates = traffic.get(key) or dict.fromkeys([f"{each}_per_s" for each in _TRAFFIC], 0.0)
            rows[key] = {
                "client": key[0],
                "host": plain_host(key[1]),
                **rates,
                "groups": [],
                "partitions": 0,
                "read_per_s": 0.0,
            }
        return rows[key]

    for client, rates in traffic.items():
        if seen.clients[client]["connections"] or any(rates.values()):
            row_of(client)
    for group, members in seen.members.items():
        for member in members:
            row = row_of((member["client"], member["host"]))
            row["groups"] = sorted({*row["groups"], group})
            for topic, partitions in (member["partitions"] or {}).items():
                row["partitions"] += len(partitions)
                per_s = sum(read.get((group, topic, str(number)), 0.0) for number in partitions)
                row["read_per_s"] = round(row["read_per_s"] + per_s, 1)
    return sorted(rows.values(), key=_busiest_client)


def _busiest_client(row: Value) -> tuple[Any, ...]:
    both = row["bytes_in_per_s"] + row["bytes_out_per_s"]
    return -both, -row["requests_per_s"], -row["read_per_s"], row["client"] or "", row["host"] or ""


def _head(view: Value) -> str:
    wrong = {name: count for name, count in view["verdicts"].items() if name != Verdict.OK}
    listed = ", ".join(f"{count} {name}" for name, count in wrong.items())
    every = output.counted(sum(view["verdicts"].values()), "group")
    return (
        f"cluster {view['cluster']}  broker {view['broker']} at {view['address']}\n"
        f"{instant(view['at_ms'])}  {view['requests_per_s']} requests/s"
        f"  {output.counted(view['connections'], 'connection')}  over {view['seconds']} s\n"
        f"{every}, {f'{sum(wrong.values())} not OK: {listed}' if wrong else 'all OK'}"
    )


def _shown(view: Value) -> Value:
    """Returns the view with values for a table: traffic in thousands of bytes, and the number of
    groups in place of several group names."""
    clients = [
        {
            **row,
            "groups": output.counted(len(names), "group") if len(names) > 1 else names,
            "kb_in_per_s": round(row["bytes_in_per_s"] / 1000, 1),
            "kb_out_per_s": round(row["bytes_out_per_s"] / 1000, 1),
        }
        for row in view["clients"]
        for names in [row["groups"]]
    ]
    return {**view, "clients": clients}


def _print(view: Value, wide: bool) -> None:
    for line in _head(view).splitlines():
        output.say(line)
    shown = _shown(view)
    for name, columns in _TABLES.items():
        output.say("")
        output.show_table(shown[name], columns, f"No {name}", wide=wide)


def _drawn(view: Value) -> Any:
    """Returns the tables of the view, each cut to the same maximum number of rows, so that all
    tables fit the terminal's height."""
    parts: list[Any] = [Text(_head(view), no_wrap=True, overflow="ellipsis")]
    shown = _shown(view)
    room = (output.terminal_height() - _HEAD_LINES) // len(_TABLES) - _AROUND
    for name, columns in _TABLES.items():
        rows = shown[name][: max(room, 1)]
        parts += [Text(""), output.table(rows, columns) if rows else Text(f"No {name}")]
    return Lines(*parts)
