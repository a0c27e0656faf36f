"""A transactional id: the state in its records, and the state that exists only in memory."""

from __future__ import annotations

from protocol.deadlines import Timer
from transactions.calls import BROKER, Client, Partitions
from transactions.states import LEGAL_PREVIOUS, OPEN, State
from transactions.values import NO_EPOCH, TransactionRun, TransactionValue


class Timeout(Timer):
    """The timer that aborts a transaction after its timeout, counted from the start time in its
    record."""

    __slots__ = ("transaction",)

    def __init__(self, transaction: Transaction) -> None:
        super().__init__()
        self.transaction = transaction


class Transaction(Timer):
    """One transactional id; only `transition_to` changes it.

    The object is also the timer of the id's expiry: without an open transaction, ``due_ms`` is the
    wall time of the last use.
    """

    __slots__ = ("client", "last_epoch", "prepared_ms", "timeout", "transactional_id", "value")

    def __init__(self, transactional_id: str, value: TransactionValue) -> None:
        super().__init__()
        self.transactional_id = transactional_id
        self.value = value
        """The value of the last record."""
        self.last_epoch = NO_EPOCH
        """The previous epoch, with which the owner may retry if the owner did not receive the
        reply. Records do not contain the previous epoch, so a load resets it, as in Kafka 4.3.1."""
        self.client: Client = BROKER
        """The sender of the last call that changed the state; changes by the broker itself do not
        set this field."""
        self.prepared_ms = -1
        """Wall time in ms of the last PREPARE_* since the load; -1 in ONGOING, and before the first
        PREPARE_*."""
        self.timeout: Timeout | None = None
        """The timer of the timeout; created with the first transaction of the id."""

    def transition_to(self, run: TransactionRun, *, live: bool = True) -> None:
        """Applies a record.

        With ``live`` the transition must be legal. A load may skip states, because the log is
        compacted.
        """
        value = run.value
        state = State.DEAD if value is None else value.state
        legal = not live or self.value.state in LEGAL_PREVIOUS[state]
        assert legal, f"{self.transactional_id!r} can't go from {self.value.state} to {state}"
        if value is None:
            self.value = self.value._replace(state=State.DEAD)
            return
        if state is State.PREPARE_COMMIT or state is State.PREPARE_ABORT:
            self.prepared_ms = value.last_update_ms
        elif state is State.ONGOING:
            self.prepared_ms = -1
        self.value = value
        self.last_epoch = run.last_epoch
        if run.client != BROKER:
            self.client = run.client

    @property
    def is_open(self) -> bool:
        """Whether a transaction has begun and is not complete."""
        return self.value.state in OPEN

    @property
    def state(self) -> State:
        """The state in the last record."""
        return self.value.state

    @property
    def producer_id(self) -> int:
        """The current producer id."""
        return self.value.producer_id

    @property
    def producer_epoch(self) -> int:
        """The current producer epoch; in PREPARE_*, the epoch of the markers."""
        return self.value.producer_epoch

    @property
    def timeout_ms(self) -> int:
        """The maximum time in ms for which a transaction may be open."""
        return self.value.timeout_ms

    @property
    def partitions(self) -> Partitions:
        """The partitions of the transaction."""
        return self.value.partitions

    @property
    def start_ms(self) -> int:
        """Wall time of the first partition of the transaction or, after its end, of the last
        transaction.
        """
        return self.value.start_ms

    @property
    def last_update_ms(self) -> int:
        """Wall time of the last record."""
        return self.value.last_update_ms

    @property
    def previous_producer_id(self) -> int:
        """The producer id in the previous record."""
        return self.value.previous_producer_id

    @property
    def next_producer_id(self) -> int:
        """Returns the producer id with which the producer continues after this transaction; -1 for
        the current producer id."""
        return self.value.next_producer_id

    @property
    def client_rules(self) -> int:
        """Returns the transaction.version of the last client that added partitions or ended a
        transaction."""
        return self.value.client_rules
