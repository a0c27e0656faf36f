"""Handles AddPartitionsToTxn and AddOffsetsToTxn, which add partitions to a transaction, and
VERIFY_ONLY, which checks whether partitions are in a transaction."""

from __future__ import annotations

from protocol.errors import (
    INVALID_PRODUCER_ID_MAPPING,
    NONE,
    PRODUCER_FENCED,
    TRANSACTION_ABORTABLE,
    UNKNOWN_SERVER_ERROR,
)
from transactions.calls import TV2, AddPartitions, VerifyPartitions
from transactions.events import Cause, PartitionsAdded
from transactions.partitions import joined, missing
from transactions.states import State
from transactions.step import UNKNOWN_ID, Step, caller, owner
from transactions.tables import ADD_PARTITIONS, VERIFY_PARTITIONS, Act
from transactions.transaction import Transaction


def add_partitions(step: Step, call: AddPartitions) -> int:
    """Adds partitions to a transaction. Returns one error code for all partitions.

    The checks are in this order: an unknown id (error 49), a state PREPARE_* (51), the producer id
    (49), its epoch (90), and the size of the record (-1).
    """
    transaction = step.state.transactions.get(call.transactional_id)
    if transaction is None:
        return _refused(step, call, INVALID_PRODUCER_ID_MAPPING, UNKNOWN_ID)
    old = transaction.value
    cell = ADD_PARTITIONS[old.state]
    if isinstance(cell, int):
        return cell
    error = _owner_error(transaction, call.producer_id, call.producer_epoch)
    if error != NONE:
        return _refused(step, call, error, owner(old))
    added = missing(old.partitions, call.partitions)
    if cell is Act.EXTEND and not added:
        return NONE
    partitions = joined(old.partitions, added)
    if not step.fits(call.transactional_id, partitions):
        why = "the transaction would have more partitions than its record can contain"
        return _refused(step, call, UNKNOWN_SERVER_ERROR, why)
    now_ms = step.now.wall_ms
    value = step.next(
        old,
        State.ONGOING,
        partitions=partitions,
        start_ms=now_ms if cell is Act.BEGIN else old.start_ms,
        client_rules=TV2 if call.rules >= TV2 else 0,
    )
    step.write(call.transactional_id, value, transaction.last_epoch)
    if cell is Act.BEGIN:
        detail = f"first partition {_first(call)}"
        step.moved(call.transactional_id, old, value, Cause.CLIENT, detail)
    step.events.append(
        PartitionsAdded(
            call.transactional_id,
            call.producer_id,
            call.producer_epoch,
            list(added.items()),
            step.client,
            call.group_id,
        )
    )
    return NONE


def verify_partitions(step: Step, call: VerifyPartitions) -> list[int]:
    """Checks whether partitions are in a transaction. Returns an error code for each partition."""
    transaction = step.state.transactions.get(call.transactional_id)
    error = _error_of_all(transaction, call.producer_id, call.producer_epoch)
    there: dict[str, frozenset[int]] = {}
    if transaction is not None and error == NONE:
        there = {topic: frozenset(ids) for topic, ids in transaction.value.partitions}
    nowhere: frozenset[int] = frozenset()
    return [
        error or (NONE if partition in there.get(topic, nowhere) else TRANSACTION_ABORTABLE)
        for topic, ids in call.partitions
        for partition in ids
    ]


def verify(
    transaction: Transaction | None,
    producer_id: int,
    producer_epoch: int,
    topic: str,
    partition: int,
) -> int:
    """Returns the error code for a batch of this producer in this partition. The code is NONE if
    the batch may be appended.

    The checks are in this order: an unknown id (error 49), the producer id (49), its epoch (90), a
    state PREPARE_* (51), and the partition (120).
    """
    error = _error_of_all(transaction, producer_id, producer_epoch)
    if transaction is None or error != NONE:
        return error
    for name, ids in transaction.value.partitions:
        if name == topic:
            return NONE if partition in ids else TRANSACTION_ABORTABLE
    return TRANSACTION_ABORTABLE


def _error_of_all(transaction: Transaction | None, producer_id: int, producer_epoch: int) -> int:
    """Returns the error code that applies to all partitions, or NONE."""
    if transaction is None:
        return INVALID_PRODUCER_ID_MAPPING
    error = _owner_error(transaction, producer_id, producer_epoch)
    if error != NONE:
        return error
    cell = VERIFY_PARTITIONS[transaction.value.state]
    return cell if isinstance(cell, int) else NONE


def _owner_error(transaction: Transaction, producer_id: int, producer_epoch: int) -> int:
    """Returns NONE if this producer owns the transactional id with this epoch, or else the error
    code."""
    value = transaction.value
    if producer_id != value.producer_id:
        return INVALID_PRODUCER_ID_MAPPING
    return NONE if producer_epoch == value.producer_epoch else PRODUCER_FENCED


def _refused(step: Step, call: AddPartitions, error_code: int, why: str) -> int:
    detail = f"adding {_first(call)} by {caller(call)}: {why}"
    return step.refused(
        call.transactional_id, error_code, detail, call.producer_id, call.producer_epoch
    )


def _first(call: AddPartitions) -> str:
    return next((f"{topic}-{ids[0]}" for topic, ids in call.partitions if ids), "no partition")
