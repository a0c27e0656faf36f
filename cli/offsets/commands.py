"""`muster offsets`: reads, sets, deletes, exports and imports committed offsets."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cli import output, streams
from cli.client.cluster import Cluster
from cli.client.existing import no_partition
from cli.client.group_names import check_named, named_groups
from cli.client.group_reads import (
    Committed,
    Offsets,
    committed_of_groups,
    known_groups,
)
from cli.client.lag import lag_of, logs_of
from cli.client.offsets_at import Bounds, Partition
from cli.errors import USAGE, CommandError
from cli.files import read_text, write_text
from cli.http import api_at
from cli.names import parse_partitions
from cli.offsets import files as offset_files
from cli.offsets.changes import (
    Change,
    Topics,
    finish,
    refuse_members,
    selected,
    with_true_epochs,
)
from cli.options import (
    BOOTSTRAP,
    INT64,
    LONGEST,
    TIMEOUT_S,
    AllGroups,
    Bootstrap,
    GroupName,
    Http,
    Json,
    SomeGroups,
    Timeout,
    Wide,
)
from cli.plans import DryRun, Execute
from cli.times import duration_ms, instant, span
from verdicts.names import Verdict

app = typer.Typer(
    help="Read, set, delete, export and import committed offsets.", no_args_is_help=True
)

_COLUMNS = ["topic", "partition", "offset", "lag"]
_MORE = ["leader_epoch", "metadata"]


class Format(StrEnum):
    """The file formats of `export`."""

    JSON = "json"
    CSV = "csv"


@app.command()
def get(
    groups: SomeGroups = None,
    all_groups: AllGroups = False,
    topic: Topics = None,
    wide: Wide = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Show the committed offsets of groups; mark offsets outside the log."""
    check_named(groups, all_groups)
    cluster = Cluster(bootstrap, timeout_s=timeout)
    found = _chosen(cluster, groups, all_groups, topic)
    logs = logs_of(cluster, {key for offsets in found.values() for key in offsets})
    rows = [
        _row(group_id, key, offsets[key], logs.get(key))
        for group_id, offsets in found.items()
        for key in sorted(offsets)
    ]
    several = ["group"] if len(found) > 1 else []
    outside = ["lost_records", "verdict"] if any(row["verdict"] for row in rows) else []
    columns = [*several, *_COLUMNS, *outside, *_MORE]
    empty = f"No committed offsets of {', '.join(found)}" if found else "No groups yet"
    output.show(rows, columns, empty, json, wide=wide)


def _chosen(
    cluster: Cluster, groups: Sequence[str] | None, every: bool, topics: Sequence[str] | None
) -> dict[str, Offsets]:
    """Returns the committed offsets of groups, in the topics ``topics`` or in all topics."""
    names = named_groups(cluster, groups, every)
    committed = {name: known.committed for name, known in known_groups(cluster, names).items()}
    if not topics:
        return committed
    all_of_them = {key for offsets in committed.values() for key in offsets}
    keys = selected(cluster, topics, all_of_them)
    return {
        name: {key: offsets[key] for key in keys if key in offsets}
        for name, offsets in committed.items()
    }


def _row(group_id: str, key: Partition, found: Committed, log: Bounds | None) -> output.Row:
    lag = lag_of(found.offset, log)
    return {
        "group": group_id,
        "topic": key[0],
        "partition": key[1],
        "offset": found.offset,
        "lag": lag.records,
        "lost_records": lag.lost,
        "verdict": Verdict.OUT_OF_RANGE if lag.out_of_range else None,
        "leader_epoch": found.leader_epoch if found.leader_epoch >= 0 else None,
        "metadata": found.metadata or None,
    }


