"""Formats the outcomes of a shard of transactional ids as text."""

from __future__ import annotations

from protocol.errors import NAMES
from transactions.calls import BROKER, Client, Partitions, Ticket
from transactions.events import (
    Event,
    PartitionsAdded,
    ProducerFenced,
    ShardLoaded,
    TransactionRefused,
    Transition,
)
from transactions.outcome import (
    DescribeReply,
    EndReply,
    InitReply,
    ListReply,
    Outcome,
    Reply,
    SendMarkers,
)
from transactions.shard import TransactionShard
from transactions.states import State
from transactions.values import NO_PRODUCER_ID, TransactionRun


def render_outcome(outcome: Outcome) -> list[str]:
    return [
        *map(record_line, outcome.records),
        *[reply_line(ticket, reply) for ticket, reply in outcome.replies],
        *[f"event {event_line(event)}" for event in outcome.events],
    ]


def record_line(run: TransactionRun) -> str:
    value = run.value
    if value is None:
        return f"record {run.transactional_id} tombstone"
    words = [
        f"record {run.transactional_id} v{run.version} {value.state.wire_name}",
        f"producer {value.producer_id} epoch {value.producer_epoch}",
        f"timeout {value.timeout_ms} at {value.last_update_ms}",
    ]
    if value.start_ms >= 0:
        words.append(f"start {value.start_ms}")
    if value.previous_producer_id != value.producer_id:
        words.append(f"previous {value.previous_producer_id}")
    if value.next_producer_id != NO_PRODUCER_ID:
        words.append(f"next {value.next_producer_id}")
    if value.client_rules:
        words.append(f"rules {value.client_rules}")
    return " ".join([*words, *names(value.partitions)])


def reply_line(ticket: Ticket, reply: Reply) -> str:
    match reply:
        case SendMarkers():
            owner = f"{reply.transactional_id} producer {reply.producer_id}"
            end = "commit" if reply.committed else "abort"
            words = [owner, f"epoch {reply.producer_epoch} {end} rules {reply.rules}"]
            return " ".join([f"{ticket}:", *words, *names(reply.partitions)])
        case int():
            return f"{ticket}: {code(reply)}"
        case InitReply() | EndReply():
            owner = f" producer {reply.producer_id} epoch {reply.producer_epoch}"
            return f"{ticket}: {code(reply.error_code)}{owner if reply.producer_id >= 0 else ''}"
        case DescribeReply():
            if reply.error_code:
                return f"{ticket}: {code(reply.error_code)} {reply.transactional_id}"
            owner = f"producer {reply.producer_id} epoch {reply.producer_epoch}"
            times = f"timeout {reply.timeout_ms} start {reply.start_ms}"
            words = [f"{ticket}: ok {reply.transactional_id} {reply.state}", owner, times]
            return " ".join([*words, *names(reply.partitions)])
        case ListReply():
            listed = [f"{each[0]}:{each[1]}:{each[2]}" for each in reply.transactions]
            return " ".join([f"{ticket}: {code(reply.error_code)}", *listed])
        case _:
            return " ".join([f"{ticket}:", *map(code, reply)])


def event_line(event: Event) -> str:
    match event:
        case Transition():
            old = "new" if event.old is None else event.old.wire_name
            times = f" open {event.open_ms} ms" if event.open_ms >= 0 else ""
            if event.since_prepare_ms >= 0:
                times += f" markers {event.since_prepare_ms} ms"
            return (
                f"{event.transactional_id} {old} -> {event.new.wire_name}"
                f" {event.cause.value} by {who(event.client)}: {event.detail}"
                f" ({event.partitions} partitions{times})"
            )
        case PartitionsAdded():
            of_group = f" for group {event.group_id}" if event.group_id else ""
            added = " ".join(names(event.partitions)) or "none"
            return f"{event.transactional_id} added by {who(event.client)}: {added}{of_group}"
        case ProducerFenced():
            fenced = f"{who(event.client)} fenced {who(event.fenced)}"
            return f"{event.transactional_id} {fenced} below epoch {event.producer_epoch}"
        case TransactionRefused():
            refused = f"{code(event.error_code)} to {who(event.client)}: {event.detail}"
            return f"{event.transactional_id} refused {refused}"
        case ShardLoaded():
            return f"loaded {event.transactional_ids} ids, {event.completing} completing"


def id_line(shard: TransactionShard, transactional_id: str) -> str:
    """Returns a line with the current state of a transactional id."""
    transaction = shard.view.get(transactional_id)
    if transaction is None:
        return f"{transactional_id}: {State.DEAD.wire_name}"
    value = transaction.value
    words = [
        f"{transactional_id}: {value.state.wire_name}",
        f"producer {value.producer_id} epoch {value.producer_epoch} last {transaction.last_epoch}",
    ]
    return " ".join([*words, *names(value.partitions)])


def names(partitions: Partitions) -> list[str]:
    return [f"{topic}/{','.join(map(str, ids))}" for topic, ids in partitions]


def who(client: Client) -> str:
    return "the broker" if client == BROKER else f"{client.client_id}@{client.host}"


def code(error: int) -> str:
    return NAMES[error] if error else "ok"
