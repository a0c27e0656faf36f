"""Writes and shows plans of offset changes, executes them after a confirmation, and undoes them. A
plan is written to its file before any offset changes, so that even a partial execution can be
undone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from cli import clock, output
from cli.client.cluster import Cluster
from cli.errors import USAGE, CommandError
from cli.files import read_text, write_new
from cli.offsets.changes import agreed
from cli.pipeline.extra import needs, sentences
from cli.pipeline.targets import KafkaTarget, OldWayTarget, Target, ZooKeeperTarget
from cli.plans import show_json
from cli.times import datetime_ms, instant
from pipeline.repairs.plan import (
    KAFKA,
    ZOOKEEPER,
    Plan,
    Position,
    Standing,
    Step,
    backwards,
    from_json,
    standing,
    to_json,
)

PlanFile = Annotated[
    Path | None,
    typer.Option(
        "--plan", metavar="FILE", help="The plan's file; default: a new file in this folder."
    ),
]
Undo = Annotated[
    Path | None,
    typer.Option(
        "--undo", metavar="PLAN", help="Undo a plan: restore the offsets that the plan replaced."
    ),
]
Apply = Annotated[
    Path | None,
    typer.Option("--apply", metavar="PLAN", help="Make the changes of this plan."),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Remove the groups' members first; overwrite offsets that other clients changed.",
    ),
]


class Manner(NamedTuple):
    """The options for the execution of a plan."""

    dry_run: bool
    execute: bool
    force: bool
    json: bool
    timeout_s: float


def carry_out(target: Target, plan: Plan, file: Path | None, manner: Manner) -> None:
    """Writes a new plan to its file, shows it, and executes it after the user's confirmation."""
    if not plan.steps:
        agreed([], "", manner.dry_run, manner.execute, manner.json)
        return
    target.check([each.key.group for each in plan.steps], manner.force)
    plan = replace(plan, steps=tuple(target.settled(plan.steps)))
    path = file or Path(f"{plan.kind}-{clock.now():%Y%m%dT%H%M%S.%fZ}.json")
    write_new(path, to_json(plan), "--plan")
    output.warn(f"wrote the plan to {path}")
    if _confirm_and_execute(target, plan.steps, manner, path, _as_of_ms(plan)):
        _rewrite(path, replace(plan, executed_at=time_now()))


def carry_out_file(path: Path, undo: bool, bootstrap: str | None, manner: Manner) -> None:
    """Executes or undoes the plan in a file. Raises CommandError if other clients have changed the
    plan's offsets, unless --force is given."""
    with sentences():
        plan = from_json(read_text(path), str(path))
        where = plan.where if plan.target == ZOOKEEPER else bootstrap or plan.where
        with closing(open_target(plan.target, where, manner.timeout_s)) as target:
            _carry_out_there(plan, path, undo, target, manner)


def _carry_out_there(plan: Plan, path: Path, undo: bool, target: Target, manner: Manner) -> None:
    if plan.cluster_id != target.cluster_id:
        raise CommandError(
            f"{path} is a plan for cluster {plan.cluster_id}, but {target.where} belongs to cluster"
            f" {target.cluster_id}: name a broker of the plan's cluster with --bootstrap"
        )
    turned = backwards(plan) if undo else plan
    found = standing(turned.steps, target.read([each.key for each in turned.steps]))
    steps = _steps(found, path, undo, manner)
    if not steps:
        agreed([], "", manner.dry_run, manner.execute, manner.json)
        return
    target.check([each.key.group for each in steps], manner.force)
    as_of_ms = None if undo else _as_of_ms(plan)
    if _confirm_and_execute(target, target.settled(steps), manner, path, as_of_ms):
        at = time_now()
        _rewrite(path, replace(plan, undone_at=at) if undo else replace(plan, executed_at=at))


def _steps(found: Standing, path: Path, undo: bool, manner: Manner) -> list[Step]:
    """Returns the steps to execute. Raises CommandError if other clients have changed the plan's
    offsets, unless --force is given."""
    if not found.differing:
        return found.ahead
    if not manner.force:
        rows = [
            {
                "group": each.key.group,
                "topic": each.key.topic,
                "partition": each.key.partition,
                "plan": _offset(each.before),
                "now": _offset(now),
            }
            for each, now in found.differing
        ]
        columns = ["group", "topic", "partition", "plan", "now"]
        if not manner.json:
            output.show_table(rows, columns, "", "Offsets that differ from the plan")
        key, then = found.differing[0][0].key, "executed" if undo else "made"
        raise CommandError(
            f"{output.counted(len(rows), 'offset')} of {path} changed after the plan was {then},"
            f" such as {key}: {rows[0]['now']} instead of {rows[0]['plan']};"
            " --force overwrites these changes"
        )
    forced = [each._replace(before=now, note="changed since") for each, now in found.differing]
    return sorted(found.ahead + forced)


def _offset(position: Position | None) -> int | None:
    return None if position is None else position.offset


def _as_of_ms(plan: Plan) -> int | None:
    """Returns the time in ms to which a plan restores offsets; None for a plan of any other
    command."""
    at = plan.about.get("at")
    return None if at is None else datetime_ms(at, "at")


def _confirm_and_execute(
    target: Target, steps: Sequence[Step], manner: Manner, path: Path, as_of_ms: int | None
) -> bool:
    """Executes the steps after the user's confirmation. Returns True if they were executed."""
    rows = [_row(each) for each in steps]
    what = output.counted(len(rows), "offset")
    if not agreed(rows, what, manner.dry_run, manner.execute, manner.json, as_of_ms):
        return False
    with sentences(interrupted=f"--undo {path} restores the offsets changed so far"):
        target.write(steps, manner.force)
    if manner.json:
        show_json(rows, True, as_of_ms)
    else:
        output.say(f"Changed {what}")
    return True


def _row(each: Step) -> output.Row:
    return {
        "group": each.key.group,
        "topic": each.key.topic,
        "partition": each.key.partition,
        "before": _offset(each.before),
        "after": _offset(each.after),
        "reread": each.reread,
        "skipped": each.skipped,
        "note": each.note,
    }


def open_target(kind: str, where: str, timeout_s: float) -> Target:
    """Connects to the cluster or ZooKeeper at the address ``where``, which stores the committed
    offsets. ``kind`` is the kind of target that the plan names."""
    if kind == ZOOKEEPER:
        needs("kazoo")
        from pipeline.repairs.zookeeper import ZooKeeperOffsets

        return ZooKeeperTarget(ZooKeeperOffsets(where, timeout_s), where)
    cluster = Cluster(where, timeout_s=timeout_s)
    return KafkaTarget(cluster, where) if kind == KAFKA else OldWayTarget(cluster, where)


def check_alone(path: Path | None, other: Path | None, named: Sequence[object]) -> Path | None:
    """Returns the file of --apply or --undo. Raises CommandError if other options are given too."""
    chosen = path or other
    if chosen is not None and ((path and other) or any(named)):
        raise CommandError(
            "--apply and --undo read everything from the plan: leave out other options", USAGE
        )
    return chosen


def time_now() -> str:
    """Returns the present time in UTC, as plan files spell it."""
    return instant(clock.now_ms())


def _rewrite(path: Path, plan: Plan) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_text(to_json(plan))
        partial.replace(path)
    except OSError as error:
        output.warn(
            f"the offsets were changed, but {path} could not be marked as executed:"
            f" {error.strerror}"
        )
