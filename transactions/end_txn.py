"""Handles EndTxn and the steps that follow: the Prepare record, the markers and the Complete
record."""

from __future__ import annotations

from protocol.errors import (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_LOAD_IN_PROGRESS,
    INVALID_PRODUCER_ID_MAPPING,
    NAMES,
    NONE,
    PRODUCER_FENCED,
)
from protocol.records.batch import PRODUCER_EPOCH_MAX
from transactions.calls import TV2, EndTransaction, MarkersRefused, MarkersWritten
from transactions.events import Cause
from transactions.outcome import EndReply
from transactions.states import State
from transactions.step import UNKNOWN_ID, Step, caller, owner
from transactions.tables import END_TV1, END_TV2, MARKERS, Act, Cell
from transactions.transaction import Transaction
from transactions.values import (
    EXHAUSTED_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    TransactionValue,
)


def end_transaction(step: Step, call: EndTransaction) -> EndReply:
    """Handles EndTxn. The outcome contains the reply, followed by a `SendMarkers`.

    The checks of TV1 are in this order: an unknown id (error 49), the producer id (49), its epoch
    (90), and the state. The checks of TV2: an unknown id (49), a state PREPARE_* (51), the producer
    id (49), its epoch (90), and the state.
    """
    transaction = step.state.transactions.get(call.transactional_id)
    if transaction is None:
        return _refuse(step, call, INVALID_PRODUCER_ID_MAPPING, UNKNOWN_ID)
    check = _check_tv2 if call.rules >= TV2 else _check_tv1
    cell = check(transaction.value, call)
    if cell is Act.PREPARE:
        return _prepare(step, call, transaction)
    if cell is Act.REPEAT:
        value = transaction.value
        return EndReply(NONE, value.producer_id, value.producer_epoch)
    assert isinstance(cell, int)
    if cell in (NONE, CONCURRENT_TRANSACTIONS):
        return EndReply(cell)
    return _refuse(step, call, cell, owner(transaction.value))


def _check_tv1(value: TransactionValue, call: EndTransaction) -> Cell:
    if call.producer_id != value.producer_id:
        return INVALID_PRODUCER_ID_MAPPING
    if call.producer_epoch != value.producer_epoch:
        return PRODUCER_FENCED
    return END_TV1[value.state][not call.committed]


def _check_tv2(value: TransactionValue, call: EndTransaction) -> Cell:
    ran_out = (
        call.producer_id == value.previous_producer_id
        and call.producer_epoch == EXHAUSTED_EPOCH
        and value.producer_epoch == 0
    )
    again = ran_out or call.producer_epoch + 1 == value.producer_epoch
    cell = END_TV2[again][value.state][not call.committed]
    if cell == CONCURRENT_TRANSACTIONS:
        return cell
    if call.producer_id != value.producer_id and not ran_out:
        return INVALID_PRODUCER_ID_MAPPING
    if not again and call.producer_epoch != value.producer_epoch:
        return PRODUCER_FENCED
    return cell


def _prepare(step: Step, call: EndTransaction, transaction: Transaction) -> EndReply:
    """Ends the transaction with a commit or an abort, as requested. The reply has the producer id
    and epoch for the next transaction."""
    target = State.PREPARE_COMMIT if call.committed else State.PREPARE_ABORT
    bumps = call.rules >= TV2
    value = _prepared(step, transaction, target, TV2 if bumps else 0, bumps=bumps)
    if value is None:
        return EndReply(COORDINATOR_LOAD_IN_PROGRESS)
    step.write(
        call.transactional_id,
        value,
        transaction.producer_epoch if bumps else transaction.last_epoch,
    )
    detail = "committed by EndTxn" if call.committed else "aborted by EndTxn"
    step.moved(call.transactional_id, transaction.value, value, Cause.CLIENT, detail)
    if not bumps:
        return EndReply(NONE)
    if value.next_producer_id != NO_PRODUCER_ID:
        return EndReply(NONE, value.next_producer_id, 0)
    return EndReply(NONE, value.producer_id, value.producer_epoch)


