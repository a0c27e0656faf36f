"""`muster topics`: creates, lists, describes, grows, trims and deletes topics."""

from __future__ import annotations

from typing import Annotated

import typer

from cli import output
from cli.client.cluster import Cluster
from cli.client.new_topics import NewTopic, create_topics, settled
from cli.errors import CommandError, check, refused
from cli.options import (
    BOOTSTRAP,
    INT16,
    INT32,
    TIMEOUT_S,
    Bootstrap,
    DryRunAtBroker,
    Json,
    Timeout,
    TopicName,
    TopicNames,
    name_and_value,
    whole_number,
)
from cli.plans import report
from cli.topics.deletion import delete
from cli.topics.listing import describe, list_topics
from cli.topics.trimming import trim
from protocol.errors import TOPIC_ALREADY_EXISTS

app = typer.Typer(
    help="Create, list, describe, alter (grow, trim) and delete topics.", no_args_is_help=True
)


@app.command()
def create(
    topics: TopicNames,
    partitions: Annotated[
        int,
        whole_number(
            "--partitions",
            "-p",
            least=-1,
            most=INT32,
            help="Number of partitions; -1 is the broker's default.",
        ),
    ] = -1,
    replication_factor: Annotated[
        int,
        whole_number(
            "--replication-factor",
            least=-1,
            most=INT16,
            help="Replicas per partition; -1 is the broker's default.",
        ),
    ] = -1,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", "-c", metavar="NAME=VALUE", help="A topic setting; repeatable."),
    ] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Succeed if the topic already exists.")
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Create topics."""
    settings = dict(name_and_value("--config ", text) for text in config or ())
    cluster = Cluster(bootstrap, timeout_s=timeout)
    asked = [NewTopic(topic, partitions, replication_factor, settings) for topic in topics]
    answered = {topic["name"]: topic for topic in create_topics(cluster, asked)}
    codes = {name: answered[name] for name in topics}
    there = [n for n in codes if if_not_exists and codes[n]["error_code"] == TOPIC_ALREADY_EXISTS]
    errors = {
        name: refused(f"topic {name}", answer["error_code"], answer["error_message"])
        if answer["error_code"]
        else None
        for name, answer in codes.items()
        if name not in there
    }
    made = [name for name, error in errors.items() if error is None]
    settled(cluster, dict.fromkeys([*made, *there], 1))
    if json:
        texts = {name: None if error is None else str(error) for name, error in errors.items()}
        output.show_json([{"topic": n, "created": n in made, "error": texts.get(n)} for n in codes])
    else:
        for name in there:
            output.say(f"Topic {name} already exists")
    report(errors, "topic", "created", json=json)


@app.command()
def grow(
    topic: TopicName,
    partitions: Annotated[
        int,
        whole_number(
            "--partitions", "-p", least=1, most=INT32, help="The new number of partitions."
        ),
    ],
    dry_run: DryRunAtBroker = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Add partitions to a topic. New records of a key may then go to another partition."""
    cluster = Cluster(bootstrap, timeout_s=timeout)
    before = len(cluster.leaders([topic]))
    if partitions <= before:
        raise CommandError(f"topic {topic} already has {before} partitions; choose a larger number")
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


app.command("list")(list_topics)
app.command()(describe)
app.command()(trim)
app.command()(delete)
