"""`muster transactions abort`: aborts the open transaction of a transactional id, or a hanging
transaction. The command aborts the transaction of a transactional id by InitProducerId, which also
fences the producer. No coordinator will end a hanging transaction. Therefore the command writes an
ABORT marker to the partition (WriteTxnMarkers), as Kafka's kafka-transactions does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import typer

from cli import clock, output
from cli.client.cluster import RETRY_S, Cluster, Connection
from cli.client.existing import existing_partitions
from cli.client.offsets_at import Partition, stable_ends_of
from cli.client.transaction_reads import (
    Described,
    Producer,
    describe_transactions,
    known_transactions,
    list_transactions,
    producers_of,
)
from cli.errors import USAGE, CommandError, refused
from cli.layout import Column, Columns
from cli.names import owned, partitions_text
from cli.options import (
    BOOTSTRAP,
    INT16,
    INT32,
    TIMEOUT_S,
    Bootstrap,
    Json,
    Timeout,
    whole_number,
)
from cli.plans import DryRun, Execute, Plan
from cli.times import span
from protocol import errors
from verdicts.commands import command, word

_COLUMNS: Columns = [
    "topic",
    "partition",
    Column("producer_id", "PRODUCER"),
    Column("producer_epoch", "EPOCH"),
    Column("coordinator_epoch", "COORDINATOR-EPOCH"),
    Column("start_offset", "BEGINS-AT"),
    Column("held_back", "HELD-BACK"),
]


class Marker(NamedTuple):
    """An ABORT marker that the command writes to a partition."""

    key: Partition
    leader: Connection
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int | None
    held_back: int | None

    def row(self) -> output.Row:
        """Returns the table row of the marker, which also serves as JSON."""
        return {
            "topic": self.key[0],
            "partition": self.key[1],
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
            "coordinator_epoch": self.coordinator_epoch,
            "start_offset": self.start_offset,
            "held_back": self.held_back,
        }


ProducerEpoch = Annotated[
    int | None,
    whole_number(
        "--producer-epoch",
        most=INT16,
        help="The producer's epoch; default: the epoch that the partition's leader reports.",
    ),
]
CoordinatorEpoch = Annotated[
    int | None,
    whole_number(
        "--coordinator-epoch",
        most=INT32,
        help="The coordinator's epoch; default: the epoch that the partition's leader reports.",
    ),
]


def abort(
    id: Annotated[str | None, typer.Argument(metavar="ID", help="The transactional id.")] = None,
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic",
            "-t",
            metavar="TOPIC:PARTITION",
            help="A partition, instead of a transactional id.",
        ),
    ] = None,
    start_offset: Annotated[
        int | None,
        whole_number("--start-offset", help="The first offset of the transaction."),
    ] = None,
    producer: Annotated[
        int | None,
        whole_number(
            "--producer-id", help="The transaction's producer id; replaces --start-offset."
        ),
    ] = None,
    producer_epoch: ProducerEpoch = None,
    coordinator_epoch: CoordinatorEpoch = None,
    dry_run: DryRun = False,
    execute: Execute = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Abort the open transaction of a transactional id, or a hanging transaction in a partition.

    The producer of a transactional id is fenced; a new producer can use the id. With --topic, an
    ABORT marker is written for the transaction of --start-offset or --producer-id.
    """
    plan = Plan(dry_run, execute, json, done="aborted").checked()
    if (id is None) == (topic is None):
        raise CommandError("name a transactional id, or a partition with --topic TOPIC:0", USAGE)
    one_of = (start_offset is None) != (producer is None)
    if (topic is not None) != one_of:
        needs = "--topic TOPIC:0 needs either --start-offset N or --producer-id N"
        if topic is not None:
            shows = command("transactions describe", [], f"--topic {word(topic)}")
            needs += f"; `{shows}` shows start offsets and producer ids"
        raise CommandError(needs, USAGE)
    cluster = Cluster(bootstrap, timeout_s=timeout)
    if id is not None:
        _abort_id(cluster, id, plan)
        return
    epochs = (producer_epoch, coordinator_epoch)
    marker = _marker(cluster, topic or "", start_offset, producer, epochs)
    _abort_there(cluster, marker, plan)


# --------------------------------------------------------------------------------------- of an id


def _abort_id(cluster: Cluster, transactional_id: str, plan: Plan) -> None:
    known = known_transactions(cluster, [transactional_id])[transactional_id]
    if not known.is_open:
        raise CommandError(
            f"transactional id {transactional_id} has no open transaction; its state is"
            f" {known.state}"
        )
    if known.state != "Ongoing":
        raise CommandError(
            f"the transaction of {transactional_id} is already ending ({known.state}): the"
            " coordinator is writing the markers"
        )
    open_ms = max(0, clock.now_ms() - known.started_ms)
    row: output.Row = {
        "transactional_id": transactional_id,
        "producer_id": known.producer_id,
        "producer_epoch": known.producer_epoch,
        "open_ms": open_ms,
        "partitions": owned(known.topics),
    }
    if not plan.json:
        _say_id(known, open_ms)
    elif plan.shows_json:
        output.show_json({"executed": False, **row})
    if not plan.goes_on(f"Abort the transaction of {transactional_id} and fence its producer?"):
        return
    _fence(cluster, known)
    if plan.json:
        output.show_json({"executed": True, **row})
    else:
        output.say(f"Aborted the transaction of {transactional_id}; its producer is fenced")


