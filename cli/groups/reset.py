"""`muster groups reset`: moves the committed offsets of groups. One target applies to all named
partitions. A target outside the log becomes the log start or log end offset, with a note. The
targets have the same names as in Kafka's own tool (KIP-122)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import typer

from cli import clock
from cli.client.cluster import Cluster
from cli.client.group_names import check_named, named_groups
from cli.client.group_reads import Committed, Known, known_groups
from cli.client.offsets_at import EARLIEST, LATEST, Bounds, Partition, bounds_of, offsets_at
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
    AllGroups,
    Bootstrap,
    Json,
    SomeGroups,
    Timeout,
    whole_number,
)
from cli.plans import DryRun, Execute
from cli.times import datetime_ms, duration_ms

Offsets = Mapping[Partition, int]
_NOT_THERE = "not found; nothing was changed; --new-group creates the group"
ToDatetime = Annotated[
    str | None,
    typer.Option(
        "--to-datetime",
        metavar="TIME",
        help="Reset to the first record at or after a time, such as 2026-01-31T12:00:00Z (default"
        " UTC).",
    ),
]
ByDuration = Annotated[
    str | None,
    typer.Option(
        "--by-duration",
        metavar="TIME",
        help="Reset to the first record not older than a duration, such as PT1H30M, P7D or 90m.",
    ),
]
OF_A_TIME = ("--to-datetime", "--by-duration")


ToCurrent = Annotated[
    bool,
    typer.Option(
        "--to-current",
        help="Reset to the committed offset; in partitions without a commit, to the log end"
        " offset.",
    ),
]
ToOffset = Annotated[int | None, whole_number("--to-offset", help="Reset to this offset.")]
ShiftBy = Annotated[
    int | None,
    whole_number(
        "--shift-by", least=-INT64, help="Move offsets by N; a negative N moves them back."
    ),
]


def reset(
    groups: SomeGroups = None,
    all_groups: AllGroups = False,
    topic: Topics = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="Reset all committed offsets of the group.")
    ] = False,
    to_earliest: Annotated[
        bool, typer.Option("--to-earliest", help="Reset to the log start offset.")
    ] = False,
    to_latest: Annotated[
        bool, typer.Option("--to-latest", help="Reset to the log end offset.")
    ] = False,
    to_current: ToCurrent = False,
    to_offset: ToOffset = None,
    shift_by: ShiftBy = None,
    to_datetime: ToDatetime = None,
    by_duration: ByDuration = None,
    new_group: Annotated[
        bool,
        typer.Option("--new-group", help="Create the group if it does not exist."),
    ] = False,
    dry_run: DryRun = False,
    execute: Execute = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Move the offsets of groups without members; show offsets before and after."""
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
        raise CommandError(f"choose one target: {', '.join(targets)}", USAGE)
    if bool(topic) == all_topics:
        raise CommandError("name the partitions: --topic TOPIC[:0-1,5] or --all-topics", USAGE)
    check_named(groups, all_groups)
    cluster = Cluster(bootstrap, timeout_s=timeout)
    names = named_groups(cluster, groups, all_groups, "changed")
    known = known_groups(cluster, names, _NOT_THERE, new_ones=new_group)
    refuse_members(each.group for each in known.values())
    named = selected(cluster, topic) if topic else None
    [(name, value)] = chosen
    assert isinstance(value, int)
    changes = _planned(cluster, known, named, name, value)
    as_of_ms = value if name in OF_A_TIME else None
    finish(cluster, changes, dry_run, execute, json, as_of_ms, refreshes=to_current)


def _ago(duration: str) -> int:
    return max(0, clock.now_ms() - duration_ms(duration))


def _planned(
    cluster: Cluster,
    known: Mapping[str, Known],
    named: Sequence[Partition] | None,
    target: str,
    value: int,
) -> list[Change]:
    """Returns a change for each partition, even if its offset stays the same."""
    leaders = cluster.leaders(None)
    keys = set(named or ()) if named else {key for each in known.values() for key in each.committed}
    logs = bounds_of(cluster, {key: leaders[key] for key in sorted(keys) if key in leaders})
    at_time: Offsets = {}
    if target in OF_A_TIME:
        at_time = offsets_at(cluster, logs, value)
    return [
        _change(group_id, key, committed.get(key), logs[key], target, value, at_time.get(key))
        for group_id, (_, committed) in known.items()
        for key in (named or sorted(committed))
        if key in logs
    ]


def _change(
    group_id: str,
    key: Partition,
    before: Committed | None,
    log: Bounds,
    target: str,
    value: int,
    at_time: int | None,
) -> Change:
    wanted, note = _wanted(target, value, before, log.start, log.end, at_time)
    inside = min(max(wanted, log.start), log.end)
    if inside != wanted:
        before_start, after_end = "before the log start", "after the log end"
        note = f"offset {wanted} is {before_start if inside > wanted else after_end}"
    return Change(group_id, key, before, Committed(inside), note)


def _wanted(
    target: str, value: int, before: Committed | None, first: int, end: int, at_time: int | None
) -> tuple[int, str | None]:
    """Returns the offset to commit, and a note about it or None."""
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
