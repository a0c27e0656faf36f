"""`muster groups describe` and `members`: show a group's verdict, members and partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cli import output
from cli.client.cluster import Cluster
from cli.client.group_names import check_named, named_groups
from cli.client.group_reads import SHARE, known_groups
from cli.groups.judging import GroupHealth, Manner, judged_without_group
from cli.groups.looking import OFFSETS, SORTED_BY, Look, for_people, looks
from cli.groups.why import finding_lines
from cli.layout import Columns
from cli.names import numbered
from cli.options import (
    BOOTSTRAP,
    TIMEOUT_S,
    AllGroups,
    Bootstrap,
    Http,
    Json,
    SomeGroups,
    Timeout,
    Wide,
)
from cli.sorting import Sort, Top, in_order

MEMBERS: Columns = ["member", "instance", "client", "host", "partitions", "tasks"]


def describe(
    groups: SomeGroups = None,
    all_groups: AllGroups = False,
    sort: Sort = None,
    top: Top = None,
    wide: Wide = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    http: Http = None,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Show verdict, state, members with their partitions, committed offsets and lag of groups.

    A group that does not exist is shown if clients tried to join the group and were refused.

    --sort and --top apply to the offsets of each group.
    """
    check_named(groups, all_groups)
    cluster = Cluster(bootstrap, timeout_s=timeout)
    names = named_groups(cluster, groups, all_groups)
    known = known_groups(cluster, names, new_ones=True, share_groups=True)
    missing = [name for name, each in known.items() if not each.exists]
    manner = Manner("groups describe", http, timeout)
    refused = judged_without_group(cluster, missing, manner)
    if unknown := [name for name in missing if name not in refused]:
        known_groups(cluster, unknown)  # raises
    there = {name: each for name, each in known.items() if each.exists}
    found = [
        *looks(cluster, there, manner),
        *(Look(known[name].group, [], health) for name, health in refused.items()),
    ]
    found = [look._replace(offsets=in_order(look.offsets, sort, top, SORTED_BY)) for look in found]
    if json:
        output.show_json([_value(look) for look in found])
        return
    for number, look in enumerate(found):
        if number:
            output.say("")
        _show(look, wide)


def _value(look: Look) -> dict[str, Any]:
    group, offsets, health = look
    return {
        "group": group.group_id,
        "state": group.state,
        "type": group.kind,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "coordinator": group.coordinator,
        "verdict": health.verdict,
        "verdict_since_ms": health.since_ms,
        "sentence": health.sentence,
        "findings": list(health.findings),
        "more_findings": health.more_findings,
        "members": group.members,
        "offsets": offsets,
        "pending_offsets": health.pending,
    }


def _show(look: Look, wide: bool) -> None:
    group, offsets, health = look
    protocol = f"  protocol {group.protocol}" if group.protocol else ""
    output.say(
        f"{group.group_id}  {group.state}{protocol}  members {len(group.members)}"
        f"  coordinator {group.coordinator}"
    )
    for line in headline(health):
        output.say_folded(line)
    for pending in health.pending or ():
        output.say_folded(pending["sentence"])
    output.say("")
    shown = group.members if wide else numbered(group.members, group.members)
    output.show_table(shown, MEMBERS, "No members", wide=wide)
    output.say("")
    if group.kind == SHARE:
        output.say_folded(
            "A share group has no committed offsets;"
            f" `muster share describe {group.group_id}` shows its records"
        )
        return
    rows = for_people(offsets, group.members, wide)
    output.show_table(rows, [*OFFSETS, "metadata"], "No committed offsets", wide=wide)


def headline(health: GroupHealth) -> list[str]:
    """Returns lines with the sentence, advice and command of each finding."""
    if health.verdict is None:
        return []
    lines = finding_lines(health.findings, "groups describe")
    if not health.findings or health.findings[0]["sentence"] != health.sentence:
        lines.insert(0, f"{health.verdict}: {health.sentence}")  # OK, or found only by this command
    if health.more_findings:
        more = output.counted(health.more_findings, "more finding")
        lines.append(f"and {more} of the same or lower severity")
    return lines


def members(
    groups: SomeGroups = None,
    all_groups: AllGroups = False,
    wide: Wide = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Show the members of groups, their hosts and their partitions."""
    check_named(groups, all_groups)
    cluster = Cluster(bootstrap, timeout_s=timeout)
    names = named_groups(cluster, groups, all_groups)
    known = known_groups(cluster, names, share_groups=True)
    rows: list[output.Row] = []
    for group_id, each in known.items():
        found: Sequence[output.Row] = each.group.members
        named = found if wide or json else numbered(found, found)
        rows += ({"group": group_id, **member} for member in named)
    several = ["group"] if len(known) > 1 else []
    output.show(rows, [*several, *MEMBERS], "No members", json, wide=wide)
