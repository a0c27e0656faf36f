"""`muster pipeline replicate`: copies committed offsets to another cluster that has the same
records, possibly at other offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from cli import output
from cli.client.cluster import Cluster
from cli.client.group_reads import known_group, list_groups
from cli.client.offsets_at import offsets_at
from cli.client.records_at import records_at
from cli.client.security import CommandConfig, SourceConfig, of_source, secure
from cli.errors import USAGE, CommandError
from cli.options import BOOTSTRAP, TIMEOUT_S, Json, Timeout
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
from cli.pipeline.restore import AppliedAt, Groups, warn_of
from cli.pipeline.source import is_address
from cli.pipeline.targets import KafkaTarget, bounds_of
from cli.plans import DryRun, Execute
from pipeline.repairs.plan import KAFKA, Key, Log, Plan, Position
from pipeline.repairs.replicate import Known, Located, plan_replication

From = Annotated[
    str,
    typer.Option(
        "--source",
        metavar="HOST:PORT",
        envvar="MUSTER_SOURCE",
        help="Any broker of the cluster from which offsets are copied.",
    ),
]


def replicate(
    groups: Groups = None,
    all_groups: Annotated[
        bool, typer.Option("--all-groups", help="Every group of the source.")
    ] = False,
    source: From = "",
    source_config: SourceConfig = None,
    bootstrap: AppliedAt = None,
    command_config: CommandConfig = None,
    plan: PlanFile = None,
    undo: Undo = None,
    apply: Apply = None,
    dry_run: DryRun = False,
    execute: Execute = False,
    force: Force = False,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Copy committed offsets to another cluster, translated by the timestamps of records."""
    secure(command_config)
    manner = Manner(dry_run, execute, force, json, timeout)
    if file := check_alone(undo, apply, [groups, all_groups, plan]):
        carry_out_file(file, undo is not None, bootstrap, manner)
        return
    if bool(groups) == all_groups:
        raise CommandError("name the groups: GROUP... or --all-groups", USAGE)
    if not is_address(source):
        raise CommandError("name a broker of the source cluster: --source HOST:PORT", USAGE)
    where = bootstrap or BOOTSTRAP
    security = of_source(source_config)
    origin = KafkaTarget(Cluster(source, timeout_s=timeout, security=security), source)
    target = KafkaTarget(Cluster(where, timeout_s=timeout), where)
    if origin.cluster_id is not None and origin.cluster_id == target.cluster_id:
        raise CommandError(
            f"{source} and {where} are the same cluster, {target.cluster_id}: name two clusters"
        )
    names = groups or [row["group"] for row in list_groups(origin.cluster)]
    for name in groups or ():
        known_group(origin.cluster, name)
    committed = origin.read_groups(names)
    known = what_is_known(origin.cluster, target.cluster, committed)
    made = plan_replication(committed, target.read_groups({key.group for key in committed}), known)
    warn_of(made.left)
    if made.same:
        output.warn(f"{output.counted(made.same, 'offset')} already correct in the target cluster")
    about = {"source": source, "source_cluster_id": origin.cluster_id or ""}
    carry_out(
        target,
        Plan("replicate", KAFKA, where, target.cluster_id, time_now(), about, made.steps),
        plan,
        manner,
    )


def what_is_known(
    source: Cluster, target: Cluster, committed: Mapping[Key, Position]
) -> dict[tuple[Log, int], Known]:
    """Returns what is known about each committed offset, in the source and in the target: the log
    bounds of its partition, and the records at the offset."""
    wanted = sorted({(key.log, position.offset) for key, position in committed.items()})
    logs = {log for log, _ in wanted}
    bounds, there = bounds_of(source, logs), bounds_of(target, logs)
    found: dict[tuple[Log, int], Known] = {}
    for part in output.progress(_rounds(wanted), "looking up timestamps"):
        # A partition that the source lacks has no record to search for.
        starts = {
            log: max(offset, bounds[log].first) for log, offset in part.items() if log in bounds
        }
        records = {log: Located(*at) for log, at in records_at(source, starts).items()}
        inside = {
            log: starts[log]
            for log in records
            if log in there and there[log].first <= starts[log] < there[log].end
        }
        beside = {log: Located(*at) for log, at in records_at(target, inside).items()}
        times = {
            log: record.timestamp_ms
            for log, record in records.items()
            if log in there and record.timestamp_ms >= 0
        }
        by_time = offsets_at(target, times, times)
        alike = {log: times[log] for log in beside if beside[log] == records[log] and log in times}
        at_source = offsets_at(source, alike, alike)
        for log, offset in part.items():
            late, first = by_time.get(log, -1), at_source.get(log, -1)
            found[log, offset] = Known(
                bounds.get(log),
                there.get(log),
                records.get(log),
                beside.get(log),
                late if late >= 0 else None,
                first if first >= 0 else None,
            )
    return found


def _rounds(wanted: Sequence[tuple[Log, int]]) -> list[dict[Log, int]]:
    """Splits the pairs of partition and offset into as few lists as possible, so that a list
    contains each partition at most once. A partition is in several pairs if groups have different
    offsets in it."""
    rounds: list[dict[Log, int]] = []
    taken: dict[Log, int] = {}
    for log, offset in wanted:
        at = taken.get(log, 0)
        taken[log] = at + 1
        if at == len(rounds):
            rounds.append({})
        rounds[at][log] = offset
    return rounds
