"""A shard: the transactional ids of one ``__transaction_state`` partition, and the only interface
of the core.

The caller makes one call at a time, and ``now.mono_ms`` never decreases. The caller passes every
run of an outcome to ``replay`` immediately, in order and with the log offset of the run, so that
the next call sees the run. The replies of an outcome are created before the replay. The caller
sends a reply, or passes markers to the marker sender, when all records before it are stable.

Before it calls ``loaded``, the caller may call only two methods: first ``replay``, then ``wake``.
After ``unload`` the shard must not be used. Calls are never parked: each call is answered in its
outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator
from itertools import islice
from typing import Any

from protocol.now import Now
from transactions.add_partitions import add_partitions, verify_partitions
from transactions.calls import (
    BROKER,
    AddPartitions,
    Call,
    DescribeTransaction,
    EndTransaction,
    InitProducerId,
    ListTransactions,
    MarkersRefused,
    MarkersWritten,
    VerifyPartitions,
)
from transactions.config import TransactionConfig
from transactions.end_txn import complete_transaction, end_transaction
from transactions.events import ShardLoaded
from transactions.init_producer_id import init_producer_id
from transactions.outcome import Outcome, Reply, SendMarkers
from transactions.states import PREPARED
from transactions.step import ShardState, Step, markers_of
from transactions.sweeps import Sweeps
from transactions.transaction import Transaction
from transactions.values import TransactionRun
from transactions.view import TransactionView, describe_transaction, list_transactions

NOTHING = Outcome()
_WOKEN_AT_ONCE = 1 << 30
_HAS_CLIENT = (InitProducerId, AddPartitions, EndTransaction)

_HANDLERS: dict[type, Callable[[Step, Any], Reply]] = {
    InitProducerId: init_producer_id,
    AddPartitions: add_partitions,
    VerifyPartitions: verify_partitions,
    EndTransaction: end_transaction,
    MarkersWritten: complete_transaction,
    MarkersRefused: complete_transaction,
    DescribeTransaction: describe_transaction,
    ListTransactions: list_transactions,
}


class TransactionShard:
    """The transactional ids of one partition of ``__transaction_state``."""

    __slots__ = ("_live", "_state", "_sweeps", "_waking", "_woken", "view")

    def __init__(self, config: TransactionConfig) -> None:
        self._state = ShardState(config)
        self._live = False
        """True after ``loaded``. From then on, replayed records must be legal state transitions."""
        self._waking: Iterator[Transaction] | None = None
        """The open transactions that ``wake`` has not yet visited, or None before the first call of
        ``wake``."""
        self._woken: list[SendMarkers] = []
        """The `SendMarkers` of transactions that were prepared but not complete when the log was
        loaded. ``wake`` collects them, and ``loaded`` sends them."""
        self._sweeps = Sweeps(self._state, Now(0, 0))
        self.view = TransactionView(self._state)

    # ------------------------------------------------------------------------------------- calls

    def handle(self, call: Call, now: Now) -> Outcome:
        """Handles one call. The returned outcome contains the reply under the call's ticket."""
        client = call.client if isinstance(call, _HAS_CLIENT) else BROKER
        step = Step(self._state, now, client)
        reply = _HANDLERS[type(call)](step, call)
        return step.outcome((call.ticket, reply))

    @property
    def connections(self) -> Collection[Hashable]:
        """Returns an empty collection, because no call is ever parked."""
        return ()

    def connection_closed(self, connection: Hashable, now: Now) -> Outcome:  # noqa: ARG002
        """Does nothing, because no call is ever parked."""
        return NOTHING

    def configure(self, config: TransactionConfig) -> None:
        """Uses ``config`` from the next call on."""
        self._state.config = config

    def expire(self, now: Now, budget: int) -> Outcome:
        """Does due work for about ``budget`` transactional ids: timeouts first, then the expiry of
        unused ids.

        If more work is due, ``next_deadline`` is not later than ``now``.
        """
        step = Step(self._state, now)
        self._sweeps.work(step, max(budget, 1))
        return step.outcome()

    def next_deadline(self) -> int | None:
        """Returns the monotonic time in ms at which ``expire`` next has work, or None if no work is
        scheduled."""
        state, sweeps = self._state, self._sweeps
        if not len(state.timeouts):
            return sweeps.expire_at_ms if len(state.expiries) else None
        if not len(state.expiries):
            return sweeps.abort_at_ms
        return min(sweeps.abort_at_ms, sweeps.expire_at_ms)

    def unload(self, error_code: int) -> Outcome:  # noqa: ARG002
        """Unloads the partition. The outcome has no replies, because no call is ever parked."""
        return NOTHING

    # --------------------------------------------------------------------------------------- log

    def replay(self, run: TransactionRun, base_offset: int) -> None:  # noqa: ARG002
        """Applies a record that is in the log at ``base_offset``.

        Only this method changes a transactional id, after a call as well as during a load. A loaded
        shard therefore equals the shard that wrote the log.
        """
        state, live = self._state, self._live
        transactional_id = run.transactional_id
        transaction = state.transactions.get(transactional_id)
        if transaction is None:
            if run.value is None:
                return
            transaction = Transaction(transactional_id, run.value)
            state.transactions[transactional_id] = transaction
            live = False  # a new id has no earlier state
        transaction.transition_to(run, live=live)
        if run.value is None:
            del state.transactions[transactional_id]
            transaction.disarm()
        state.watch(transaction)

    def restore(self, *part: object) -> None:  # noqa: ARG002
        """Raises AssertionError. Transactional ids have no snapshot, so each load replays the whole
        log."""
        raise AssertionError("the state of transactional ids has no snapshot")

    def wake(self, now: Now, budget: int) -> int:  # noqa: ARG002
        """Visits at most ``budget`` further open transactions. Collects the markers of the
        transactions in PREPARE_*, which `loaded` sends later. Returns the number of visited
        transactions; 0 if all were visited before."""
        if self._waking is None:
            self._waking = iter(list(self._state.open.values()))
        awake = 0
        for transaction in islice(self._waking, budget):
            awake += 1
            if transaction.state in PREPARED:
                self._woken.append(markers_of(transaction.transactional_id, transaction.value))
        return awake

    def loaded(self, now: Now) -> Outcome:
        """Ends the load after the replay. From now on the shard accepts calls. The outcome sends
        the markers of each transaction in PREPARE_* again."""
        while self.wake(now, _WOKEN_AT_ONCE):
            pass
        self._live = True
        self._sweeps = Sweeps(self._state, now)
        step = Step(self._state, now)
        step.markers, self._woken = self._woken, []
        if self._state.transactions:
            step.events.append(ShardLoaded(len(self._state.transactions), len(step.markers)))
        return step.outcome()
