"""`muster topics`: create, list, describe, grow and delete topics of any Kafka broker."""

from __future__ import annotations

import uuid
from typing import Annotated

import typer

from cli import output
from cli.client.cluster import Cluster
from cli.client.configs import TOPIC_RESOURCE, Resource, own_settings
from cli.client.configs import describe as describe_configs
from cli.client.new_topics import NewTopic, create_topics, settled
from cli.client.offsets_at import EARLIEST, LATEST, offsets_at
from cli.errors import CommandError, check
from cli.layout import Column, Columns
from cli.options import (
    BOOTSTRAP,
    TIMEOUT_S,
    Bootstrap,
    DryRunAtBroker,
    Json,
    Timeout,
    Wide,
    name_and_value,
)
from cli.topics.deletion import delete
from protocol.errors import TOPIC_ALREADY_EXISTS

app = typer.Typer(help="Create, list, describe, grow and delete topics.", no_args_is_help=True)

_PARTITIONS: Columns = [
    "partition",
    "leader",
    "replicas",
    "in_sync",
    Column("start_offset", "START"),
    Column("end_offset", "END"),
]


@app.command()
def create(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC...")],
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", help="How many; -1: the broker's default.")
    ] = -1,
    replication_factor: Annotated[
        int, typer.Option(help="Replicas of each partition; -1: the broker's default.")
    ] = -1,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", "-c", metavar="NAME=VALUE", help="A setting; repeatable."),
    ] = None,
    if_not_exists: Annotated[
        bool, typer.Option(help="Succeed when the topic exists already.")
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Create topics."""
    settings = dict(name_and_value("--config ", text) for text in config or ())
    cluster = Cluster(bootstrap, timeout_s=timeout)
    rows = []
    asked = [NewTopic(topic, partitions, replication_factor, settings) for topic in topics]
    for topic in create_topics(cluster, asked):
        exists = topic["error_code"] == TOPIC_ALREADY_EXISTS
        check(f"topic {topic['name']}", topic, *([TOPIC_ALREADY_EXISTS] if if_not_exists else []))
        rows.append({"topic": topic["name"], "created": not exists})
    settled(cluster, dict.fromkeys(topics, 1))
    if json:
        output.show_json(rows)
        return
    for row in rows:
        name = row["topic"]
        output.say(f"Created topic {name}" if row["created"] else f"Topic {name} exists already")


@app.command("list")
def list_topics(
    internal: Annotated[bool, typer.Option(help="Show internal topics too.")] = False,
    wide: Wide = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """List the topics."""
    cluster = Cluster(bootstrap, timeout_s=timeout)
    rows = [
        {
            "topic": topic["name"],
            "partitions": len(topic["partitions"]),
            "replicas": max((len(p["replica_nodes"]) for p in topic["partitions"]), default=0),
            "internal": topic["is_internal"],
        }
        for topic in sorted(cluster.metadata(None)["topics"], key=lambda t: str(t["name"]))
        if internal or not topic["is_internal"]
    ]
    columns = ["topic", "partitions", "replicas", *(["internal"] if internal else [])]
    output.show(
        rows, columns, "No topics yet; `muster topics create NAME` creates one", json, wide=wide
    )


def _own_settings(cluster: Cluster, topic: str) -> dict[str, str]:
    """The settings of a topic that are its own, not the broker's."""
    resource = Resource(TOPIC_RESOURCE, topic)
    own = own_settings(resource, describe_configs(cluster.any, resource))
    return {name: entry["value"] for name, entry in own.items()}


@app.command()
def describe(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC...")],
    wide: Wide = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Show partitions, leaders, offsets and changed settings."""
    cluster = Cluster(bootstrap, timeout_s=timeout)
    described = []
    leaders = cluster.leaders(topics)
    first, end = offsets_at(cluster, leaders, EARLIEST), offsets_at(cluster, leaders, LATEST)
    for topic in cluster.metadata(topics)["topics"]:
        partitions = [
            {
                "partition": p["partition_index"],
                "leader": p["leader_id"],
                "replicas": p["replica_nodes"],
                "in_sync": p["isr_nodes"],
                "start_offset": first.get((topic["name"], p["partition_index"])),
                "end_offset": end.get((topic["name"], p["partition_index"])),
            }
            for p in sorted(topic["partitions"], key=lambda p: int(p["partition_index"]))
        ]
        topic_id = uuid.UUID(bytes=bytes(topic["topic_id"]))
        described.append(
            {
                "topic": topic["name"],
                "topic_id": str(topic_id) if topic_id.int else None,
                "internal": topic["is_internal"],
                "configs": _own_settings(cluster, topic["name"]),
                "partitions": partitions,
            }
        )
    if json:
        output.show_json(described)
        return
    for entry in described:
        settings = ", ".join(f"{k}={v}" for k, v in sorted(entry["configs"].items()))
        title = f"{entry['topic']}  id {entry['topic_id'] or '-'}  {settings}"
        output.show_table(
            entry["partitions"], _PARTITIONS, "No partitions", title.rstrip(), wide=wide
        )


@app.command()
def grow(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", min=1, help="The new number of partitions.")
    ],
    dry_run: DryRunAtBroker = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Give a topic more partitions. Later records of a key may then go to another partition."""
    cluster = Cluster(bootstrap, timeout_s=timeout)
    before = len(cluster.leaders([topic]))
    if partitions <= before:
        raise CommandError(f"topic {topic} has {before} partitions; name a greater number")
    asked = {
        "topics": [{"name": topic, "count": partitions, "assignments": None}],
        "timeout_ms": int(timeout * 1000),
        "validate_only": dry_run,
    }
    [answer] = cluster.controller().call("CreatePartitions", asked, timeout + 5)["results"]
    check(f"topic {topic}", answer)
    if not dry_run:
        settled(cluster, {topic: partitions})
    if json:
        output.show_json(
            {"topic": topic, "before": before, "after": partitions, "made": not dry_run}
        )
        return
    grew = "would grow" if dry_run else "grew"
    output.say(f"Topic {topic} {grew} from {before} to {partitions} partitions")


app.command()(delete)
