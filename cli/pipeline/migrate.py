"""`muster pipeline migrate`: moves committed offsets from ZooKeeper to __consumer_offsets, or
back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from cli import output
from cli.client.cluster import Cluster
from cli.client.group_reads import known_group
from cli.client.security import CommandConfig, secure
from cli.errors import USAGE, CommandError
from cli.files import read_text, write_new
from cli.offsets import files as offset_files
from cli.options import BOOTSTRAP, TIMEOUT_S, Json, Timeout
from cli.pipeline.extra import sentences
from cli.pipeline.plans import (
    Apply,
    Force,
    Manner,
    PlanFile,
    Undo,
    carry_out,
    carry_out_file,
    check_alone,
    open_target,
    time_now,
)
from cli.pipeline.restore import AppliedAt, Groups, warn_of
from cli.pipeline.targets import KafkaTarget, OldWayTarget, Target, ZooKeeperTarget, bounds_of
from cli.plans import DryRun, Execute
from pipeline.repairs.migrate import (
    ABSENT,
    NEWER,
    Finding,
    Migration,
    is_zk_export,
    plan_migration,
    read_zk_export,
)
from pipeline.repairs.plan import OLD_WAY, ZOOKEEPER, Key, Plan, Position

ZooKeeper = Annotated[
    str | None,
    typer.Option(
        "--zookeeper",
        "-z",
        metavar="HOST:PORT[/CHROOT]",
        help="The ZooKeeper that has the offsets.",
    ),
]


class Side(NamedTuple):
    """The source or the target of a migration, with the committed offsets of the groups to
    migrate."""

    target: Target | None
    """The storage to which offsets can be written; None for a file, which can only be read."""
    name: str
    positions: Mapping[Key, Position]


File = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="FILE",
        help="An export file: JSON, CSV, or the format of ExportZkOffsets.",
    ),
]
OldWay = Annotated[
    bool,
    typer.Option("--old-way", help="Use the offsets that the broker returns for OffsetFetch v0."),
]
Back = Annotated[
    bool,
    typer.Option("--back", help="Roll back: copy offsets from __consumer_offsets to ZooKeeper."),
]
Backwards = Annotated[
    bool, typer.Option("--backwards", help="Also move back offsets that are ahead of the source.")
]
SkipUnreadable = Annotated[
    bool, typer.Option("--skip-unreadable", help="Skip paths that do not contain an offset.")
]
Report = Annotated[
    Path | None,
    typer.Option("--report", metavar="FILE", help="Write offsets of source and target as JSON."),
]


class Asked(NamedTuple):
    """The migration that the options request."""

    groups: list[str]
    """The groups to migrate; an empty list means all groups."""
    zookeeper: str | None
    file: Path | None
    old_way: bool
    back: bool
    backwards: bool
    skip_unreadable: bool
    report: Path | None


def migrate(
    groups: Groups = None,
    zookeeper: ZooKeeper = None,
    file: File = None,
    old_way: OldWay = False,
    bootstrap: AppliedAt = None,
    command_config: CommandConfig = None,
    back: Back = False,
    backwards: Backwards = False,
    skip_unreadable: SkipUnreadable = False,
    report: Report = None,
    plan: PlanFile = None,
    undo: Undo = None,
    apply: Apply = None,
    dry_run: DryRun = False,
    execute: Execute = False,
    force: Force = False,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Move offsets from ZooKeeper's consumer paths, or an export, to Kafka's log, or back."""
    secure(command_config)
    manner = Manner(dry_run, execute, force, json, timeout)
    asked = Asked(groups or [], zookeeper, file, old_way, back, backwards, skip_unreadable, report)
    if named := check_alone(undo, apply, [*asked, plan]):
        carry_out_file(named, undo is not None, bootstrap, manner)
        return
    where = bootstrap or BOOTSTRAP
    with sentences(), ExitStack() as ends:
        log = KafkaTarget(Cluster(where, timeout_s=timeout), where)
        old = _old_side(asked, log, timeout)
        if old.target is not None:
            ends.callback(old.target.close)
        _move(asked, log, old, plan, manner)


def _move(asked: Asked, log: KafkaTarget, old: Side, file: Path | None, manner: Manner) -> None:
    """Compares source and target, and sets the target's offsets to the source's offsets."""
    names = {*asked.groups, *(key.group for key in old.positions)}
    kafka = Side(log, f"Kafka at {log.where}", log.read_groups(names))
    source, goal = (kafka, old) if asked.back else (old, kafka)
    target = goal.target
    if target is None:
        raise CommandError(
            "--back needs --zookeeper or --old-way; to write a file, use `muster offsets export`",
            USAGE,
        )
    _check_there(source, asked.groups)
    bounds = bounds_of(log.cluster, {key.log for key in source.positions})
    made = plan_migration(
        source.positions,
        goal.positions,
        bounds,
        backwards=asked.backwards,
        keeps_metadata=target is log,
    )
    _show_counts(made, source, goal, asked)
    about = {"source": source.name, **{name: str(n) for name, n in made.counts().items()}}
    fresh = Plan(
        "migrate", target.kind, target.where, target.cluster_id, time_now(), about, made.steps
    )
    carry_out(target, fresh, file, manner)