def abort_fenced(
    step: Step, transaction: Transaction, cause: Cause, detail: str
) -> tuple[int, TransactionValue | None]:
    """Aborts an open transaction and raises its epoch. The new epoch fences the producer.

    Returns CONCURRENT_TRANSACTIONS and the Prepare record, or another error and None. With TV2, the
    fenced producer can continue: it sends InitProducerId with its previous epoch (KIP-360). With
    TV1 it can't. Both protocols raise the epoch only once (KAFKA-19367).
    """
    rules = step.state.server_rules
    client_rules = TV2 if rules >= TV2 else 0
    value = _prepared(step, transaction, State.PREPARE_ABORT, client_rules, bumps=True)
    if value is None:
        return COORDINATOR_LOAD_IN_PROGRESS, None
    last_epoch = transaction.producer_epoch if rules >= TV2 else NO_EPOCH
    step.write(transaction.transactional_id, value, last_epoch)
    step.moved(transaction.transactional_id, transaction.value, value, cause, detail)
    return CONCURRENT_TRANSACTIONS, value


def _prepared(
    step: Step, transaction: Transaction, target: State, client_rules: int, *, bumps: bool
) -> TransactionValue | None:
    """Returns the value of the Prepare record. Returns None if the record needs a new producer id
    and no reserved id is left.

    With TV2, the markers of a transaction have the producer's epoch plus 1. If the producer's epoch
    is EXHAUSTED_EPOCH, the epoch of the markers is the highest possible epoch. The producer then
    continues with a new producer id after the transaction.
    """
    old = transaction.value
    next_producer_id = NO_PRODUCER_ID
    if client_rules >= TV2 and old.producer_epoch >= EXHAUSTED_EPOCH:
        taken = step.state.config.producer_ids.take()
        if taken is None:
            return None
        next_producer_id = taken
    return step.next(
        old,
        target,
        producer_epoch=min(old.producer_epoch + bumps, PRODUCER_EPOCH_MAX),
        start_ms=old.start_ms if old.state is State.ONGOING else step.now.wall_ms,
        next_producer_id=next_producer_id,
        client_rules=client_rules,
    )


def complete_transaction(step: Step, call: MarkersWritten | MarkersRefused) -> int:
    """Completes a transaction whose markers are all written or rejected. Returns NONE.

    A partition rejects a marker if the transaction was ended there with a newer epoch of the
    producer. The partition would reject later markers as well, so the transaction is completed.
    Kafka leaves the transactional id in PREPARE_* forever in this case.
    """
    transaction = step.state.transactions.get(call.transactional_id)
    if transaction is None:
        return NONE
    old = transaction.value
    if (old.producer_id, old.producer_epoch) != (call.producer_id, call.producer_epoch):
        return NONE
    if MARKERS[old.state] is Act.IGNORE:
        return NONE
    committed = old.state is State.PREPARE_COMMIT
    target = State.COMPLETE_COMMIT if committed else State.COMPLETE_ABORT
    value = step.next(old, target, partitions=(), next_producer_id=NO_PRODUCER_ID)
    if old.client_rules >= TV2 and old.next_producer_id != NO_PRODUCER_ID:
        value = value._replace(producer_id=old.next_producer_id, producer_epoch=0)
    cause, detail = Cause.MARKERS, "all markers are written"
    if isinstance(call, MarkersRefused):
        error = f"{NAMES[call.error_code]} ({call.error_code})"
        cause = Cause.ADMIN
        detail = (
            f"a partition rejected the marker with {error}: an operator had ended the transaction"
        )
    step.write(call.transactional_id, value, transaction.last_epoch)
    step.moved(call.transactional_id, old, value, cause, detail)
    return NONE


def _refuse(step: Step, call: EndTransaction, error_code: int, why: str) -> EndReply:
    end = "COMMIT" if call.committed else "ABORT"
    detail = f"EndTxn {end} of {caller(call)}: {why}"
    step.refused(call.transactional_id, error_code, detail, call.producer_id, call.producer_epoch)
    return EndReply(error_code)
