"""`muster groups delete`: deletes groups without members, with all their offsets."""

from __future__ import annotations

from collections.abc import Mapping

from cli import output
from cli.client.at_once import Call, at_once
from cli.client.cluster import Cluster
from cli.client.group_names import check_named, named_groups
from cli.client.group_reads import Known, batches, known_groups
from cli.errors import CommandError, refused
from cli.offsets.changes import Change, agreed, refuse_members
from cli.options import BOOTSTRAP, TIMEOUT_S, AllGroups, Bootstrap, Json, SomeGroups, Timeout
from cli.plans import DryRun, Execute, report, show_json

_DONE = "deleted"


def delete(
    groups: SomeGroups = None,
    all_groups: AllGroups = False,
    dry_run: DryRun = False,
    execute: Execute = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Delete groups without members, and their offsets; show the offsets first.

    If one of the groups does not exist or has members, no group is deleted.
    """
    check_named(groups, all_groups)
    cluster = Cluster(bootstrap, timeout_s=timeout)
    names = named_groups(cluster, groups, all_groups, _DONE)
    known = known_groups(cluster, names, "not found; nothing was deleted")
    refuse_members(each.group for each in known.values())
    rows = _rows(known)
    what = output.counted(len(known), "group")
    if not agreed(rows, what, dry_run, execute, json, done=_DONE):
        return
    errors = _delete(cluster, list(known))
    if json:
        texts = {name: None if error is None else str(error) for name, error in errors.items()}
        ends = {name: {"deleted": text is None, "error": text} for name, text in texts.items()}
        show_json([{**row, **ends[row["group"]]} for row in rows], True)
    report(errors, "group", _DONE, json=json)


def _rows(known: Mapping[str, Known]) -> list[output.Row]:
    rows: list[output.Row] = []
    for group_id, (_, committed) in known.items():
        gone = sorted(committed.items())
        rows += (Change(group_id, key, found, None).row() for key, found in gone)
        if not committed:
            rows.append({"group": group_id, "note": "the group has no offsets"})
    return rows


def _delete(cluster: Cluster, group_ids: list[str]) -> dict[str, CommandError | None]:
    """Deletes the groups. Returns the error of each group, or None if the group was deleted."""
    calls = [
        Call(coordinator, "DeleteGroups", {"groups_names": some})
        for coordinator, some in batches(cluster.coordinators(group_ids))
    ]
    codes = {
        result["group_id"]: result["error_code"]
        for answer in at_once(cluster, calls, "deleting groups")
        for result in answer["results"]
    }
    return {
        group_id: refused(f"group {group_id}", codes[group_id]) if codes[group_id] else None
        for group_id in group_ids
    }
