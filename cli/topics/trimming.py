"""`muster topics trim`: deletes the oldest records of partitions (DeleteRecords)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple

import typer

from cli import output
from cli.client.cluster import Cluster, Connection
from cli.client.existing import existing_partitions
from cli.client.offsets_at import Bounds, Partition, bounds_of, offsets_at
from cli.client.topic_reads import committed_in
from cli.errors import USAGE, CommandError, refused
from cli.layout import Column, Columns
from cli.names import partitions_text
from cli.options import BOOTSTRAP, TIMEOUT_S, Bootstrap, Json, Timeout, Wide, whole_number
from cli.plans import DryRun, Execute, Plan, show_json
from cli.times import instant, since_ms
from client.connection import Value

_COLUMNS: Columns = [
    "topic",
    "partition",
    Column("start_offset", "START"),
    Column("after", "NEW-START"),
    Column("end_offset", "END"),
    "records",
    "note",
]
_BELOW: Columns = ["group", "topic", "partition", "committed", "unread"]


class Trim(NamedTuple):
    """The trimming of one partition. ``after`` is the new log start offset."""

    key: Partition
    bounds: Bounds
    after: int
    note: str | None
    below: list[tuple[str, int]]
    """The groups whose committed offset is below the new log start offset, each with its committed
    offset."""

    @property
    def records(self) -> int:
        return max(0, self.after - self.bounds.start)

    def row(self) -> output.Row:
        return {
            "topic": self.key[0],
            "partition": self.key[1],
            "start_offset": self.bounds.start,
            "after": self.after,
            "end_offset": self.bounds.end,
            "records": self.records,
            "note": self.note,
            "groups": [
                {
                    "group": group,
                    "committed": offset,
                    "unread": self.after - max(offset, self.bounds.start),
                }
                for group, offset in self.below
            ],
        }


def trim(
    partitions: Annotated[
        list[str],
        typer.Argument(metavar="TOPIC[:0-1,5]", help="A topic, or some of its partitions."),
    ],
    before_offset: Annotated[
        int | None,
        whole_number("--before-offset", help="Delete records before this offset."),
    ] = None,
    before: Annotated[
        str | None,
        typer.Option(
            "--before",
            metavar="TIME",
            help="Delete records before this time, or older than a duration such as 90m or P7D.",
        ),
    ] = None,
    to_committed: Annotated[
        bool, typer.Option("--to-committed", help="Delete records that every group has read.")
    ] = False,
    to_end: Annotated[bool, typer.Option("--to-end", help="Delete all records.")] = False,
    dry_run: DryRun = False,
    execute: Execute = False,
    wide: Wide = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Delete the oldest records of partitions; show the offsets and the affected groups first."""
    if (before_offset is not None) + (before is not None) + to_committed + to_end != 1:
        raise CommandError(
            "choose one of --before-offset N, --before TIME, --to-committed and --to-end", USAGE
        )
    as_of_ms = None if before is None else since_ms(before, "--before")
    plan = Plan(dry_run, execute, json, "trimmed", as_of_ms).checked()
    cluster = Cluster(bootstrap, timeout_s=timeout)
    leaders = existing_partitions(cluster, partitions, plan.done)
    committed = committed_in(cluster, {topic for topic, _ in leaders})
    bounds = _all_bounds(cluster, leaders)
    wanted: dict[Partition, int | None]
    if as_of_ms is not None:
        found = offsets_at(cluster, leaders, as_of_ms)
        wanted = {key: bounds[key].end if at < 0 else at for key, at in found.items()}
    elif to_committed:
        wanted = _read_by_all(committed, bounds)
    else:
        wanted = {key: each.end if to_end else before_offset for key, each in bounds.items()}
    trims = [_trim(key, bounds[key], wanted[key], committed) for key in sorted(leaders)]
    _carry_out(cluster, leaders, trims, plan, wide)


def _carry_out(
    cluster: Cluster,
    leaders: Mapping[Partition, Connection],
    trims: Sequence[Trim],
    plan: Plan,
    wide: bool,
) -> None:
    """Shows the changes, asks for confirmation, and trims the partitions."""
    rows = [each.row() for each in trims]
    going = [each for each in trims if each.records]
    if plan.shows_json or (plan.json and not going):
        show_json(rows, plan.execute, plan.as_of_ms)
    elif not plan.json:
        if plan.as_of_ms is not None:
            output.say(f"Records before {instant(plan.as_of_ms, to_the_ms=True)}")
        _show(rows, plan.title, wide)
    if not going:
        return
    records = output.counted(sum(each.records for each in going), "record")
    if plan.goes_on(f"Delete {records} of {output.counted(len(going), 'partition')}?"):
        _finish(going, rows, _delete(leaders, going, cluster.timeout_s), plan)


