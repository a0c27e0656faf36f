"""`muster groups`: list, describe, measure, reset and delete the groups of any Kafka broker."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cli import output
from cli.client import group_reads
from cli.client.cluster import Cluster
from cli.client.lag import OUT_OF_RANGE, logs_of, offset_rows, partitions_of
from cli.errors import FOUND, CommandError
from cli.groups.deletion import delete
from cli.groups.evict import evict
from cli.groups.reset import reset
from cli.groups.watch import watch
from cli.groups.why import why
from cli.layout import Column, Columns
from cli.names import numbered
from cli.options import (
    BOOTSTRAP,
    TIMEOUT_S,
    Bootstrap,
    GroupNames,
    Json,
    SomeGroups,
    Timeout,
    Wide,
    whole_number,
)

app = typer.Typer(
    help="List, describe, explain, watch, fix (reset, evict) and delete consumer groups.",
    no_args_is_help=True,
)

_OFFSETS: Columns = [
    "topic",
    "partition",
    Column("committed", always=True),
    Column("start_offset", "START"),
    Column("end_offset", "END"),
    Column("lag", always=True),
    "member",
]
_OUTSIDE = ["lost_records", "verdict"]
"""Shown where an offset lies outside its log."""
_MEMBERS = ["member", "instance", "client", "host", "partitions"]


@app.command("list")
def list_groups(
    state: Annotated[
        list[str] | None,
        typer.Option("--state", metavar="STATE", help="Only groups in this state; repeatable."),
    ] = None,
    wide: Wide = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """List the groups."""
    rows = group_reads.list_groups(Cluster(bootstrap, timeout_s=timeout), state or [])
    output.show(rows, ["group", "state", "type", "protocol_type"], "No groups yet", json, wide=wide)


@app.command()
def describe(
    groups: GroupNames,
    wide: Wide = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Show state, members and their partitions, committed offsets and lag."""
    cluster = Cluster(bootstrap, timeout_s=timeout)
    described = _described(cluster, groups)
    if json:
        output.show_json(described)
        return
    for entry in described:
        protocol = f"  protocol {entry['protocol']}" if entry["protocol"] else ""
        output.say(
            f"{entry['group']}  {entry['state']}{protocol}  members {len(entry['members'])}"
            f"  coordinator {entry['coordinator']}"
        )
        members = [] if wide else entry["members"]
        shown = numbered(entry["members"], members)
        output.show_table(shown, _MEMBERS, "No members", wide=wide)
        output.say("")
        columns = [*_offset_columns(entry["offsets"]), "metadata"]
        shown = numbered(entry["offsets"], members)
        output.show_table(shown, columns, "No committed offsets", wide=wide)


def _offset_columns(rows: list[output.Row]) -> Columns:
    return [*_OFFSETS, *(_OUTSIDE if any(row["verdict"] for row in rows) else [])]


def _described(cluster: Cluster, group_ids: list[str]) -> list[dict[str, Any]]:
    known = group_reads.known_groups(cluster, group_ids)
    bounds = logs_of(cluster, partitions_of(known))
    return [
        {
            "group": group_id,
            "state": group.state,
            "protocol_type": group.protocol_type,
            "protocol": group.protocol,
            "coordinator": group.coordinator,
            "members": group.members,
            "offsets": offset_rows(committed, group.owners, bounds),
        }
        for group_id, (group, committed) in known.items()
    ]


@app.command()
def members(
    groups: GroupNames,
    wide: Wide = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Show the members of groups, their hosts, and what each owns."""
    cluster = Cluster(bootstrap, timeout_s=timeout)
    rows: list[output.Row] = []
    for group_id, known in group_reads.known_groups(cluster, groups).items():
        found = known.group.members
        named = found if wide or json else numbered(found, found)
        rows += ({"group": group_id, **member} for member in named)
    several = ["group"] if len(groups) > 1 else []
    output.show(rows, [*several, *_MEMBERS], "No members", json, wide=wide)


@app.command()
def lag(
    groups: SomeGroups = None,
    total: Annotated[bool, typer.Option("--total", help="One line for each group.")] = False,
    fail_above: Annotated[
        int | None,
        whole_number(
            "--fail-above",
            help="Exit with 4 when a line has more lag than this, unknown lag, or an offset"
            " outside its log.",
        ),
    ] = None,
    wide: Wide = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Show the lag of each partition of the groups named, or a line for each group."""
    cluster = Cluster(bootstrap, timeout_s=timeout)
    if groups:
        known = group_reads.known_groups(cluster, groups)
    else:
        listed = [row["group"] for row in group_reads.list_groups(cluster)]
        known = group_reads.all_groups(cluster, listed)
    bounds = logs_of(cluster, partitions_of(known))
    rows: list[output.Row] = []
    for group_id, (group, committed) in known.items():
        found = offset_rows(committed, group.owners, bounds)
        if groups and not total:
            short = found if wide or json else numbered(found, group.members)
            rows += ({"group": group_id, **row} for row in short)
        else:
            rows.append(_sum(group, found))
    columns: Columns = ["group", "state", "members", "partitions", "lag", "unknown", "out_of_range"]
    if groups and not total:
        columns = [
            *(["group"] if len(groups) > 1 else []),
            *_offset_columns(rows),
            "client",
            "host",
        ]
    output.show(
        rows, columns, "No committed offsets" if groups else "No groups yet", json, wide=wide
    )
    if fail_above is not None:
        _fail_above(rows, fail_above)


def _sum(group: group_reads.Group, rows: list[output.Row]) -> output.Row:
    lags = [row["lag"] for row in rows]
    return {
        "group": group.group_id,
        "state": group.state,
        "members": len(group.members),
        "partitions": len(rows),
        "lag": sum(max(0, lag) for lag in lags if lag is not None),
        "unknown": sum(lag is None for lag in lags),
        "out_of_range": sum(row["verdict"] == OUT_OF_RANGE for row in rows),
    }


def _fail_above(rows: list[output.Row], most: int) -> None:
    behind = [
        row
        for row in rows
        if row["lag"] is None
        or row["lag"] > most
        or row.get("unknown")
        or row.get("out_of_range")
        or row.get("verdict") == OUT_OF_RANGE
    ]
    if behind:
        named = ", ".join(sorted({row["group"] for row in behind})[:5])
        raise CommandError(
            f"lag is above {most} records, unknown, or outside its log: {named}", FOUND
        )


app.command()(reset)
app.command()(delete)
app.command()(evict)
app.command()(why)
app.command()(watch)