@app.command("set")
def set_offsets(
    group: GroupName,
    offsets: Annotated[
        list[str],
        typer.Argument(
            metavar="TOPIC:PARTITION=OFFSET",
            help="An offset, such as orders:0=42 or orders:0-1,5=42.",
        ),
    ],
    metadata: Annotated[
        str, typer.Option("--metadata", metavar="TEXT", help="Metadata to commit with each offset.")
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Allow offsets outside the log.")] = False,
    dry_run: DryRun = False,
    execute: Execute = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Commit offsets for a group without members; create the group if needed."""
    assigned = [each for text in offsets for each in _assigned(text)]
    wanted = dict(assigned)
    if len(wanted) < len(assigned):
        keys = [key for key, _ in assigned]
        topic, partition = next(key for key in keys if keys.count(key) > 1)
        raise CommandError(f"partition {topic}:{partition} is named twice", USAGE)
    cluster = Cluster(bootstrap, timeout_s=timeout)
    found = {key: Committed(offset, metadata) for key, offset in wanted.items()}
    changes = _changes(cluster, {group: found}, force)
    finish(cluster, changes, dry_run, execute, json)


def _assigned(text: str) -> list[tuple[Partition, int]]:
    where, _, offset = text.rpartition("=")
    is_offset = offset.isascii() and offset.isdecimal() and len(offset) <= LONGEST
    if not (is_offset and ":" in where and int(offset) <= INT64):
        raise CommandError(f"{text}: write it as TOPIC:PARTITION=OFFSET, as in orders:0=42", USAGE)
    topic, numbers = parse_partitions(where)
    return [((topic, number), int(offset)) for number in numbers or ()]


@app.command()
def delete(
    groups: SomeGroups = None,
    all_groups: AllGroups = False,
    topic: Topics = None,
    dry_run: DryRun = False,
    execute: Execute = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Delete committed offsets of topics to which no member of the group is subscribed."""
    check_named(groups, all_groups)
    if not topic:
        raise CommandError(
            "name topics with --topic TOPIC[:0-1,5]",
            USAGE,
        )
    cluster = Cluster(bootstrap, timeout_s=timeout)
    changes = [
        Change(group_id, key, offsets[key], None)
        for group_id, offsets in _chosen(cluster, groups, all_groups, topic).items()
        for key in sorted(offsets)
    ]
    finish(cluster, changes, dry_run, execute, json)


@app.command()
def export(
    groups: SomeGroups = None,
    form: Annotated[Format, typer.Option("--format", help="The file format.")] = Format.JSON,
    output_file: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write to this file instead of standard output."
        ),
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
) -> None:
    """Write the offsets of the named groups, or of all groups, to a file for `import`."""
    cluster = Cluster(bootstrap, timeout_s=timeout)
    names = named_groups(cluster, groups, every=not groups)
    if groups:
        found = {name: known.committed for name, known in known_groups(cluster, names).items()}
    else:
        found = committed_of_groups(cluster, cluster.coordinators(names))
    text = offset_files.as_csv(found) if form == Format.CSV else offset_files.as_json(found)
    if output_file is None:
        streams.write(text)
        return
    write_text(output_file, text)
    offsets = output.counted(sum(map(len, found.values())), "offset")
    groups_counted = output.counted(len(found), "group")
    output.say(f"Exported {offsets} of {groups_counted} to {output_file}")


@app.command("import")
def import_offsets(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file, or - for standard input.")],
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-g",
            metavar="GROUP",
            help="Commit the offsets for this group instead of the group in the file.",
        ),
    ] = None,
    dry_run: DryRun = False,
    execute: Execute = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Commit the offsets of a JSON or CSV file from `export` or kafka-consumer-groups."""
    groups = offset_files.read(_text(file), "standard input" if file == "-" else file, group)
    cluster = Cluster(bootstrap, timeout_s=timeout)
    changes = _changes(cluster, groups, force=True)
    finish(cluster, changes, dry_run, execute, json)


def _text(file: str) -> str:
    if file != "-":
        return read_text(Path(file))
    try:
        return sys.stdin.read()
    except UnicodeDecodeError:
        raise CommandError("standard input is not text", USAGE) from None


def _changes(cluster: Cluster, groups: offset_files.Groups, force: bool) -> list[Change]:
    """Returns the changes that commit the offsets in ``groups``. Raises CommandError for an offset
    outside the log, unless ``force`` is set."""
    keys = sorted({key for found in groups.values() for key in found})
    partitions = set(cluster.leaders(sorted({topic for topic, _ in keys})))
    for topic, partition in keys:
        if (topic, partition) not in partitions:
            raise no_partition(f"{topic}:{partition}", topic)
    logs = logs_of(cluster, keys)
    changes = []
    now = known_groups(cluster, groups, new_ones=True)
    refuse_members(known.group for known in now.values())
    for group_id, found in groups.items():
        before = now[group_id].committed
        new = [] if now[group_id].exists else ["the commit creates the group"]
        for key, after in sorted(found.items()):
            outside = _outside(key, after.offset, logs.get(key))
            if outside and not force:
                sentence = f"offset {after.offset} is {outside}; --force commits the offset anyway"
                raise CommandError(sentence)
            note = "; ".join([*new, outside] if outside else new) or None
            changes.append(Change(group_id, key, before.get(key), after, note))
    return with_true_epochs(cluster, changes)


def _outside(key: Partition, offset: int, log: Bounds | None) -> str | None:
    """Returns a note about an offset that is outside the log; None for an offset inside the log."""
    if log is None or log.start <= offset <= log.end:
        return None
    return f"outside {key[0]}:{key[1]}, which has offsets {log.start} to {log.end}"


@app.command()
def expiring(
    within: Annotated[
        str,
        typer.Option(
            "--within",
            metavar="TIME",
            help="Show offsets that expire within this time, such as 30m, 12h or 7d.",
        ),
    ] = "1d",
    group: Annotated[
        str | None, typer.Option("--group", metavar="GROUP", help="Show only this group.")
    ] = None,
    wide: Wide = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    http: Http = None,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Show which offsets will expire, when and why. Needs Muster's HTTP API."""
    within_ms = duration_ms(within, "--within")
    api = api_at(bootstrap, "offsets expiring", http, timeout)
    answer = api.get("/api/offsets/expiring", within_ms=within_ms, group=group)
    rows = sorted(answer["offsets"], key=lambda row: (row["expires_ms"], row["group"]))
    if json:
        output.show_json({**answer, "offsets": rows})
        return
    for row in rows:
        row["expires"] = instant(row["expires_ms"])
        row["in"] = span(row["expires_in_ms"]) if row["expires_in_ms"] else "next check"
        row["committed"] = instant(row["committed_ms"])
    columns = ["group", "topic", "partition", "offset", "committed", "expires", "in", "why"]
    output.show_table(rows, columns, f"No offset expires within {within}", wide=wide)
