"""A shard: the ids of one ``__transaction_state`` partition, and the core's whole surface.

The caller makes one call at a time. ``now`` never goes back in ``mono_ms``. The caller gives every
run of an outcome to ``replay`` at once, in order, with its log offset, so that the next call sees
it; the replies of the outcome were made before that. It releases the replies when the records
before them are stable, that for the marker sender too. Before ``loaded`` it may call only
``replay``, and then ``wake``. After ``unload`` the shard is thrown away.

No call is parked: each is answered in its own outcome.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from protocol.now import Now
from transactions.beginning import init_producer_id
from transactions.calls import (
    AddPartitions,
    Call,
    DescribeTransaction,
    EndTransaction,
    InitProducerId,
    ListTransactions,
    MarkersRefused,
    MarkersWritten,
    Ticket,
    VerifyPartitions,
)
from transactions.config import TransactionConfig
from transactions.ending import end_transaction, markers_refused, markers_written
from transactions.events import ShardLoaded
from transactions.outcome import Outcome
from transactions.states import OPEN, PREPARED
from transactions.step import ShardState, Step
from transactions.touching import add_partitions, verify_partitions
from transactions.transaction import Transaction
from transactions.values import TransactionRun
from transactions.view import TransactionView, describe_transaction, list_transactions

NOTHING = Outcome()

_HANDLERS: dict[type, Callable[[Step, Any], None]] = {
    InitProducerId: init_producer_id,
    AddPartitions: add_partitions,
    VerifyPartitions: verify_partitions,
    EndTransaction: end_transaction,
    MarkersWritten: markers_written,
    MarkersRefused: markers_refused,
    DescribeTransaction: describe_transaction,
    ListTransactions: list_transactions,
}


class TransactionShard:
    """The transactional ids of one partition of ``__transaction_state``."""

    __slots__ = ("_live", "_state", "view")

    def __init__(self, config: TransactionConfig) -> None:
        self._state = ShardState(config)
        self._live = False
        self.view = TransactionView(self._state)
        """What others read of this shard; see `TransactionView`."""

    # ------------------------------------------------------------------------------------- calls

    def handle(self, call: Call, now: Now) -> Outcome:
        """Handles one decoded request; its ticket is answered in this outcome."""
        step = Step(self._state, now)
        _HANDLERS[type(call)](step, call)
        return step.outcome()

    def disconnected(self, ticket: Ticket, now: Now) -> Outcome:  # noqa: ARG002
        """No call is parked, so that there is nothing to do."""
        return NOTHING

    def configure(self, config: TransactionConfig) -> None:
        """Uses other settings from the next call on."""
        self._state.config = config

    def expire(self, now: Now, budget: int) -> Outcome:  # noqa: ARG002
        """Does what is due, about ``budget`` ids (at least one)."""
        return NOTHING

    def next_deadline(self) -> int | None:
        """When ``expire`` has something to do next, in monotonic milliseconds; None: never."""
        return None

    def unload(self, error_code: int) -> Outcome:  # noqa: ARG002
        """Gives the partition up; no call is parked."""
        return NOTHING

    # --------------------------------------------------------------------------------------- log

    def replay(self, run: TransactionRun, base_offset: int) -> None:  # noqa: ARG002
        """Folds in a record that is in the log at ``base_offset``, live and at load."""
        state = self._state
        transactional_id = run.transactional_id
        transaction = state.transactions.get(transactional_id)
        if transaction is not None:
            transaction.transition_to(run, self._live)
            if run.value is None:
                del state.transactions[transactional_id]
                state.open.pop(transactional_id, None)
                return
        elif run.value is None:
            return
        else:
            transaction = Transaction(transactional_id, run.value)
            transaction.last_epoch = run.last_epoch
            transaction.client = run.client
            state.transactions[transactional_id] = transaction
        if run.value.state in OPEN:
            state.open[transactional_id] = transaction
        else:
            state.open.pop(transactional_id, None)

    def restore(self, *part: object) -> None:  # noqa: ARG002
        """There is no snapshot of transactional ids: their topic is loaded whole."""
        raise AssertionError("transactional ids have no snapshot")

    def wake(self, now: Now, budget: int) -> int:  # noqa: ARG002
        """A part of ``loaded``, for at most so many ids; how many, 0 when all are awake."""
        return 0

    def loaded(self, now: Now) -> Outcome:
        """The log is replayed: calls may follow. Markers of each PREPARE_* are sent again."""
        self._live = True
        step = Step(self._state, now)
        for transactional_id, transaction in self._state.open.items():
            if transaction.state in PREPARED:
                step.send_markers(transactional_id, transaction.value)
        if self._state.transactions:
            known = len(self._state.transactions)
            step.events.append(ShardLoaded(known, len(step.replies)))
        return step.outcome()
