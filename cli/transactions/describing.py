"""`muster transactions describe`: shows the partitions of a transaction, and the records that it
holds back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple

import typer

from cli import clock, output
from cli.client.cluster import Cluster, Connection
from cli.client.existing import existing_partitions
from cli.client.offsets_at import Partition, StableEnd, stable_ends_of
from cli.client.transaction_reads import (
    Described,
    Producer,
    Producers,
    known_transactions,
    producers_of,
)
from cli.errors import USAGE, CommandError, refused
from cli.layout import Column, Columns
from cli.offsets.changes import Topics
from cli.options import BOOTSTRAP, TIMEOUT_S, Bootstrap, Json, Timeout, Wide
from cli.times import instant, span
from cli.transactions.shown import row_of

_PARTITIONS: Columns = [
    "topic",
    "partition",
    Column("start_offset", "BEGINS-AT", always=True),
    Column("last_stable_offset", "STABLE"),
    Column("end_offset", "END"),
    Column("held_back", "HELD-BACK", always=True),
    "holds",
    Column("open_transactions", "OPEN"),
    Column("last_write", "LAST-WRITE"),
]
_PRODUCERS: Columns = [
    "topic",
    "partition",
    Column("producer_id", "PRODUCER"),
    Column("producer_epoch", "EPOCH"),
    Column("start_offset", "BEGINS-AT", always=True),
    "holds",
    Column("last_sequence", "SEQUENCE"),
    Column("last_write", "LAST-WRITE"),
    Column("coordinator_epoch", "COORDINATOR-EPOCH"),
]


class Look(NamedTuple):
    """The state of partitions, which is read once for all transactional ids."""

    ends: Mapping[Partition, StableEnd]
    producers: Producers
    now_ms: int


def describe(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="Transactional ids.")
    ] = None,
    topic: Topics = None,
    wide: Wide = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Show transactions with their partitions and the records that each holds back.

    With --topic, show the producers of partitions instead, with the start offset of each open
    transaction, for `transactions abort`.
    """
    if bool(ids) == bool(topic):
        raise CommandError(
            "name transactional ids, or partitions with --topic TOPIC[:0-1,5]", USAGE
        )
    cluster = Cluster(bootstrap, timeout_s=timeout)
    if topic:
        leaders = existing_partitions(cluster, topic)
        look = look_at(cluster, leaders)
        rows = [row for key in leaders for row in _producers(key, look)]
        shown = rows if json else [_for_people(row, look.now_ms) for row in rows]
        output.show(shown, _PRODUCERS, "No producers", json, wide=wide)
        return
    known = known_transactions(cluster, ids or [])
    leaders = cluster.leaders(None)
    wanted = {key for each in known.values() for key in each.partitions}
    look = look_at(cluster, {key: leaders[key] for key in sorted(wanted) if key in leaders})
    found = [_whole(each, look) for each in known.values()]
    if json:
        output.show_json(found)
        return
    for number, row in enumerate(found):
        if number:
            output.say("")
        _show(row, look.now_ms, wide)


def look_at(cluster: Cluster, leaders: Mapping[Partition, Connection]) -> Look:
    """Returns the state of partitions. Raises CommandError for a partition that its leader
    rejects."""
    producers = producers_of(cluster, leaders)
    for (topic, partition), code in producers.refused.items():
        raise refused(f"producers of {topic}:{partition}", code)
    return Look(stable_ends_of(cluster, leaders), producers, clock.now_ms())


def _whole(found: Described, look: Look) -> output.Row:
    row = row_of(found, look.now_ms)
    row["partitions"] = [_partition(found, key, look) for key in found.partitions]
    return row


def _partition(found: Described, key: Partition, look: Look) -> output.Row:
    ends = look.ends.get(key)
    producers = look.producers.found.get(key, ())
    mine = next((each for each in producers if each.producer_id == found.producer_id), None)
    start = None if mine is None else mine.start_offset
    return {
        "topic": key[0],
        "partition": key[1],
        "start_offset": start,
        "last_stable_offset": None if ends is None else ends.stable,
        "end_offset": None if ends is None else ends.end,
        "held_back": None if ends is None else ends.lag,
        "holds": _holds(start, ends),
        "open_transactions": sum(each.start_offset is not None for each in producers),
        "last_write_ms": None if mine is None else mine.last_ms,
    }


def _holds(start: int | None, ends: StableEnd | None) -> bool:
    """Returns True if the transaction that begins at ``start`` holds back the last stable
    offset."""
    return start is not None and ends is not None and start <= ends.stable < ends.end


def _producers(key: Partition, look: Look) -> list[output.Row]:
    """Returns the producers of a partition. The producer of the oldest open transaction comes
    first."""
    ends = look.ends.get(key)
    found = sorted(look.producers.found[key], key=_open_first)
    return [_producer(key, each, ends) for each in found]


def _open_first(each: Producer) -> tuple[bool, int, int]:
    return each.start_offset is None, each.start_offset or 0, each.producer_id


def _producer(key: Partition, each: Producer, ends: StableEnd | None) -> output.Row:
    return {
        "topic": key[0],
        "partition": key[1],
        "producer_id": each.producer_id,
        "producer_epoch": each.producer_epoch,
        "start_offset": each.start_offset,
        "holds": _holds(each.start_offset, ends),
        "last_sequence": each.last_sequence,
        "last_write_ms": each.last_ms,
        "coordinator_epoch": each.coordinator_epoch,
    }


# ------------------------------------------------------------------------------------ for people


def _show(row: output.Row, now_ms: int, wide: bool) -> None:
    output.say("  ".join([row["transactional_id"], row["state"], *_times(row)]))
    output.say(
        f"producer {row['producer_id']}, epoch {row['producer_epoch']}, timeout"
        f" {span(row['timeout_ms'])}, coordinator {row['coordinator']}"
    )
    shown = [_for_people(each, now_ms) for each in row["partitions"]]
    output.show_table(shown, _PARTITIONS, "No partitions", wide=wide)


def _times(row: output.Row) -> Sequence[str]:
    if row["open_ms"] is None:
        return ()
    left_ms = row["timeout_ms"] - row["open_ms"]
    parts = [f"open for {span(row['open_ms'])}, since {instant(row['started_ms'])}"]
    if row["state"] == "Ongoing":
        parts.append(f"times out in {span(left_ms)}" if left_ms > 0 else "the timeout has expired")
    return parts


def _for_people(row: output.Row, now_ms: int) -> output.Row:
    written = row["last_write_ms"]
    ago = None if written is None else f"{span(max(0, now_ms - written))} ago"
    return {**row, "last_write": ago, "holds": row["holds"] or None}