def _say_id(known: Described, open_ms: int) -> None:
    places = " ".join(partitions_text(name, ids) for name, ids in known.topics.items())
    output.say_folded(
        f"{known.transactional_id}: open for {span(open_ms)} on {places or 'no partition'},"
        f" producer {known.producer_id}, epoch {known.producer_epoch}"
    )
    output.say_folded(
        "The whole transaction is aborted and its producer is fenced: the producer's next request"
        " fails. A new producer can use the transactional id."
    )


def _fence(cluster: Cluster, known: Described) -> None:
    """Fences the producer with InitProducerId. Retries until the transaction's markers are
    written."""
    asked = {
        "transactional_id": known.transactional_id,
        "transaction_timeout_ms": known.timeout_ms,
        "producer_id": -1,
        "producer_epoch": -1,
        "enable2_pc": False,
        "keep_prepared_txn": False,
    }
    deadline_s = clock.monotonic_s() + cluster.timeout_s
    while True:
        code = known.coordinator.call("InitProducerId", asked)["error_code"]
        if not code:
            return
        again = code in errors.RETRIABLE or code == errors.CONCURRENT_TRANSACTIONS
        if not again or clock.monotonic_s() > deadline_s:
            raise refused(f"transactional id {known.transactional_id}", code)
        clock.sleep(RETRY_S)


# --------------------------------------------------------------------------------- in a partition


def _marker(
    cluster: Cluster,
    place: str,
    start_offset: int | None,
    producer_id: int | None,
    epochs: tuple[int | None, int | None],
) -> Marker:
    leaders = existing_partitions(cluster, [place], "aborted")
    if len(leaders) != 1:
        raise CommandError(f"--topic {place}: name one partition, such as {place}:0", USAGE)
    [(key, leader)] = leaders.items()
    found = producers_of(cluster, leaders)
    if key in found.refused:
        raise refused(f"producers of {key[0]}:{key[1]}", found.refused[key])
    known = _chosen(key, found.found[key], start_offset, producer_id)
    ends = stable_ends_of(cluster, leaders).get(key)
    producer_epoch, coordinator_epoch = epochs
    return Marker(
        key,
        leader,
        known.producer_id,
        known.producer_epoch if producer_epoch is None else producer_epoch,
        (known.coordinator_epoch or 0) if coordinator_epoch is None else coordinator_epoch,
        known.start_offset,
        None if ends is None else ends.lag,
    )


def _chosen(
    key: Partition, producers: Sequence[Producer], start_offset: int | None, producer_id: int | None
) -> Producer:
    """Returns the producer of the chosen open transaction. If the choice is not unique, raises
    CommandError, whose text lists the open transactions."""
    open_ones = [each for each in producers if each.start_offset is not None]
    for each in open_ones:
        if each.start_offset == start_offset or each.producer_id == producer_id:
            return each
    what = f"at offset {start_offset}" if producer_id is None else f"of producer {producer_id}"
    there = ", ".join(
        f"{each.start_offset} (producer {each.producer_id})" for each in open_ones[:5]
    )
    if not there:
        raise CommandError(f"{key[0]}:{key[1]} has no open transaction")
    raise CommandError(
        f"{key[0]}:{key[1]} has no open transaction {what}; open transactions begin at"
        f" offset {there}"
    )


def _abort_there(cluster: Cluster, marker: Marker, plan: Plan) -> None:
    place = f"{marker.key[0]}:{marker.key[1]}"
    owner = _owner(cluster, marker)
    row = {**marker.row(), "transactional_id": owner}
    if not plan.json:
        output.show_table([row], _COLUMNS, "", plan.title, wide=False)
        output.say_folded(
            f"An ABORT marker is written to {place}: read_committed consumers skip the"
            " transaction's records there and continue."
        )
        if owner is not None:
            output.say_folded(
                f"Transactional id {owner} owns the open transaction in {place}: abort the whole"
                f" transaction with `{command('transactions abort', owner)}` instead."
            )
    elif plan.shows_json:
        output.show_json({"executed": False, **row})
    if not plan.goes_on(f"Abort the transaction of producer {marker.producer_id} in {place}?"):
        return
    _write(marker)
    if plan.json:
        output.show_json({"executed": True, **row})
    else:
        output.say(f"Aborted the transaction of producer {marker.producer_id} in {place}")


def _owner(cluster: Cluster, marker: Marker) -> str | None:
    """Returns the transactional id to which the open transaction of ``marker`` belongs; None if the
    transaction hangs."""
    listed = list_transactions(cluster, producer_ids=[marker.producer_id])
    asked = {each.transactional_id: each.coordinator for each in listed if each.is_open}
    for each in describe_transactions(cluster, asked).values():
        if marker.key in each.partitions:
            return each.transactional_id
    return None


def _write(marker: Marker) -> None:
    topic, partition = marker.key
    asked = {
        "producer_id": marker.producer_id,
        "producer_epoch": marker.producer_epoch,
        "transaction_result": False,
        "topics": [{"name": topic, "partition_indexes": [partition]}],
        "coordinator_epoch": marker.coordinator_epoch,
        "transaction_version": 0,
    }
    answer = marker.leader.call("WriteTxnMarkers", {"markers": [asked]})
    for each in answer["markers"]:
        for found in each["topics"]:
            for one in found["partitions"]:
                if one["error_code"]:
                    raise refused(f"abort in {topic}:{partition}", one["error_code"])
