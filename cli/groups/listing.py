"""`muster groups list`: shows every group with its verdict, the worst verdicts first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from cli import output
from cli.client.cluster import Cluster
from cli.client.group_names import STATES, states_named, types_named
from cli.client.group_reads import CLASSIC, TYPES, groups_with_offsets
from cli.client.group_reads import list_groups as all_of_them
from cli.errors import CommandError
from cli.groups.judging import Manner
from cli.groups.looking import Look, looks
from cli.layout import Column, Columns
from cli.options import BOOTSTRAP, TIMEOUT_S, Bootstrap, Http, Json, SomeGroups, Timeout, Wide
from cli.patterns import chosen
from cli.sorting import Sort, Top, in_order
from verdicts.names import Verdict, rank_of

_COLUMNS: Columns = [
    "group",
    "verdict",
    "state",
    "members",
    Column("lag", always=True),
    "type",
    "protocol_type",
]


def list_groups(
    patterns: SomeGroups = None,
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state", metavar="STATE", help=f"Show groups in this state: {', '.join(STATES)}."
        ),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--type", metavar="TYPE", help=f"Show groups of this type: {', '.join(TYPES)}."
        ),
    ] = None,
    sort: Sort = None,
    top: Top = None,
    wide: Wide = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    http: Http = None,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """List groups with their verdicts, worst first."""
    states, kinds = states_named(state or []), types_named(kind or [])
    cluster = Cluster(bootstrap, timeout_s=timeout)
    rows = all_of_them(cluster, states, kinds)
    if patterns:
        names = set(chosen(patterns, [row["group"] for row in rows]).names)
        rows = [row for row in rows if row["group"] in names]
    found = _looked_at(cluster, rows, Manner("groups list", http, timeout, partitions=False))
    rows = [_row(row, found.get(row["group"])) for row in rows]
    rows.sort(key=lambda row: (rank_of(row["verdict"]), row["group"]))
    rows = in_order(rows, sort, top, _COLUMNS)
    if not (json or wide):
        rows = [_in_short(row) for row in rows]
    empty = "No group matches" if patterns or states or kinds else "No groups yet"
    output.show(rows, [*_COLUMNS, "sentence"], empty, json, wide=wide)


def _looked_at(cluster: Cluster, rows: Sequence[output.Row], manner: Manner) -> dict[str, Look]:
    """Returns the state of each group. If a broker rejects a request, warns the user and returns an
    empty result, because the list can still be shown."""
    try:
        asked = [row["group"] for row in rows]
        found = looks(cluster, groups_with_offsets(cluster, asked), manner)
    except CommandError as error:
        if manner.http is not None:
            raise
        output.warn(f"verdicts are not shown: {error}")
        return {}
    return {look.group.group_id: look for look in found}


def _in_short(row: output.Row) -> output.Row:
    """Returns the row with null in place of the most common values: the type classic, the protocol
    type consumer, and the sentence of an OK verdict."""
    usual = {"type": CLASSIC, "protocol_type": "consumer"}
    short = {field: None for field, value in usual.items() if row[field] == value}
    if row["verdict"] == Verdict.OK:
        short["sentence"] = None
    return {**row, **short}


def _row(row: output.Row, look: Look | None) -> output.Row:
    if look is None:
        judged = {"verdict": None, "verdict_since_ms": None, "sentence": None}
        return {**row, "members": None, "lag": None, **judged}
    return {
        **row,
        "members": len(look.group.members),
        "lag": look.lag,
        "verdict": look.health.verdict,
        "verdict_since_ms": look.health.since_ms,
        "sentence": look.health.sentence,
    }
