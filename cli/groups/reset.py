"""`muster groups reset`: set a group's offsets to another place in its logs.

One target for all partitions named. What lies outside a log is moved to its nearer end, and a note
says so. The scenarios and their names are Apache's (KIP-122).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import typer

from cli import clock
from cli.client.cluster import Cluster
from cli.client.group_reads import Committed, committed_of, read_group
from cli.client.offsets_at import EARLIEST, LATEST, Partition, offsets_at
from cli.errors import USAGE, CommandError
from cli.offsets.changes import (
    Change,
    Topics,
    finish,
    refuse_members,
    selected,
)
from cli.options import (
    BOOTSTRAP,
    INT64,
    TIMEOUT_S,
    Bootstrap,
    GroupName,
    Json,
    Timeout,
    whole_number,
)
from cli.plans import DryRun, Execute
from cli.times import datetime_ms, duration_ms

Offsets = Mapping[Partition, int]
ToDatetime = Annotated[
    str | None,
    typer.Option(
        "--to-datetime",
        metavar="TIME",
        help="To the first record since 2026-01-31T12:00:00Z (UTC unless it has a zone).",
    ),
]
ByDuration = Annotated[
    str | None,
    typer.Option(
        "--by-duration", metavar="TIME", help="To the first record of the last PT1H30M, P7D, 90m."
    ),
]
OF_A_TIME = ("--to-datetime", "--by-duration")


def reset(
    group: GroupName,
    topic: Topics = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="Every topic with offsets of the group.")
    ] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the start.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end.")] = False,
    to_current: Annotated[
        bool,
        typer.Option(
            "--to-current", help="To the committed offset; to the end where there is none."
        ),
    ] = False,
    to_offset: Annotated[int | None, whole_number("--to-offset", help="To this offset.")] = None,
    shift_by: Annotated[
        int | None,
        whole_number("--shift-by", least=-INT64, help="By N records; back when N is negative."),
    ] = None,
    to_datetime: ToDatetime = None,
    by_duration: ByDuration = None,
    dry_run: DryRun = False,
    execute: Execute = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Move the offsets of a group without members; show before and after."""
    targets: dict[str, Callable[[], int] | int | None] = {
        "--to-earliest": EARLIEST if to_earliest else None,
        "--to-latest": LATEST if to_latest else None,
        "--to-current": 0 if to_current else None,
        "--to-offset": to_offset,
        "--shift-by": shift_by,
        "--to-datetime": None if to_datetime is None else datetime_ms(to_datetime),
        "--by-duration": None if by_duration is None else _ago(by_duration),
    }
    chosen = [(name, value) for name, value in targets.items() if value is not None]
    if len(chosen) != 1:
        raise CommandError(f"name exactly one target: {', '.join(targets)}", USAGE)
    if bool(topic) == all_topics:
        raise CommandError("name the partitions: --topic TOPIC[:0-1,5] or --all-topics", USAGE)
    cluster = Cluster(bootstrap, timeout_s=timeout)
    refuse_members(read_group(cluster, group))
    committed = committed_of(cluster, group)
    keys = selected(cluster, topic) if topic else _still_there(cluster, committed)
    [(name, value)] = chosen
    assert isinstance(value, int)
    changes = planned(cluster, group, keys, committed, name, value)
    as_of_ms = value if name in OF_A_TIME else None
    finish(cluster, changes, dry_run, execute, json, as_of_ms)


def _ago(duration: str) -> int:
    return max(0, clock.now_ms() - duration_ms(duration))


def _still_there(cluster: Cluster, committed: Mapping[Partition, Committed]) -> list[Partition]:
    known = {topic["name"] for topic in cluster.metadata(None)["topics"]}
    return sorted(key for key in committed if key[0] in known)


def planned(
    cluster: Cluster,
    group_id: str,
    keys: Sequence[Partition],
    committed: Mapping[Partition, Committed],
    target: str,
    value: int,
) -> list[Change]:
    """What a reset changes, a line for each partition, those that stay as they are too."""
    first, end = offsets_at(cluster, keys, EARLIEST), offsets_at(cluster, keys, LATEST)
    keys = [key for key in keys if key in first and key in end]
    at_time: Offsets = {}
    if target in OF_A_TIME:
        at_time = offsets_at(cluster, keys, value)
    changes = []
    for key in keys:
        before = committed.get(key)
        wanted, note = _wanted(target, value, before, first[key], end[key], at_time.get(key))
        inside = min(max(wanted, first[key]), end[key])
        if inside != wanted:
            note = f"{wanted} is {'before the start' if inside > wanted else 'after the end'}"
        changes.append(Change(group_id, key, before, Committed(inside), note))
    return changes


def _wanted(
    target: str, value: int, before: Committed | None, first: int, end: int, at_time: int | None
) -> tuple[int, str | None]:
    """The offset to set, and a note about it."""
    if target == "--to-earliest":
        return first, None
    if target == "--to-offset":
        return value, None
    if target == "--to-latest":
        return end, None
    if at_time is not None:
        return (at_time, None) if at_time >= 0 else (end, "no record at or after that time")
    if before is None:
        return end, "the group had no offset"
    return before.offset + (value if target == "--shift-by" else 0), None
