"""`muster groups lag`: shows the lag of groups, for each partition or in one line for each
group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from cli import output
from cli.client.cluster import Cluster
from cli.client.group_names import check_named, named_groups
from cli.client.group_reads import groups_with_offsets, known_groups
from cli.errors import FOUND, CommandError
from cli.groups.judging import Manner
from cli.groups.looking import OFFSETS, SORTED_BY, Look, for_people, looks
from cli.layout import Column, Columns
from cli.options import (
    BOOTSTRAP,
    TIMEOUT_S,
    AllGroups,
    Bootstrap,
    Http,
    Json,
    SomeGroups,
    Timeout,
    Wide,
    whole_number,
)
from cli.sorting import Sort, Top, in_order
from verdicts.names import Verdict

_TOTALS: Columns = [
    "group",
    "verdict",
    "state",
    "members",
    "partitions",
    Column("lag", always=True),
    "unknown",
    "out_of_range",
]
_NAMED = 5


def lag(
    groups: SomeGroups = None,
    all_groups: AllGroups = False,
    total: Annotated[bool, typer.Option("--total", help="Show one line per group.")] = False,
    fail_above: Annotated[
        int | None,
        whole_number(
            "--fail-above",
            help="Exit with 4 if a lag is unknown or above this number, or if a committed offset is"
            " outside the log.",
        ),
    ] = None,
    seconds: Annotated[
        bool,
        typer.Option(
            "--seconds",
            help="Show the lag in time for all partitions, not only for the 100 largest lags.",
        ),
    ] = False,
    sort: Sort = None,
    top: Top = None,
    wide: Wide = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    http: Http = None,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Show the lag of each partition of the named groups; without names, one line per group."""
    if groups:
        check_named(groups, all_groups)
    cluster = Cluster(bootstrap, timeout_s=timeout)
    in_lines = total or not (groups or all_groups)
    names = named_groups(cluster, groups, every=not groups)
    known = known_groups(cluster, names) if groups else groups_with_offsets(cluster, names)
    manner = Manner("groups lag", http, timeout, not in_lines, seconds)
    found = looks(cluster, known, manner)
    rows = _totals(found) if in_lines else _partitions(found, wide, json)
    shown = in_order(rows, sort, top, _TOTALS if in_lines else ["group", *SORTED_BY])
    columns = _TOTALS if in_lines else [*(["group"] if len(found) > 1 else []), *OFFSETS]
    empty = "No committed offsets" if groups else "No groups yet"
    output.show(shown, columns, empty, json, wide=wide)
    if fail_above is not None:
        _fail_above(found, rows, fail_above)


def _totals(found: Sequence[Look]) -> list[output.Row]:
    rows = [_sum(look) for look in found]
    return sorted(rows, key=lambda row: row["group"])


def _partitions(found: Sequence[Look], wide: bool, json: bool) -> list[output.Row]:
    rows: list[output.Row] = []
    for look in found:
        offsets = look.offsets if json else for_people(look.offsets, look.group.members, wide)
        rows += ({"group": look.group.group_id, **row} for row in offsets)
    return rows


def _sum(look: Look) -> output.Row:
    return {
        "group": look.group.group_id,
        "verdict": look.health.verdict,
        "state": look.group.state,
        "members": len(look.group.members),
        "partitions": len(look.offsets),
        "lag": look.known_lag,
        "unknown": sum(row["lag"] is None for row in look.offsets),
        "out_of_range": sum(row["verdict"] == Verdict.OUT_OF_RANGE for row in look.offsets),
    }


def _fail_above(looks: Sequence[Look], rows: Sequence[output.Row], most: int) -> None:
    """Raises CommandError with exit code 4 if a lag exceeds ``most`` or is unknown, or if offsets
    are outside the log. The error message names the groups for each of these reasons."""
    reasons = {
        f"lag is above {most} records": [
            row["group"] for row in rows if row["lag"] is not None and row["lag"] > most
        ],
        "lag is unknown": [
            look.group.group_id for look in looks if look.lag is None and not look.rebalances
        ],
        "lag is unknown during a rebalance": [
            look.group.group_id for look in looks if look.rebalances
        ],
        "offsets are outside the log": [
            row["group"]
            for row in rows
            if row.get("out_of_range") or row["verdict"] == Verdict.OUT_OF_RANGE
        ],
    }
    parts = [f"{reason}: {_names(found)}" for reason, found in reasons.items() if found]
    if parts:
        raise CommandError("; ".join(parts), FOUND)


def _names(groups: Sequence[str]) -> str:
    names = sorted(set(groups))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
