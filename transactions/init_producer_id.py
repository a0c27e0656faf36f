"""Handles InitProducerId, with which a producer registers under a transactional id."""

from __future__ import annotations

from protocol.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    INVALID_TRANSACTION_TIMEOUT,
    NONE,
    PRODUCER_FENCED,
    UNKNOWN_SERVER_ERROR,
)
from transactions.calls import BROKER, InitProducerId
from transactions.end_txn import abort_fenced
from transactions.events import Cause, ProducerFenced
from transactions.outcome import InitReply
from transactions.states import State
from transactions.step import Step, caller, owner
from transactions.tables import INIT_PRODUCER_ID, Act
from transactions.transaction import Transaction
from transactions.values import EXHAUSTED_EPOCH, NO_EPOCH, NO_PRODUCER_ID, TransactionValue


def init_producer_id(step: Step, call: InitProducerId) -> InitReply:
    """Handles InitProducerId with a transactional id.

    The checks are in this order: the timeout (error 50), the reserved producer ids if the
    transactional id is new (14), a state PREPARE_* (51), the producer id (90), the state, and the
    epoch (90).
    """
    config = step.state.config
    if not 0 < call.timeout_ms <= config.max_timeout_ms:
        why = (
            f"transaction.timeout.ms is {call.timeout_ms}, but the broker allows 1 to"
            f" {config.max_timeout_ms}"
        )
        return _refused(step, call, INVALID_TRANSACTION_TIMEOUT, why)
    transaction = step.state.transactions.get(call.transactional_id)
    if transaction is None:
        return _make(step, call)
    value = transaction.value
    cell = INIT_PRODUCER_ID[value.state]
    if isinstance(cell, int):
        return InitReply(cell)
    if not _names_owner(value, call):
        return _refused(step, call, PRODUCER_FENCED, owner(value))
    take = _fence if cell is Act.FENCE else _take_over
    return take(step, call, transaction)


def _names_owner(value: TransactionValue, call: InitProducerId) -> bool:
    """Returns True if the call names no producer id, or the producer id that owns the transactional
    id. Does not check the epoch."""
    if call.producer_id == value.previous_producer_id and call.producer_epoch >= EXHAUSTED_EPOCH:
        return True
    return call.producer_id in (NO_PRODUCER_ID, value.producer_id)


def _make(step: Step, call: InitProducerId) -> InitReply:
    """Creates a transactional id with a new producer id and epoch 0. The producer id in the call is
    ignored."""
    if not step.fits(call.transactional_id, ()):
        why = "the transactional id is too long for a record"
        return _refused(step, call, UNKNOWN_SERVER_ERROR, why)
    producer_id = step.state.config.producer_ids.take()
    if producer_id is None:
        return InitReply(COORDINATOR_LOAD_IN_PROGRESS)
    value = TransactionValue(
        producer_id,
        0,
        call.timeout_ms,
        State.EMPTY,
        (),
        step.now.wall_ms,
        -1,
        previous_producer_id=producer_id,
    )
    return _taken(step, call, None, value, NO_EPOCH, "created by InitProducerId")


def _take_over(step: Step, call: InitProducerId, transaction: Transaction) -> InitReply:
    """Raises the epoch of a transactional id that has no open transaction. After the last epoch,
    the id gets a new producer id.

    A client that sends the current epoch continues after an error (KIP-360). A client that sends
    the previous epoch did not receive the reply. A client that sends no epoch is another producer,
    or has restarted.
    """
    old = transaction.value
    stored = old.producer_epoch
    expected = NO_EPOCH if call.producer_id == NO_PRODUCER_ID else call.producer_epoch
    last = NO_EPOCH if expected == NO_EPOCH else stored
    producer_id, epoch = old.producer_id, stored + 1
    if expected in (NO_EPOCH, stored):
        detail = (
            "the producer continued after an error"
            if expected == stored
            else "the producer restarted"
        )
        if stored >= EXHAUSTED_EPOCH:
            taken = step.state.config.producer_ids.take()
            if taken is None:
                return InitReply(COORDINATOR_LOAD_IN_PROGRESS)
            producer_id, epoch = taken, 0
            detail += "; the epochs of the old producer id were exhausted"
    elif expected == transaction.last_epoch:
        epoch, last = stored, expected
        detail = "the producer retried InitProducerId"
    else:
        return _refused(step, call, PRODUCER_FENCED, owner(old))
    value = step.next(
        old,
        State.EMPTY,
        producer_id=producer_id,
        producer_epoch=epoch,
        timeout_ms=call.timeout_ms,
        partitions=(),
        start_ms=-1,
    )
    if expected == NO_EPOCH and transaction.client not in (BROKER, step.client):
        _fenced(step, transaction, value)
    return _taken(step, call, old, value, last, detail)


def _taken(
    step: Step,
    call: InitProducerId,
    old: TransactionValue | None,
    value: TransactionValue,
    last_epoch: int,
    detail: str,
) -> InitReply:
    step.write(call.transactional_id, value, last_epoch)
    step.moved(call.transactional_id, old, value, Cause.CLIENT, detail)
    return InitReply(NONE, value.producer_id, value.producer_epoch)


def _fence(step: Step, call: InitProducerId, transaction: Transaction) -> InitReply:
    """Aborts the open transaction, which fences its producer. Returns the reply, whose error makes
    the client retry InitProducerId."""
    itself = (call.producer_id, call.producer_epoch)
    if itself == (transaction.producer_id, transaction.producer_epoch):
        cause, detail = Cause.CLIENT, "the producer continues with InitProducerId after an error"
    else:
        cause, detail = Cause.FENCED, "InitProducerId fenced the producer"
    error, value = abort_fenced(step, transaction, cause, detail)
    if value is not None and cause is Cause.FENCED:
        _fenced(step, transaction, value)
    return InitReply(error)


def _fenced(step: Step, transaction: Transaction, value: TransactionValue) -> None:
    step.events.append(
        ProducerFenced(
            transaction.transactional_id,
            value.producer_id,
            value.producer_epoch,
            step.client,
            transaction.client,
        )
    )


def _refused(step: Step, call: InitProducerId, error_code: int, why: str) -> InitReply:
    detail = (
        f"InitProducerId of {caller(call)}: {why}"
        if call.producer_id != NO_PRODUCER_ID
        else f"InitProducerId: {why}"
    )
    step.refused(call.transactional_id, error_code, detail, call.producer_id, call.producer_epoch)
    return InitReply(error_code)
