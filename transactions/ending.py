"""EndTxn, and what comes of it: Prepare, the markers, Complete."""

from __future__ import annotations

from protocol.errors import (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_LOAD_IN_PROGRESS,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_TXN_STATE,
    NAMES,
    NONE,
    PRODUCER_FENCED,
)
from transactions.calls import (
    BROKER,
    TV2,
    Client,
    EndTransaction,
    MarkersRefused,
    MarkersWritten,
)
from transactions.events import Cause, TransactionRefused
from transactions.outcome import EndReply
from transactions.states import State
from transactions.step import Step
from transactions.transaction import Transaction
from transactions.values import EXHAUSTED_EPOCH, HIGHEST_EPOCH, NO_PRODUCER_ID, TransactionValue


def end_transaction(step: Step, call: EndTransaction) -> None:
    """Answers EndTxn: `EndReply`, and behind it the markers for their sender."""
    transaction = step.state.transactions.get(call.transactional_id)
    if transaction is None:
        error = INVALID_PRODUCER_ID_MAPPING
        _refuse(step, call, error, "the transactional id is unknown, or has expired")
    elif call.rules >= TV2:
        _end_by_tv2(step, call, transaction)
    else:
        _end_by_tv1(step, call, transaction)


def _end_by_tv1(step: Step, call: EndTransaction, transaction: Transaction) -> None:
    value = transaction.value
    if call.producer_id != value.producer_id:
        return _refuse(step, call, INVALID_PRODUCER_ID_MAPPING, _owner(value))
    if call.producer_epoch != value.producer_epoch:
        return _refuse(step, call, PRODUCER_FENCED, _owner(value))
    match value.state:
        case State.ONGOING:
            _prepare_for(step, call, transaction, 0)
        case State.PREPARE_COMMIT | State.PREPARE_ABORT:
            step.reply(call.ticket, EndReply(CONCURRENT_TRANSACTIONS))
        case State.COMPLETE_COMMIT if call.committed:
            step.reply(call.ticket, EndReply(NONE))
        case State.COMPLETE_ABORT if not call.committed:
            step.reply(call.ticket, EndReply(NONE))
        case State.EMPTY | State.COMPLETE_COMMIT | State.COMPLETE_ABORT:
            _refuse(step, call, INVALID_TXN_STATE, f"the state is {value.state.wire_name}")
        case State.DEAD:
            raise AssertionError("a dead id is not kept")
    return None


def _end_by_tv2(step: Step, call: EndTransaction, transaction: Transaction) -> None:
    value = transaction.value
    state = value.state
    if state is State.PREPARE_COMMIT or state is State.PREPARE_ABORT:
        return step.reply(call.ticket, EndReply(CONCURRENT_TRANSACTIONS))
    overflow_retry = (
        call.producer_id == value.previous_producer_id
        and call.producer_epoch == EXHAUSTED_EPOCH
        and value.producer_epoch == 0
    )
    if call.producer_id != value.producer_id and not overflow_retry:
        return _refuse(step, call, INVALID_PRODUCER_ID_MAPPING, _owner(value))
    complete = state is State.COMPLETE_COMMIT or state is State.COMPLETE_ABORT
    again = complete and (overflow_retry or call.producer_epoch + 1 == value.producer_epoch)
    if not again and call.producer_epoch != value.producer_epoch:
        return _refuse(step, call, PRODUCER_FENCED, _owner(value))
    if again:
        if call.committed == (state is State.COMPLETE_COMMIT):
            step.reply(call.ticket, EndReply(NONE, value.producer_id, value.producer_epoch))
        elif call.committed:
            _refuse(step, call, PRODUCER_FENCED, "the transaction was aborted by its timeout")
        else:
            _refuse(step, call, INVALID_TXN_STATE, "the transaction was committed")
    elif state is State.ONGOING or not call.committed:
        _prepare_for(step, call, transaction, TV2)
    else:
        _refuse(step, call, INVALID_TXN_STATE, f"the state is {state.wire_name}")
    return None


def _prepare_for(
    step: Step, call: EndTransaction, transaction: Transaction, client_rules: int
) -> None:
    """Ends the transaction as its client asks."""
    bumps = client_rules >= TV2
    target = State.PREPARE_COMMIT if call.committed else State.PREPARE_ABORT
    detail = "EndTxn committed" if call.committed else "EndTxn aborted"
    value = _prepared(step, transaction, target, client_rules, bumps)
    if value is None:
        step.reply(call.ticket, EndReply(COORDINATOR_LOAD_IN_PROGRESS))
        return
    last = transaction.producer_epoch if bumps else transaction.last_epoch
    step.write(call.transactional_id, value, last, call.client)
    step.tell(call.transactional_id, transaction.value, value, Cause.CLIENT, detail, call.client)
    if not bumps:
        reply = EndReply(NONE)
    elif value.next_producer_id != NO_PRODUCER_ID:
        reply = EndReply(NONE, value.next_producer_id, 0)
    else:
        reply = EndReply(NONE, value.producer_id, value.producer_epoch)
    step.reply(call.ticket, reply)
    step.send_markers(call.transactional_id, value)


