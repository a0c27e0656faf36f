"""`muster pipeline restore`: restores the committed offsets that groups had at a given time."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from cli import clock, output
from cli.client.cluster import Cluster
from cli.client.security import CommandConfig, SourceConfig, of_source, secure
from cli.errors import REFUSED, USAGE, CommandError
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
    time_now,
)
from cli.pipeline.source import SourceOption, check_source, moment, saying
from cli.pipeline.targets import KafkaTarget, bounds_of
from cli.plans import DryRun, Execute
from cli.times import instant
from client.security import Security
from pipeline.names import means
from pipeline.repairs.plan import KAFKA, Plan

if TYPE_CHECKING:
    from pipeline.repairs.plan import Key
    from pipeline.repairs.restore import Then

AppliedAt = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT[,...]",
        envvar="MUSTER_BOOTSTRAP",
        help="Any broker of the cluster in which offsets are restored.",
    ),
]
Groups = Annotated[list[str] | None, typer.Argument(metavar="GROUP", help="The ids of groups.")]
_SHOWN = 20


AllGroups = Annotated[bool, typer.Option("--all-groups", help="Every group of the history.")]
At = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="TIME",
        help="The time to restore, such as 2026-01-31T12:00:00Z (default UTC).",
    ),
]
Inside = Annotated[
    bool,
    typer.Option(
        "--inside", help="Replace an offset outside the log with the log start or log end offset."
    ),
]
DeleteUnknown = Annotated[
    bool,
    typer.Option(
        "--delete-unknown",
        help="Delete the offset of each partition whose offset at that time is unknown.",
    ),
]
OtherCluster = Annotated[
    bool, typer.Option("--other-cluster", help="Allow the history of another cluster.")
]


class Asked(NamedTuple):
    """The restore that the options request."""

    groups: list[str]
    """The groups to restore; an empty list means all groups."""
    at: datetime
    source: str
    security: Security
    other_cluster: bool
    clamp: bool
    delete_unknown: bool


def restore(
    groups: Groups = None,
    all_groups: AllGroups = False,
    at: At = None,
    source: SourceOption = "",
    source_config: SourceConfig = None,
    bootstrap: AppliedAt = None,
    command_config: CommandConfig = None,
    inside: Inside = False,
    delete_unknown: DeleteUnknown = False,
    other_cluster: OtherCluster = False,
    plan: PlanFile = None,
    undo: Undo = None,
    apply: Apply = None,
    dry_run: DryRun = False,
    execute: Execute = False,
    force: Force = False,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Restore the offsets of groups as of a time; GROUP may contain *."""
    secure(command_config)
    manner = Manner(dry_run, execute, force, json, timeout)
    if file := check_alone(undo, apply, [groups, all_groups, at, plan]):
        carry_out_file(file, undo is not None, bootstrap, manner)
        return
    if bool(groups) == all_groups:
        raise CommandError("name the groups: GROUP... or --all-groups", USAGE)
    then = moment(at, "--at")
    if then is None:
        raise CommandError("name the time: --at 2026-01-31T12:00:00Z", USAGE)
    if then > clock.now():
        raise CommandError(f"--at {at} is in the future: choose a time in the past", USAGE)
    security = of_source(source_config)
    check_source(source, timeout, security)
    asked = Asked(groups or [], then, source, security, other_cluster, inside, delete_unknown)
    where = bootstrap or BOOTSTRAP
    target = KafkaTarget(Cluster(where, timeout_s=timeout), where)
    made = _planned(asked, target, timeout)
    carry_out(target, made, plan, manner)


def _planned(asked: Asked, target: KafkaTarget, timeout_s: float) -> Plan:
    """Returns the plan of a restore. Warns of offsets that the plan does not restore."""
    from pipeline.engines.duck import DuckEngine
    from pipeline.repairs.restore import as_of, plan_restore
    from pipeline.sources.open import open_source

    with sentences(), tempfile.TemporaryDirectory(prefix="muster-pipeline-") as scratch:
        source = open_source(asked.source, asked.security, timeout_s)
        with saying(source):
            _check_cluster(source.cluster_id, target, asked.other_cluster)
            engine = DuckEngine(scratch)
            then = as_of(engine, source, asked.at, asked.groups or None)
            engine.close()
    _check_known(then, asked)
    now = target.read_groups(key.group for key in then)
    bounds = bounds_of(target.cluster, {key.log for key in {*then, *now}})
    with sentences():
        made = plan_restore(
            then, now, bounds, clamp=asked.clamp, delete_unknown=asked.delete_unknown
        )
    warn_of(made.left)
    if made.same:
        output.warn(f"{output.counted(made.same, 'offset')} unchanged since that time")
    about = {
        "source": asked.source,
        "at": instant(round(asked.at.timestamp() * 1000), to_the_ms=True),
    }
    return Plan("restore", KAFKA, target.where, target.cluster_id, time_now(), about, made.steps)


def _check_cluster(history: str | None, target: KafkaTarget, other_cluster: bool) -> None:
    if history and target.cluster_id and history != target.cluster_id and not other_cluster:
        raise CommandError(
            f"the history is of cluster {history}, but {target.where} belongs to cluster"
            f" {target.cluster_id}. The offsets may belong to other records there: `muster pipeline"
            " replicate` translates offsets, --other-cluster uses the offsets unchanged"
        )


def _check_known(then: Mapping[Key, Then], asked: Asked) -> None:
    known = {key.group for key in then}
    for group in asked.groups:
        if not any(means(group, name) for name in known):
            raise CommandError(
                f"{asked.source} has no offsets of group {group}: `muster pipeline rates` and"
                " `muster groups list` show the groups",
                REFUSED,
            )
    if not known:
        raise CommandError(f"{asked.source} has no committed offsets", REFUSED)


def warn_of(left: Iterable[str]) -> None:
    """Prints the sentences on standard error, at most the first _SHOWN."""
    sentences = list(left)
    for sentence in sentences[:_SHOWN]:
        output.warn(sentence)
    if len(sentences) > _SHOWN:
        output.warn(f"and {len(sentences) - _SHOWN} more such offsets")
