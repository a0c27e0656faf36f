"""`muster topics list` and `describe`: show sizes, partitions and readers of topics."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from cli import output
from cli.client.cluster import Cluster
from cli.client.configs import TOPIC_RESOURCE, Resource, describe_each, own_settings
from cli.client.existing import existing
from cli.client.offsets_at import bounds_of
from cli.client.topic_reads import Reader, bytes_of, readers, sizes, sizes_in
from cli.layout import Column, Columns
from cli.options import BOOTSTRAP, TIMEOUT_S, Bootstrap, Json, Timeout, Wide
from cli.sorting import Sort, Top, in_order
from client.connection import Value

Groups = Annotated[
    bool,
    typer.Option("--groups", help="Show the groups that read each topic; queries every group."),
]
READERS = ["group", "offsets", "members"]
CONFIGS_AT_ONCE = 500
"""The maximum number of topics in one DescribeConfigs request."""
_COLUMNS: Columns = [
    "partition",
    "leader",
    "in_sync",
    Column("start_offset", "START"),
    Column("end_offset", "END"),
    "records",
    "bytes",
    "replicas",
]
"""The columns of the partition table. A narrow terminal omits the last columns first."""


def list_topics(
    topics: Annotated[
        list[str] | None,
        typer.Argument(metavar="TOPIC", help="Topics, or patterns such as 'test-*'."),
    ] = None,
    internal: Annotated[
        bool, typer.Option("--internal", help="Also show internal topics.")
    ] = False,
    groups: Groups = False,
    sort: Sort = None,
    top: Top = None,
    wide: Wide = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """List topics with their records and bytes.

    RECORDS is the number of offsets between start and end; a compacted topic has fewer records.
    """
    columns = columns_of(groups, internal)
    in_order([], sort, top, columns)
    cluster = Cluster(bootstrap, timeout_s=timeout)
    answer = existing(cluster, topics or ["*"], internal=internal, fine=not topics)
    held = sizes(cluster, answer)
    names = [topic["name"] for topic in answer["topics"]]
    read_by = readers(cluster, names) if groups else {}
    rows = [_row(topic, held[topic["name"]]._asdict()) for topic in answer["topics"]]
    for row in rows if groups else ():
        row["groups"] = len(read_by[row["topic"]])
    rows = in_order(rows, sort, top, columns)
    if json and groups:
        rows = [{**row, "groups": reader_rows(read_by[row["topic"]])} for row in rows]
    output.show(
        rows, columns, "No topics yet; `muster topics create NAME` creates one", json, wide=wide
    )


def columns_of(groups: bool, internal: bool) -> list[str]:
    """Returns the columns of `topics list`. A narrow terminal omits the last columns first."""
    columns = ["topic", "partitions", "records", "bytes"]
    return [*columns, *["groups"][:groups], "replicas", *["internal"][:internal]]


def _row(topic: Value, size: Mapping[str, int | None]) -> output.Row:
    return {
        "topic": topic["name"],
        "partitions": size["partitions"],
        "replicas": max((len(p["replica_nodes"]) for p in topic["partitions"]), default=0),
        "internal": topic["is_internal"],
        "records": size["records"],
        "bytes": size["bytes"],
    }


def reader_rows(groups: Sequence[Reader]) -> list[output.Row]:
    """Returns the groups that read a topic, in the form for JSON."""
    return [
        {"group": group.group_id, "offsets": group.offsets, "members": group.members}
        for group in groups
    ]


def describe(
    topics: Annotated[
        list[str], typer.Argument(metavar="TOPIC", help="Topics, or patterns such as 'test-*'.")
    ],
    groups: Groups = False,
    sort: Sort = None,
    top: Top = None,
    wide: Wide = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Show partitions with leaders, offsets and bytes, and settings that are not defaults."""
    in_order([], sort, top, _COLUMNS)
    cluster = Cluster(bootstrap, timeout_s=timeout)
    answer = existing(cluster, topics)
    described = _described(cluster, answer)
    for entry in described:
        entry["partitions"] = in_order(entry["partitions"], sort, top, _COLUMNS)
    if groups:
        read_by = readers(cluster, [entry["topic"] for entry in described])
        for entry in described:
            entry["groups"] = reader_rows(read_by[entry["topic"]])
    if json:
        output.show_json(described)
        return
    for entry in described:
        _show(entry, wide)


def _described(cluster: Cluster, answer: Value) -> list[output.Row]:
    """Returns a row for each topic in a Metadata response, with its settings and its partitions in
    order."""
    leaders = cluster.leaders_in(answer)
    bounds, held = bounds_of(cluster, leaders), bytes_of(cluster, leaders)
    whole = sizes_in(answer, bounds, held)
    settings = _own_settings(cluster, [topic["name"] for topic in answer["topics"]])
    described = []
    for topic in answer["topics"]:
        name, topic_id = topic["name"], uuid.UUID(bytes=bytes(topic["topic_id"]))
        ordered = sorted(topic["partitions"], key=lambda p: int(p["partition_index"]))
        keyed = [((name, each["partition_index"]), each) for each in ordered]
        described.append(
            {
                "topic": name,
                "topic_id": str(topic_id) if topic_id.int else None,
                "internal": topic["is_internal"],
                "records": whole[name].records,
                "bytes": whole[name].bytes,
                "configs": settings[name],
                "partitions": [
                    _partition(each, bounds.get(key), held.get(key)) for key, each in keyed
                ],
            }
        )
    return described


def _show(entry: output.Row, wide: bool) -> None:
    """Prints one topic: a line, a table of partitions and, if requested, a table of groups."""
    parts = [
        entry["topic"],
        f"id {entry['topic_id'] or '-'}",
        "" if entry["records"] is None else output.counted(entry["records"], "record"),
        "" if entry["bytes"] is None else output.counted(entry["bytes"], "byte"),
        ", ".join(f"{name}={value}" for name, value in sorted(entry["configs"].items())),
    ]
    title = "  ".join(filter(None, parts))
    rows = [
        {**row, **{name: ",".join(map(str, row[name])) for name in ("in_sync", "replicas")}}
        for row in entry["partitions"]
    ]
    output.show_table(rows, _COLUMNS, "No partitions", title, wide=wide)
    if "groups" in entry:
        output.show_table(entry["groups"], READERS, f"No group reads {entry['topic']}", wide=wide)


def _partition(partition: Value, bounds: tuple[int, int] | None, held: int | None) -> output.Row:
    start, end = bounds if bounds is not None else (None, None)
    return {
        "partition": partition["partition_index"],
        "leader": partition["leader_id"],
        "replicas": partition["replica_nodes"],
        "in_sync": partition["isr_nodes"],
        "start_offset": start,
        "end_offset": end,
        "records": None if end is None or start is None else end - start,
        "bytes": held,
    }


def _own_settings(cluster: Cluster, topics: Sequence[str]) -> dict[str, dict[str, str]]:
    """Returns the settings that are set on the topic itself, by topic."""
    found = {}
    for first in range(0, len(topics), CONFIGS_AT_ONCE):
        asked = [Resource(TOPIC_RESOURCE, name) for name in topics[first : first + CONFIGS_AT_ONCE]]
        for resource, entries in describe_each(cluster.any, asked, explained=False).items():
            own = own_settings(resource, entries)
            found[resource.name] = {name: entry["value"] for name, entry in own.items()}
    return found