def _old_side(asked: Asked, log: KafkaTarget, timeout_s: float) -> Side:
    zookeeper, file = asked.zookeeper, asked.file
    if sum((zookeeper is not None, file is not None, asked.old_way)) != 1:
        raise CommandError("name one source: --zookeeper, --from or --old-way", USAGE)
    if file is not None:
        return Side(None, str(file), _of_groups(_of_file(file), asked.groups))
    if zookeeper is not None:
        paths = open_target(ZOOKEEPER, zookeeper, timeout_s)
        assert isinstance(paths, ZooKeeperTarget)
        return _of_zookeeper(paths, asked)
    if not asked.groups:
        raise CommandError(
            "--old-way needs GROUP...: brokers can't list the groups that committed with"
            " OffsetCommit v0",
            USAGE,
        )
    served = OldWayTarget(log.cluster, log.where)
    keys = [
        Key(group, topic["name"], partition["partition_index"])
        for group in asked.groups
        for topic in log.cluster.metadata(None)["topics"]
        for partition in topic["partitions"]
    ]
    return Side(served, f"{OLD_WAY} at {log.where}", served.read(keys))


def _of_zookeeper(paths: ZooKeeperTarget, asked: Asked) -> Side:
    found = paths.offsets.read(asked.groups or paths.offsets.groups())
    for path, text in found.unreadable:
        output.warn(f"{path} does not contain an offset: {text!r}")
    if found.unreadable and not asked.skip_unreadable:
        raise CommandError(
            f"nothing was changed, because {output.counted(len(found.unreadable), 'path')} can't be"
            " read; --skip-unreadable skips such paths"
        )
    if not asked.back:
        for group, running in found.running.items():
            output.warn(
                f"group {group} still commits to ZooKeeper with"
                f" {output.counted(running, 'consumer')}; run this command again after the group"
                " has stopped committing to ZooKeeper"
            )
    return Side(paths, f"ZooKeeper at {paths.where}", found.positions)


def _of_file(file: Path) -> dict[Key, Position]:
    text = read_text(file)
    if is_zk_export(text):
        return read_zk_export(text, str(file))
    return {
        Key(group, *partition): Position(*committed)
        for group, offsets in offset_files.read(text, str(file), None).items()
        for partition, committed in offsets.items()
    }


def _of_groups(positions: Mapping[Key, Position], groups: Sequence[str]) -> dict[Key, Position]:
    return {key: at for key, at in positions.items() if not groups or key.group in groups}


def _check_there(source: Side, groups: Iterable[str]) -> None:
    """Raises CommandError if the source does not contain a named group, or contains no offsets."""
    known = {key.group for key in source.positions}
    for group in groups:
        if group not in known:
            if isinstance(source.target, KafkaTarget):
                known_group(source.target.cluster, group)
            raise CommandError(f"{source.name} has no offsets of group {group}")
    if not known:
        raise CommandError(f"{source.name} has no committed offsets")


def _show_counts(made: Migration, source: Side, goal: Side, asked: Asked) -> None:
    """Shows the number of offsets for each outcome, lists the offsets that do not move, and writes
    the report."""
    counts = ", ".join(f"{count} {outcome}" for outcome, count in made.counts().items() if count)
    output.warn(f"from {source.name} to {goal.name}: {counts}")
    warn_of(
        f"{f.key}: stays at offset {f.target.offset if f.target else None}, ahead of offset"
        f" {f.source.offset} of the source; --backwards moves such offsets back"
        if f.outcome == NEWER
        else f"{f.key}: offset {f.source.offset} is left out, because the partition does not exist"
        for f in made.findings
        if f.outcome == ABSENT or (f.outcome == NEWER and not asked.backwards)
    )
    if asked.report is not None:
        import json

        rows = [_finding(each) for each in made.findings]
        text = json.dumps({"source": source.name, "target": goal.name, "offsets": rows}, indent=2)
        write_new(asked.report, text + "\n", "--report")


def _finding(each: Finding) -> output.Row:
    return {
        "group": each.key.group,
        "topic": each.key.topic,
        "partition": each.key.partition,
        "source": each.source.offset,
        "target": each.target.offset if each.target is not None else None,
        "outcome": each.outcome,
    }
