"""`muster groups delete`: groups without members, with all their offsets."""

from __future__ import annotations

from cli import output
from cli.client.cluster import Cluster
from cli.client.group_reads import known_group
from cli.errors import check
from cli.offsets.changes import Change, agreed, refuse_members
from cli.options import BOOTSTRAP, TIMEOUT_S, Bootstrap, GroupNames, Json, Timeout
from cli.plans import DryRun, Execute, show_json


def delete(
    groups: GroupNames,
    dry_run: DryRun = False,
    execute: Execute = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Delete groups without members, and their offsets; show the offsets first."""
    cluster = Cluster(bootstrap, timeout_s=timeout)
    rows: list[output.Row] = []
    for group_id in groups:
        group, committed = known_group(cluster, group_id)
        refuse_members(group)
        gone = sorted(committed.items())
        rows += (Change(group_id, key, found, None).row() for key, found in gone)
        if not committed:
            rows.append({"group": group_id, "note": "the group has no offsets"})
    if not agreed(rows, output.counted(len(groups), "group"), dry_run, execute, json):
        return
    for group_id in output.progress(groups, "deleting groups"):
        asked = {"groups_names": [group_id]}
        [result] = cluster.coordinator(group_id).call("DeleteGroups", asked)["results"]
        check(f"group {group_id}", result)
        if not json:
            output.say(f"Deleted group {group_id}")
    if json:
        show_json(rows, True)
