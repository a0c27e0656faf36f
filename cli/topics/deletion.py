"""`muster topics delete`: deletes topics, their records, and the committed offsets in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from cli import output
from cli.client.cluster import Cluster
from cli.client.existing import existing
from cli.client.new_topics import settled
from cli.client.topic_reads import Reader, Size, readers, sizes
from cli.errors import CommandError, refused
from cli.options import BOOTSTRAP, TIMEOUT_S, Bootstrap, Json, Timeout
from cli.plans import DryRun, Execute, Plan, report, show_json
from cli.topics.listing import reader_rows


def delete(
    topics: Annotated[
        list[str], typer.Argument(metavar="TOPIC", help="Topics, or patterns such as 'test-*'.")
    ],
    dry_run: DryRun = False,
    execute: Execute = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Delete topics with their records and all committed offsets; show the topics first.

    Names may be patterns, such as 'test-*'. If one of the topics does not exist, no topic is
    deleted.
    """
    plan = Plan(dry_run, execute, json, "deleted").checked()
    cluster = Cluster(bootstrap, timeout_s=timeout)
    answer = existing(cluster, topics, plan.done)
    names = [topic["name"] for topic in answer["topics"]]
    held, read_by = sizes(cluster, answer), readers(cluster, names)
    rows = [_row(name, held[name], read_by[name]) for name in names]
    if plan.shows_json:
        show_json(rows, False)
    elif not json:
        _show(rows, plan.title)
    if not plan.goes_on(_question(held, read_by)):
        return
    errors = _delete(cluster, names)
    if json:
        for row in rows:
            error = errors[row["topic"]]
            row |= {"deleted": error is None, "error": None if error is None else str(error)}
        show_json(rows, True)
    report(errors, "topic", plan.done, json=json)


def _row(topic: str, size: Size, groups: Sequence[Reader]) -> output.Row:
    return {
        "topic": topic,
        **size._asdict(),
        "groups": reader_rows(groups),
    }


def _show(rows: Sequence[output.Row], title: str) -> None:
    columns = ["topic", "partitions", "records", "bytes"]
    output.show_table(rows, columns, "", title)
    groups = [{"topic": row["topic"], **group} for row in rows for group in row["groups"]]
    with_them = "Groups with offsets or members in these topics" if groups else ""
    columns = ["group", "topic", "offsets", "members"]
    output.show_table(groups, columns, "No group has offsets or members in these topics", with_them)


def _question(held: Mapping[str, Size], read_by: Mapping[str, Sequence[Reader]]) -> str:
    found = [group for groups in read_by.values() for group in groups]
    parts = [
        f"{output.counted(len(held), 'topic')} with "
        f"{output.counted(sum(size.records or 0 for size in held.values()), 'record')}",
    ]
    if offsets := sum(group.offsets for group in found):
        groups = output.counted(len({group.group_id for group in found if group.offsets}), "group")
        parts.append(f"{output.counted(offsets, 'offset')} of {groups}")
    members = sum(group.members for group in found)
    reading = f", read by {output.counted(members, 'member')} now" if members else ""
    return f"Delete {' and '.join(parts)}{reading}?"


def _delete(cluster: Cluster, names: Sequence[str]) -> dict[str, CommandError | None]:
    """Deletes the topics. Returns the error of each topic, or None if the topic was deleted."""
    asked = {
        "topics": [{"name": name, "topic_id": bytes(16)} for name in names],
        "topic_names": names,
        "timeout_ms": int(cluster.timeout_s * 1000),
    }
    answer = cluster.controller().call("DeleteTopics", asked, cluster.timeout_s + 5)
    result: dict[str, CommandError | None] = {
        each["name"]: refused(f"topic {each['name']}", each["error_code"], each["error_message"])
        if each["error_code"]
        else None
        for each in answer["responses"]
    }
    settled(cluster, {name: 0 for name, error in result.items() if error is None})
    return {name: result[name] for name in names}
