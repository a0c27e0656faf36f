"""InitProducerId: a producer takes a transactional id."""

from __future__ import annotations

from protocol.errors import (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_LOAD_IN_PROGRESS,
    INVALID_TRANSACTION_TIMEOUT,
    NONE,
    PRODUCER_FENCED,
    UNKNOWN_SERVER_ERROR,
)
from transactions.calls import InitProducerId
from transactions.ending import abort_fenced
from transactions.events import Cause, ProducerFenced, TransactionRefused
from transactions.outcome import InitReply
from transactions.states import State
from transactions.step import Step
from transactions.transaction import Transaction
from transactions.values import EXHAUSTED_EPOCH, NO_EPOCH, NO_PRODUCER_ID, TransactionValue


def init_producer_id(step: Step, call: InitProducerId) -> None:
    """Answers InitProducerId with an id: `InitReply`."""
    step.reply(call.ticket, _init(step, call))


def _init(step: Step, call: InitProducerId) -> InitReply:
    config = step.state.config
    if not 0 < call.timeout_ms <= config.max_timeout_ms:
        return _refused(
            step,
            call,
            INVALID_TRANSACTION_TIMEOUT,
            f"a timeout of {call.timeout_ms} ms; 1 to {config.max_timeout_ms} are allowed",
        )
    transaction = step.state.transactions.get(call.transactional_id)
    if transaction is None:
        return _make(step, call)
    state = transaction.state
    match state:
        case State.PREPARE_COMMIT | State.PREPARE_ABORT:
            return InitReply(CONCURRENT_TRANSACTIONS)
        case State.ONGOING | State.EMPTY | State.COMPLETE_COMMIT | State.COMPLETE_ABORT:
            if not _owns(transaction.value, call):
                return _fenced(step, call, transaction)
            if state is State.ONGOING:
                return _fence(step, call, transaction)
            return _take_over(step, call, transaction)
        case State.DEAD:
            raise AssertionError("a dead id is not kept")


def _owns(value: TransactionValue, call: InitProducerId) -> bool:
    """Whether the producer that the call names may have the id; its epoch is looked at later."""
    if call.producer_id == value.previous_producer_id and call.producer_epoch >= EXHAUSTED_EPOCH:
        return True
    return call.producer_id in (NO_PRODUCER_ID, value.producer_id)


def _make(step: Step, call: InitProducerId) -> InitReply:
    """The id is new: its producer gets an id and epoch 0, whatever it had."""
    if not step.fits(call.transactional_id, ()):
        return InitReply(UNKNOWN_SERVER_ERROR)
    producer_id = step.state.config.producer_ids.take()
    if producer_id is None:
        return InitReply(COORDINATOR_LOAD_IN_PROGRESS)
    value = _empty(step, call, producer_id, 0)
    return _write(step, call, None, value, NO_EPOCH, "InitProducerId made it")


def _take_over(step: Step, call: InitProducerId, transaction: Transaction) -> InitReply:
    """No transaction is open: one more epoch, or another producer id where they have run out."""
    old = transaction.value
    expected = call.producer_epoch if call.producer_id != NO_PRODUCER_ID else NO_EPOCH
    exhausted = old.producer_epoch >= EXHAUSTED_EPOCH
    if exhausted and expected in (NO_EPOCH, old.producer_epoch):
        producer_id = step.state.config.producer_ids.take()
        if producer_id is None:
            return InitReply(COORDINATOR_LOAD_IN_PROGRESS)
        value = _empty(step, call, producer_id, 0)._replace(
            previous_producer_id=old.producer_id, client_rules=old.client_rules
        )
        last = NO_EPOCH if expected == NO_EPOCH else old.producer_epoch
        return _write(step, call, transaction, value, last, "its epochs had run out")
    if expected == NO_EPOCH:
        epoch, last = old.producer_epoch + 1, NO_EPOCH
        detail = "a producer began anew"
    elif expected == old.producer_epoch:
        epoch, last = old.producer_epoch + 1, old.producer_epoch
        detail = "its producer went on behind an error"
    elif expected == transaction.last_epoch:
        epoch, last = old.producer_epoch, transaction.last_epoch
        detail = "its producer asked again"
    else:
        return _fenced(step, call, transaction)
    value = _empty(step, call, old.producer_id, epoch)._replace(
        previous_producer_id=old.previous_producer_id, client_rules=old.client_rules
    )
    return _write(step, call, transaction, value, last, detail)


def _fence(step: Step, call: InitProducerId, transaction: Transaction) -> InitReply:
    """A transaction is open: it is aborted first, and the client comes again."""
    error = abort_fenced(
        step,
        transaction,
        Cause.FENCED,
        "InitProducerId fenced the producer whose transaction it was",
        call.client,
    )
    if error != NONE:
        return InitReply(error)
    value = step.records[-1].value
    assert value is not None
    step.events.append(
        ProducerFenced(
            call.transactional_id,
            value.producer_id,
            value.producer_epoch,
            call.client,
            transaction.client,
        )
    )
    return InitReply(CONCURRENT_TRANSACTIONS)


def _empty(step: Step, call: InitProducerId, producer_id: int, epoch: int) -> TransactionValue:
    return TransactionValue(
        producer_id, epoch, call.timeout_ms, State.EMPTY, (), step.now.wall_ms, -1
    )


def _write(
    step: Step,
    call: InitProducerId,
    transaction: Transaction | None,
    value: TransactionValue,
    last_epoch: int,
    detail: str,
) -> InitReply:
    old = None if transaction is None else transaction.value
    step.write(call.transactional_id, value, last_epoch, call.client)
    step.tell(call.transactional_id, old, value, Cause.CLIENT, detail, call.client)
    return InitReply(NONE, value.producer_id, value.producer_epoch)


def _fenced(step: Step, call: InitProducerId, transaction: Transaction) -> InitReply:
    detail = (
        f"InitProducerId of producer {call.producer_id} at epoch {call.producer_epoch}; the id"
        f" belongs to producer {transaction.producer_id} at epoch {transaction.producer_epoch}"
    )
    return _refused(step, call, PRODUCER_FENCED, detail)


def _refused(step: Step, call: InitProducerId, error_code: int, detail: str) -> InitReply:
    step.events.append(
        TransactionRefused(
            call.transactional_id,
            error_code,
            detail,
            call.producer_id,
            call.producer_epoch,
            call.client,
        )
    )
    return InitReply(error_code)
