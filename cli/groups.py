"""`muster groups`: list and describe the consumer groups of any Kafka broker."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cli import output
from cli.client import Cluster
from cli.errors import CommandError, refused
from cli.offsets_at import EARLIEST, LATEST, Partition, offsets_at
from cli.options import BOOTSTRAP, TIMEOUT_S, Bootstrap, Json, Timeout
from cli.watch import watch
from cli.why import why
from protocol.consumer_protocol import assigned_partitions
from protocol.errors import GROUP_ID_NOT_FOUND, NONE, ProtocolError

app = typer.Typer(help="List, describe, explain and watch consumer groups.", no_args_is_help=True)
app.command()(why)
app.command()(watch)


@app.command("list")
def list_groups(
    state: Annotated[
        list[str] | None, typer.Option("--state", help="Only groups in this state; repeatable.")
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """List the groups."""
    cluster = Cluster(bootstrap, timeout_s=timeout)
    rows: dict[str, output.Row] = {}
    for broker in cluster.brokers():
        if state and broker.version_of("ListGroups") < 4:
            raise CommandError("this broker cannot filter groups by state (needs Kafka 2.6)")
        answer = broker.call("ListGroups", {"states_filter": state or [], "types_filter": []})
        if answer["error_code"]:
            raise refused("groups", answer["error_code"])
        for group in answer["groups"]:
            rows[group["group_id"]] = {
                "group": group["group_id"],
                "state": group["group_state"] or None,
                "type": group["group_type"] or "classic",
                "protocol_type": group["protocol_type"] or None,
            }
    listed = [rows[group] for group in sorted(rows)]
    if json:
        output.show_json(listed)
    else:
        output.show_table(listed, ["group", "state", "type", "protocol_type"], "no groups yet")


@app.command()
def describe(
    groups: Annotated[list[str], typer.Argument(metavar="GROUP...")],
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Show state, members, what each owns, committed offsets and lag."""
    cluster = Cluster(bootstrap, timeout_s=timeout)
    described = [_describe(cluster, group) for group in groups]
    if json:
        output.show_json(described)
        return
    for entry in described:
        protocol = f"  protocol {entry['protocol']}" if entry["protocol"] else ""
        output.say(
            f"{entry['group']}  {entry['state']}{protocol}  members {len(entry['members'])}"
            f"  coordinator {entry['coordinator']}"
        )
        member_columns = ["member", "instance", "client", "host", "partitions"]
        output.show_table(entry["members"], member_columns, "no members")
        output.say("")
        offset_columns = ["topic", "partition", "committed", "start_offset", "end_offset", "lag"]
        offset_columns += ["member", "metadata"]
        output.show_table(entry["offsets"], offset_columns, "no committed offsets")


def _describe(cluster: Cluster, group_id: str) -> dict[str, Any]:
    coordinator = cluster.coordinator(group_id)
    answer = coordinator.call(
        "DescribeGroups", {"groups": [group_id], "include_authorized_operations": False}
    )["groups"][0]
    code = answer["error_code"]
    if code and code != GROUP_ID_NOT_FOUND:
        raise refused(f"group {group_id}", code, answer["error_message"])
    committed = _committed(cluster, group_id)
    if not committed and (code or answer["group_state"] == "Dead"):
        raise refused(f"group {group_id}", GROUP_ID_NOT_FOUND)
    members, owners = _members(answer)
    return {
        "group": group_id,
        "state": answer["group_state"],
        "protocol_type": answer["protocol_type"],
        "protocol": answer["protocol_data"],
        "coordinator": coordinator.address,
        "members": members,
        "offsets": _offset_rows(cluster, committed, owners),
    }


def _members(answer: dict[str, Any]) -> tuple[list[output.Row], dict[Partition, str]]:
    members: list[output.Row] = []
    owners: dict[Partition, str] = {}
    for member in answer["members"]:
        try:
            assigned = assigned_partitions(bytes(member["member_assignment"]))
        except ProtocolError:
            assigned = {}  # not the consumer protocol: nobody but the members can read it
        for topic, partitions in assigned.items():
            owners.update(((topic, partition), member["member_id"]) for partition in partitions)
        members.append(
            {
                "member": member["member_id"],
                "instance": member["group_instance_id"],
                "client": member["client_id"],
                "host": member["client_host"],
                "partitions": [
                    f"{topic}:{','.join(map(str, sorted(partitions)))}"
                    for topic, partitions in sorted(assigned.items())
                ],
            }
        )
    return members, owners


def _committed(cluster: Cluster, group_id: str) -> dict[Partition, tuple[int, str]]:
    """Return partition -> (offset, metadata) of all that the group has committed."""
    coordinator = cluster.coordinator(group_id)
    if coordinator.version_of("OffsetFetch") < 2:
        raise CommandError("this broker cannot list a group's offsets (needs Kafka 0.10.2)")
    answer = coordinator.call(
        "OffsetFetch",
        {
            "group_id": group_id,
            "topics": None,
            "groups": [{"group_id": group_id, "topics": None}],
            "require_stable": False,
        },
    )
    group = answer["groups"][0] if answer["groups"] else answer
    if group["error_code"] not in (NONE, GROUP_ID_NOT_FOUND):
        raise refused(f"offsets of group {group_id}", group["error_code"])
    return {
        (topic["name"], p["partition_index"]): (p["committed_offset"], p["metadata"] or "")
        for topic in group["topics"] or ()
        for p in topic["partitions"]
        if p["committed_offset"] >= 0
    }


def _offset_rows(
    cluster: Cluster, committed: dict[Partition, tuple[int, str]], owners: dict[Partition, str]
) -> list[output.Row]:
    known = {topic["name"] for topic in cluster.metadata(None)["topics"]}
    live = [key for key in sorted(set(committed) | set(owners)) if key[0] in known]
    first, end = offsets_at(cluster, live, EARLIEST), offsets_at(cluster, live, LATEST)
    rows = []
    for key in sorted(set(committed) | set(owners)):
        offset, metadata = committed.get(key, (None, ""))
        lag = None
        if offset is not None and key in end:
            lag = max(0, end[key] - max(offset, first.get(key, 0)))
        rows.append(
            {
                "topic": key[0],
                "partition": key[1],
                "committed": offset,
                "start_offset": first.get(key),
                "end_offset": end.get(key),
                "lag": lag,
                "member": owners.get(key),
                "metadata": metadata or None,
            }
        )
    return rows