def abort_fenced(
    step: Step, transaction: Transaction, cause: Cause, detail: str, client: Client = BROKER
) -> int:
    """Aborts an open transaction under one more epoch, which its producer does not have; an error.

    The epoch is raised once, by either rules (KAFKA-19367).
    """
    version = step.state.config.transaction_version
    value = _prepared(step, transaction, State.PREPARE_ABORT, version, True)
    if value is None:
        return COORDINATOR_LOAD_IN_PROGRESS
    step.write(transaction.transactional_id, value, client=client)
    step.tell(transaction.transactional_id, transaction.value, value, cause, detail, client)
    step.send_markers(transaction.transactional_id, value)
    return NONE


def _prepared(
    step: Step, transaction: Transaction, target: State, client_rules: int, bumps: bool
) -> TransactionValue | None:
    """The Prepare record; None when a producer id is needed and none is at hand."""
    old = transaction.value
    epoch = old.producer_epoch
    next_producer_id = NO_PRODUCER_ID
    if bumps:
        if epoch >= EXHAUSTED_EPOCH and client_rules >= TV2:
            taken = step.state.config.producer_ids.take()
            if taken is None:
                return None
            next_producer_id = taken
        epoch = min(epoch + 1, HIGHEST_EPOCH)
    return old._replace(
        producer_epoch=epoch,
        state=target,
        last_update_ms=step.now.wall_ms,
        start_ms=old.start_ms if old.state is State.ONGOING else step.now.wall_ms,
        next_producer_id=next_producer_id,
        client_rules=client_rules,
    )


def markers_written(step: Step, call: MarkersWritten) -> None:
    """Completes the transaction whose markers are all written: int."""
    _complete(step, call, Cause.MARKERS, "all markers are written")


def markers_refused(step: Step, call: MarkersRefused) -> None:
    """Completes a transaction that somebody else has ended on a partition: int.

    Nothing of it is open there, and no later marker of this epoch would be taken either.
    """
    name = NAMES[call.error_code]
    _complete(step, call, Cause.ADMIN, f"a partition has a newer marker than ours ({name})")


def _complete(step: Step, call: MarkersWritten | MarkersRefused, cause: Cause, detail: str) -> None:
    transaction = step.state.transactions.get(call.transactional_id)
    step.reply(call.ticket, NONE)
    if transaction is None:
        return
    old = transaction.value
    if (old.producer_id, old.producer_epoch) != (call.producer_id, call.producer_epoch):
        return
    match old.state:
        case State.PREPARE_COMMIT:
            target = State.COMPLETE_COMMIT
        case State.PREPARE_ABORT:
            target = State.COMPLETE_ABORT
        case (
            State.EMPTY | State.ONGOING | State.COMPLETE_COMMIT | State.COMPLETE_ABORT | State.DEAD
        ):
            return  # an answer that comes twice
    value = old._replace(state=target, partitions=(), last_update_ms=step.now.wall_ms)
    if old.next_producer_id != NO_PRODUCER_ID and old.client_rules >= TV2:
        value = value._replace(
            producer_id=old.next_producer_id,
            producer_epoch=0,
            previous_producer_id=old.producer_id,
            next_producer_id=NO_PRODUCER_ID,
        )
    step.write(call.transactional_id, value, transaction.last_epoch)
    since_prepare_ms = step.now.wall_ms - old.last_update_ms
    step.tell(call.transactional_id, old, value, cause, detail, BROKER, since_prepare_ms)


def _owner(value: TransactionValue) -> str:
    return (
        f"the id belongs to producer {value.producer_id} at epoch {value.producer_epoch}"
        f" ({value.state.wire_name})"
    )


def _refuse(step: Step, call: EndTransaction, error_code: int, why: str) -> None:
    end = "COMMIT" if call.committed else "ABORT"
    step.events.append(
        TransactionRefused(
            call.transactional_id,
            error_code,
            f"EndTxn {end} of producer {call.producer_id} at epoch {call.producer_epoch}: {why}",
            call.producer_id,
            call.producer_epoch,
            call.client,
        )
    )
    step.reply(call.ticket, EndReply(error_code))
