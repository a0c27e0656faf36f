"""`muster backup`: create, show and restore backups."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli import output, streams
from cli.backup.file import Backup, from_text, of_groups, to_text
from cli.backup.restoring import Comparison, carry_out, compare
from cli.backup.taking import take
from cli.client.cluster import Cluster
from cli.files import read_text, write_new
from cli.options import BOOTSTRAP, TIMEOUT_S, Bootstrap, Json, Timeout
from cli.plans import DryRun, Execute, Plan
from cli.times import instant

app = typer.Typer(
    help="Save topics, settings and committed offsets (not records) to a file; restore them.",
    no_args_is_help=True,
)
File = Annotated[Path, typer.Argument(metavar="FILE", help="The backup file.")]
Edited = Annotated[
    bool, typer.Option("--edited", help="Accept a file that was edited after the backup.")
]


@app.command()
def create(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file; - is standard output.")],
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Save topics, their settings, dynamic broker settings, and all committed offsets."""
    backup, hidden = take(Cluster(bootstrap, timeout_s=timeout))
    for name in hidden:
        output.warn(f"{name} is not in the backup: the broker hides its value")
    if str(file) == "-":
        streams.write(to_text(backup))
        return
    write_new(file, to_text(backup), "FILE")
    if json:
        output.show_json({"file": str(file), **_summary(backup)})
    else:
        output.say(f"Wrote {_counted(backup)} to {file}")


@app.command()
def show(file: File, edited: Edited = False, json: Json = False) -> None:
    """Show the contents of a backup, without a broker."""
    backup = _read(file, edited)
    if json:
        output.show_json(_summary(backup))
        return
    when = instant(backup.taken_ms, to_the_ms=True)
    output.say_folded(f"{_counted(backup)}, saved from cluster {_named(backup)}, as of {when}")
    rows: list[output.Row] = [
        {"topic": t.topic, "partitions": t.partitions, "settings": len(t.configs)}
        for t in backup.topics
    ]
    output.show_table(rows, ["topic", "partitions", "settings"], "No topics")
    groups: list[output.Row] = [
        {"group": group, "offsets": len(found), "topics": len({topic for topic, _ in found})}
        for group, found in sorted(backup.groups.items())
    ]
    output.show_table(groups, ["group", "offsets", "topics"], "No groups")


@app.command()
def restore(
    file: File,
    outside_logs: Annotated[
        bool,
        typer.Option(
            "--outside-logs", help="Also restore offsets that are outside the partition's log."
        ),
    ] = False,
    group: Annotated[
        list[str] | None,
        typer.Option(
            "--group",
            "-g",
            metavar="GROUP",
            help="Restore only this group's offsets; * matches any text; repeatable.",
        ),
    ] = None,
    edited: Edited = False,
    dry_run: DryRun = False,
    execute: Execute = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Restore topics, settings and offsets that are missing or changed; show the plan first."""
    backup = _read(file, edited)
    if group:
        backup = of_groups(backup, group)
    going = Plan(dry_run, execute, json, "restored", backup.taken_ms).checked()
    cluster = Cluster(bootstrap, timeout_s=timeout)
    made = compare(cluster, backup, outside_logs=outside_logs)
    rows = list(made.rows())
    if not json:
        going.say_as_of(f"{_counted(backup)}, saved from cluster {_named(backup)},")
    for sentence in made.left_out:
        output.warn(f"not restored: {sentence}")
    if going.shows_json or (json and not rows):
        _show_json(backup, made, executed=False)
    elif not json:
        columns = ["restores", "detail", "before", "after"]
        columns += ["note"] if any(row["note"] for row in rows) else []
        output.show_table(rows, columns, "Nothing to restore", going.title if rows else "")
    what = (
        f"{output.counted(len(made.topics), 'topic')},"
        f" {output.counted(sum(len(c.operations) for c in made.settings), 'setting')},"
        f" {output.counted(len(made.offsets), 'offset')}"
    )
    if not rows or not going.goes_on(f"Restore {what}?"):
        return
    carry_out(cluster, made)
    if json:
        _show_json(backup, made, executed=True)
    else:
        output.say(f"Restored {what}")


def _show_json(backup: Backup, made: Comparison, *, executed: bool) -> None:
    output.show_json(
        {
            "executed": executed,
            "as_of_ms": backup.taken_ms,
            "changes": list(made.rows()),
            "left_out": made.left_out,
        }
    )


def _named(backup: Backup) -> str:
    return backup.cluster or "without an id"


def _read(file: Path, edited: bool) -> Backup:
    return from_text(read_text(file), str(file), edited=edited)


def _summary(backup: Backup) -> dict[str, object]:
    return {
        "taken_ms": backup.taken_ms,
        "cluster": backup.cluster,
        "topics": len(backup.topics),
        "settings": _settings(backup),
        "groups": len(backup.groups),
        "offsets": sum(map(len, backup.groups.values())),
    }


def _settings(backup: Backup) -> int:
    of_topics = sum(len(topic.configs) for topic in backup.topics)
    return of_topics + sum(map(len, backup.brokers.values()))


def _counted(backup: Backup) -> str:
    offsets = output.counted(sum(map(len, backup.groups.values())), "offset")
    return (
        f"{output.counted(len(backup.topics), 'topic')},"
        f" {output.counted(_settings(backup), 'setting')},"
        f" {offsets} of {output.counted(len(backup.groups), 'group')}"
    )
