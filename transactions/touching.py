"""AddPartitionsToTxn: what a transaction touches, and whether it does."""

from __future__ import annotations

from protocol.errors import (
    CONCURRENT_TRANSACTIONS,
    INVALID_PRODUCER_ID_MAPPING,
    NONE,
    PRODUCER_FENCED,
    TRANSACTION_ABORTABLE,
    UNKNOWN_SERVER_ERROR,
)
from transactions.calls import TV2, AddPartitions, Partitions, VerifyPartitions
from transactions.events import Cause, PartitionsAdded, TransactionRefused
from transactions.states import State
from transactions.step import Step
from transactions.transaction import Transaction


def add_partitions(step: Step, call: AddPartitions) -> None:
    """Answers AddPartitionsToTxn and its like: int."""
    step.reply(call.ticket, _add(step, call))


def _add(step: Step, call: AddPartitions) -> int:
    transaction = step.state.transactions.get(call.transactional_id)
    if transaction is None:
        why = "the transactional id is unknown, or has expired"
        return _refused(step, call, INVALID_PRODUCER_ID_MAPPING, why)
    old = transaction.value
    match old.state:
        case State.PREPARE_COMMIT | State.PREPARE_ABORT:
            return CONCURRENT_TRANSACTIONS
        case State.ONGOING:
            begins = False
        case State.EMPTY | State.COMPLETE_COMMIT | State.COMPLETE_ABORT:
            begins = True
        case State.DEAD:
            raise AssertionError("a dead id is not kept")
    error = owner_error(transaction, call.producer_id, call.producer_epoch)
    if error != NONE:
        why = f"the id belongs to producer {old.producer_id} at epoch {old.producer_epoch}"
        return _refused(step, call, error, why)
    added = missing(old.partitions, call.partitions)
    if not begins and not added:
        return NONE
    partitions = joined(old.partitions, added)
    if not step.fits(call.transactional_id, partitions):
        why = "the transaction has more partitions than a record may name"
        return _refused(step, call, UNKNOWN_SERVER_ERROR, why)
    now_ms = step.now.wall_ms
    value = old._replace(
        state=State.ONGOING,
        partitions=partitions,
        last_update_ms=now_ms,
        start_ms=now_ms if begins else old.start_ms,
        client_rules=TV2 if call.rules >= TV2 else 0,
    )
    step.write(call.transactional_id, value, transaction.last_epoch, call.client)
    if begins:
        topic, ids = call.partitions[0]
        detail = f"it begins with {topic}-{ids[0]}"
        step.tell(call.transactional_id, old, value, Cause.CLIENT, detail, call.client)
    step.events.append(
        PartitionsAdded(
            call.transactional_id,
            call.producer_id,
            call.producer_epoch,
            added,
            call.client,
            call.group_id,
        )
    )
    return NONE


def verify_partitions(step: Step, call: VerifyPartitions) -> None:
    """Answers whether partitions are in the transaction: a code for each."""
    transaction = step.state.transactions.get(call.transactional_id)
    step.reply(
        call.ticket,
        [
            verify(transaction, call.producer_id, call.producer_epoch, topic, partition)
            for topic, ids in call.partitions
            for partition in ids
        ],
    )


def verify(
    transaction: Transaction | None,
    producer_id: int,
    producer_epoch: int,
    topic: str,
    partition: int,
) -> int:
    """NONE, or why a batch of that producer must not be appended to that partition."""
    if transaction is None:
        return INVALID_PRODUCER_ID_MAPPING
    error = owner_error(transaction, producer_id, producer_epoch)
    if error != NONE:
        return error
    value = transaction.value
    match value.state:
        case State.PREPARE_COMMIT | State.PREPARE_ABORT:
            return CONCURRENT_TRANSACTIONS
        case State.EMPTY | State.ONGOING | State.COMPLETE_COMMIT | State.COMPLETE_ABORT:
            for name, ids in value.partitions:
                if name == topic:
                    return NONE if partition in ids else TRANSACTION_ABORTABLE
            return TRANSACTION_ABORTABLE
        case State.DEAD:
            return INVALID_PRODUCER_ID_MAPPING


def owner_error(transaction: Transaction, producer_id: int, producer_epoch: int) -> int:
    """NONE where the id belongs to that producer in that epoch."""
    if producer_id != transaction.producer_id:
        return INVALID_PRODUCER_ID_MAPPING
    return NONE if producer_epoch == transaction.producer_epoch else PRODUCER_FENCED


def missing(there: Partitions, wanted: Partitions) -> list[tuple[str, list[int]]]:
    """Those of ``wanted`` that are not there, each once."""
    known = {topic: set(ids) for topic, ids in there}
    added: dict[str, list[int]] = {}
    for topic, ids in wanted:
        seen = known.setdefault(topic, set())
        for partition in ids:
            if partition not in seen:
                seen.add(partition)
                added.setdefault(topic, []).append(partition)
    return list(added.items())


def joined(there: Partitions, added: Partitions) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Both together."""
    all_of = {topic: tuple(ids) for topic, ids in there}
    for topic, ids in added:
        all_of[topic] = (*all_of.get(topic, ()), *ids)
    return tuple(all_of.items())


def _refused(step: Step, call: AddPartitions, error_code: int, why: str) -> int:
    step.events.append(
        TransactionRefused(
            call.transactional_id,
            error_code,
            f"partitions of producer {call.producer_id} at epoch {call.producer_epoch}: {why}",
            call.producer_id,
            call.producer_epoch,
            call.client,
        )
    )
    return error_code
