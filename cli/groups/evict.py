"""`muster groups evict`: removes members from their group, on any Kafka broker. The command works
like Kafka's removeMembersFromConsumerGroup, but for single members, of the classic and the KIP-848
protocol. A running member learns of its removal from its next heartbeat, and rejoins with a new id.
A stuck member does not rejoin, so that the other members get its partitions at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

import typer

from cli import output
from cli.client.cluster import Cluster
from cli.client.group_reads import Group, known_group
from cli.errors import REFUSED, USAGE, CommandError
from cli.groups.removal import GONE, remove
from cli.options import BOOTSTRAP, TIMEOUT_S, Bootstrap, GroupName, Json, Timeout, Wide
from cli.plans import DryRun, Execute, Plan
from protocol import errors

_COLUMNS = ["number", "member", "instance", "client", "host", "partitions"]
_MANY = 20
_THEN = (
    "The group rebalances without {them}. A running member rejoins within seconds: stop its process"
    " to keep it out."
)


def evict(
    group: GroupName,
    members: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MEMBER", help="Member ids, or numbers as `groups describe` shows them: '#2'."
        ),
    ] = None,
    instance: Annotated[
        list[str] | None,
        typer.Option(
            "--instance",
            metavar="ID",
            help="A static member, by its group.instance.id; repeatable.",
        ),
    ] = None,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="The reason that the broker logs.")
    ] = "evicted by `muster groups evict`",
    dry_run: DryRun = False,
    execute: Execute = False,
    wide: Wide = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Remove members from a group, so that the others get the partitions of a stuck member."""
    plan = Plan(dry_run, execute, json, done="evicted").checked()
    if not members and not instance:
        raise CommandError(
            "name the members as MEMBER or --instance ID; quote a member's number: '#2'", USAGE
        )
    if execute and any(name.startswith("#") for name in members or ()):
        raise CommandError(
            "with --execute, name members by their ids: numbers change as members join and leave",
            USAGE,
        )
    cluster = Cluster(bootstrap, timeout_s=timeout)
    found = known_group(cluster, group)[0]
    chosen = _chosen(found, members or (), instance or ())
    if not json:
        _show(found, chosen, plan.title, wide)
    elif plan.shows_json:
        _show_json(group, chosen, False)
    what = output.counted(len(chosen), "member")
    if not plan.goes_on(f"Evict {what} of group {group}?"):
        return
    codes = remove(cluster.coordinator(group), group, chosen, reason)
    done = [{**row, "result": _result(code)} for row, code in zip(chosen, codes, strict=True)]
    if json:
        _show_json(group, done, True)
    else:
        for row in done:
            output.say(f"{_named(row)}: {row['result']}")
    failed = sum(code != errors.NONE and code not in GONE for code in codes)
    if failed:
        raise CommandError(f"group {group}: {failed} of {what} not evicted", REFUSED)


def _chosen(group: Group, members: Iterable[str], instances: Iterable[str]) -> list[output.Row]:
    """Returns the chosen members without duplicates. Raises CommandError for a member that does not
    exist; the text lists the existing members."""
    numbered = [{"number": f"#{n}", **row} for n, row in enumerate(group.members, 1)]
    chosen: dict[str, output.Row] = {}
    wanted = [(name, ("number" if name.startswith("#") else "member")) for name in members]
    wanted += [(name, "instance") for name in instances]
    for name, field in wanted:
        row = next((row for row in numbered if row[field] == name), None)
        if row is None:
            what = "instance" if field == "instance" else "member"
            raise CommandError(f"group {group.group_id} has no {what} {name}; {_who(numbered)}")
        chosen[row["member"]] = row
    return list(chosen.values())


def _who(members: Sequence[output.Row]) -> str:
    if not members:
        return "the group has no members"
    more = f" and {len(members) - _MANY} more" if len(members) > _MANY else ""
    return "the members are " + ", ".join(_named(row) for row in members[:_MANY]) + more


def _named(member: output.Row) -> str:
    """Returns the member id. For a static member, the instance id follows."""
    instance = f" (instance {member['instance']})" if member["instance"] else ""
    return f"{member['member']}{instance}"


def _show(group: Group, chosen: Sequence[output.Row], title: str, wide: bool) -> None:
    output.say(f"{group.group_id}  {group.state}  members {len(group.members)}")
    output.show_table(chosen, _COLUMNS, "", title, wide=wide)
    output.say_folded(_THEN.format(them="them" if len(chosen) > 1 else "it"))


def _show_json(group: str, rows: Sequence[output.Row], executed: bool) -> None:
    shown = [{key: value for key, value in row.items() if key != "number"} for row in rows]
    output.show_json({"executed": executed, "group": group, "members": shown})


def _result(code: int) -> str:
    if code == errors.NONE:
        return "evicted"
    if code in GONE:
        return "the member had already left"
    if code == errors.FENCED_INSTANCE_ID:
        return "not evicted: another process has taken over the instance id"
    return f"not evicted: {errors.NAMES.get(code, f'error {code}')}"
