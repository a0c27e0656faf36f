"""`muster transactions hanging`: finds open transactions that no coordinator will end.

The rule is that of Kafka's kafka-transactions find-hanging. An open transaction in a partition
hangs if two conditions are true. Its producer has written nothing for longer than any transaction
may last. And no transactional id has an open transaction with this producer in the partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, NamedTuple

import typer

from cli import clock, output
from cli.client.cluster import Cluster, Connection
from cli.client.configs import BROKER_RESOURCE, Resource
from cli.client.configs import describe as settings_of
from cli.client.existing import existing_partitions
from cli.client.offsets_at import Partition, stable_ends_of
from cli.client.transaction_reads import (
    Described,
    Producer,
    describe_transactions,
    list_transactions,
    producers_of,
)
from cli.errors import FOUND, CommandError
from cli.layout import Column, Columns
from cli.offsets.changes import Topics
from cli.options import BOOTSTRAP, TIMEOUT_S, Bootstrap, Json, Timeout, Wide
from cli.times import duration_ms, span
from protocol.errors import NAMES
from verdicts.commands import command, word

_COLUMNS: Columns = [
    "topic",
    "partition",
    Column("start_offset", "BEGINS-AT"),
    Column("held_back", "HELD-BACK"),
    Column("silent", "LAST-WRITE"),
    Column("producer_id", "PRODUCER"),
    Column("producer_epoch", "EPOCH"),
    Column("transactional_id", "ID"),
    "why",
]
_LONGEST = "transaction.max.timeout.ms"
_LONGEST_MS = 900_000


class Hanging(NamedTuple):
    """An open transaction in a partition, and its producer."""

    key: Partition
    producer: Producer


def hanging(
    topic: Topics = None,
    longer_than: Annotated[
        str | None,
        typer.Option(
            "--longer-than",
            metavar="TIME",
            help="Show transactions without a write for longer than this time, such as 15m;"
            " transaction.max.timeout.ms by default.",
        ),
    ] = None,
    wide: Wide = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Find open transactions that no coordinator will end; exit with 4 if one is found.

    The command checks all partitions of the cluster, or the partitions of --topic. For each
    transaction it prints the command that aborts the transaction.
    """
    least_ms = None if longer_than is None else duration_ms(longer_than, "--longer-than")
    cluster = Cluster(bootstrap, timeout_s=timeout)
    leaders = existing_partitions(cluster, topic) if topic else cluster.leaders(None)
    if least_ms is None:
        least_ms = _longest_ms(cluster)
    found = _silent(cluster, leaders, least_ms)
    rows = _rows(cluster, leaders, found)
    output.show(
        rows if json else [_for_people(row) for row in rows],
        _COLUMNS,
        _none(leaders),
        json,
        wide=wide,
    )
    if not rows:
        return
    if not json:
        output.say("Make sure that the producers are stopped, then abort the transactions:")
        for row in rows:
            output.say(f"    $ {row['command']}")
    places = output.counted(len(rows), "transaction")
    raise CommandError(f"{places} {'hangs' if len(rows) == 1 else 'hang'}", FOUND)


def _none(leaders: Mapping[Partition, Connection]) -> str:
    return f"No hanging transactions in {output.counted(len(leaders), 'partition')}"


def _longest_ms(cluster: Cluster) -> int:
    """Returns the largest transaction.max.timeout.ms of all brokers. For a broker that does not
    return the setting, Kafka's default is used."""
    longest = 0
    for broker in cluster.metadata([])["brokers"]:
        connection = cluster.connect(broker["host"], broker["port"])
        resource = Resource(BROKER_RESOURCE, str(broker["node_id"]))
        value = settings_of(connection, resource, [_LONGEST]).get(_LONGEST, {}).get("value")
        longest = max(longest, int(value) if value else _LONGEST_MS)
    return longest


def _silent(
    cluster: Cluster, leaders: Mapping[Partition, Connection], least_ms: int
) -> list[Hanging]:
    """Returns the open transactions in which no record was written in the last ``least_ms`` ms."""
    producers = producers_of(cluster, leaders)
    for (name, number), code in sorted(producers.refused.items())[:5]:
        output.warn(f"not checked: {name}:{number} ({NAMES.get(code, code)})")
    before_ms = clock.now_ms() - least_ms
    return [
        Hanging(key, each)
        for key, found in sorted(producers.found.items())
        for each in found
        if each.start_offset is not None and (each.last_ms is None or each.last_ms < before_ms)
    ]


def _rows(
    cluster: Cluster, leaders: Mapping[Partition, Connection], found: list[Hanging]
) -> list[output.Row]:
    if not found:
        return []
    ids = {each.producer.producer_id for each in found}
    listed = list_transactions(cluster, producer_ids=sorted(ids))
    asked = {each.transactional_id: each.coordinator for each in listed}
    owners = {each.producer_id: each for each in describe_transactions(cluster, asked).values()}
    ends = stable_ends_of(cluster, {each.key: leaders[each.key] for each in found})
    now_ms = clock.now_ms()
    rows = []
    for each in found:
        owner = owners.get(each.producer.producer_id)
        if owner is not None and owner.is_open and each.key in owner.partitions:
            continue  # the coordinator will end the transaction
        end = ends.get(each.key)
        place = f"{each.key[0]}:{each.key[1]}"
        last_ms = each.producer.last_ms
        start = f"--start-offset {each.producer.start_offset}"
        rows.append(
            {
                "topic": each.key[0],
                "partition": each.key[1],
                "start_offset": each.producer.start_offset,
                "held_back": None if end is None else end.lag,
                "last_write_ms": last_ms,
                "silent_ms": None if last_ms is None else max(0, now_ms - last_ms),
                "producer_id": each.producer.producer_id,
                "producer_epoch": each.producer.producer_epoch,
                "coordinator_epoch": each.producer.coordinator_epoch,
                "transactional_id": None if owner is None else owner.transactional_id,
                "why": _why(owner),
                "command": command("transactions abort", [], f"--topic {word(place)}", start),
            }
        )
    return rows


def _why(owner: Described | None) -> str:
    if owner is None:
        return "no transactional id uses this producer id"
    if owner.is_open:
        return "the transactional id's open transaction does not include this partition"
    return f"the transactional id has no open transaction ({owner.state})"


def _for_people(row: output.Row) -> output.Row:
    silent_ms = row["silent_ms"]
    return {**row, "silent": None if silent_ms is None else f"{span(silent_ms)} ago"}