def _all_bounds(
    cluster: Cluster, leaders: Mapping[Partition, Connection]
) -> dict[Partition, Bounds]:
    found = bounds_of(cluster, leaders)
    for topic, partition in leaders:
        if (topic, partition) not in found:
            raise CommandError(f"{topic}:{partition} is not available now; nothing was trimmed")
    return found


def _read_by_all(
    committed: Mapping[str, Mapping[Partition, int]], bounds: Mapping[Partition, Bounds]
) -> dict[Partition, int | None]:
    """Returns the lowest committed offset of all groups in each partition; None if no group has
    committed an offset."""
    return {
        key: min((offsets[key] for offsets in committed.values() if key in offsets), default=None)
        for key in bounds
    }


def _trim(
    key: Partition,
    bounds: Bounds,
    wanted: int | None,
    committed: Mapping[str, Mapping[Partition, int]],
) -> Trim:
    note = None
    if wanted is None:
        after, note = bounds.start, "no group has a committed offset in the partition"
    elif wanted > bounds.end:
        after, note = bounds.end, f"offset {wanted} is after the log end"
    elif wanted < bounds.start:
        after, note = bounds.start, f"offset {wanted} is before the log start"
    else:
        after = wanted
    below = [
        (group, offsets[key])
        for group, offsets in sorted(committed.items())
        if key in offsets and offsets[key] < after and after > bounds.start
    ]
    return Trim(key, bounds, after, note, below)


def _show(rows: Sequence[output.Row], title: str, wide: bool) -> None:
    going = any(row["records"] for row in rows)
    output.show_table(rows, _COLUMNS, "", title if going else "", wide=wide)
    below = [
        {"topic": row["topic"], "partition": row["partition"], **group}
        for row in rows
        for group in row["groups"]
    ]
    if going:
        above = "Groups with committed offsets before the new log start"
        none = "No group has a committed offset before the new log start"
        output.show_table(below, _BELOW, none, above, wide=wide)
    else:
        output.say("Nothing to trim")


def _delete(
    leaders: Mapping[Partition, Connection], going: Sequence[Trim], timeout_s: float
) -> dict[Partition, int]:
    """Sends DeleteRecords requests. Returns the error code of each partition."""
    by_leader: dict[Connection, dict[str, list[Value]]] = {}
    for each in going:
        topic, partition = each.key
        entry = {"partition_index": partition, "offset": each.after}
        by_leader.setdefault(leaders[each.key], {}).setdefault(topic, []).append(entry)
    codes = {}
    for leader, topics in by_leader.items():
        asked = {
            "topics": [{"name": topic, "partitions": parts} for topic, parts in topics.items()],
            "timeout_ms": int(timeout_s * 1000),
        }
        for topic in leader.call("DeleteRecords", asked, timeout_s + 5)["topics"]:
            for answer in topic["partitions"]:
                codes[topic["name"], answer["partition_index"]] = answer["error_code"]
    return codes


def _finish(
    going: Sequence[Trim], rows: list[output.Row], codes: Mapping[Partition, int], plan: Plan
) -> None:
    """Prints the result for each topic and each rejected partition. Raises CommandError if a leader
    has rejected a partition."""
    for row in rows:
        code = codes.get((row["topic"], row["partition"]))
        row["trimmed"] = code == 0
        row["error"] = str(refused(_name(row), code)) if code else None
    if plan.json:
        show_json(rows, True, plan.as_of_ms)
    done: dict[str, list[Trim]] = {}
    for each in going:
        if not codes[each.key]:
            done.setdefault(each.key[0], []).append(each)
    for topic, trims in done.items() if not plan.json else ():
        where = partitions_text(topic, [each.key[1] for each in trims])
        records = output.counted(sum(each.records for each in trims), "record")
        output.say(f"Trimmed {where}: {records} deleted")
    failed = [row for row in rows if row["error"]]
    for row in failed if not plan.json else ():
        output.say(f"Not trimmed: {row['error']}")
    if failed:
        partitions = output.counted(len(going), "partition")
        where = " ".join(map(_name, failed))
        raise CommandError(f"{len(failed)} of {partitions} could not be trimmed: {where}")


def _name(row: output.Row) -> str:
    return partitions_text(row["topic"], [row["partition"]])
