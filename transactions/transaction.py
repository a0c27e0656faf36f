"""A transactional id: the state that its records contain, and further state in memory."""

from __future__ import annotations

from protocol.deadlines import Timer
from transactions.calls import BROKER, Client, Partitions
from transactions.states import LEGAL_PREVIOUS, OPEN, State
from transactions.values import NO_EPOCH, TransactionRun, TransactionValue


class Timeout(Timer):
    """The timer that aborts a transaction. It is due when the transaction timeout has passed since
    the start time that the transaction's record contains."""

    __slots__ = ("transaction",)

    def __init__(self, transaction: Transaction) -> None:
        super().__init__()
        self.transaction = transaction


class Transaction(Timer):
    """A transactional id and its state. Only `transition_to` changes the state.

    The object is also the timer for the expiry of the transactional id. If the id has no open
    transaction, ``due_ms`` is the wall time at which the id was last used.
    """

    __slots__ = ("client", "last_epoch", "prepared_ms", "timeout", "transactional_id", "value")

    def __init__(self, transactional_id: str, value: TransactionValue) -> None:
        super().__init__()
        self.transactional_id = transactional_id
        self.value = value
        """The value of the last record of this transactional id."""
        self.last_epoch = NO_EPOCH
        """The epoch before the current epoch. If the producer did not receive the reply with the
        current epoch, it may repeat its request with the previous epoch.

        No record contains the previous epoch. A load therefore resets this field, as in Kafka
        4.3.1.
        """
        self.client: Client = BROKER
        """The sender of the last call that changed the state. Changes by the broker itself do not
        set this field."""
        self.prepared_ms = -1
        """The wall time in ms at which the transaction entered PREPARE_*. It is -1 if the
        transaction has not entered PREPARE_* since the load."""
        self.timeout: Timeout | None = None
        """The timer of the transaction timeout. It is created for the first transaction of the
        id."""

    def transition_to(self, run: TransactionRun, *, live: bool = True) -> None:
        """Applies a record. If ``live`` is True, the transition must be legal.

        ``live`` is False for a new id, and during a load: the compacted log may lack some of the
        states.
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
        """True if a transaction has begun and is not complete."""
        return self.value.state in OPEN

    @property
    def state(self) -> State:
        return self.value.state

    @property
    def producer_id(self) -> int:
        return self.value.producer_id

    @property
    def producer_epoch(self) -> int:
        """The current producer epoch. In PREPARE_* this is the epoch of the markers."""
        return self.value.producer_epoch

    @property
    def timeout_ms(self) -> int:
        """The maximum time in ms for which a transaction may be open."""
        return self.value.timeout_ms

    @property
    def partitions(self) -> Partitions:
        return self.value.partitions

    @property
    def start_ms(self) -> int:
        """The wall time in ms at which the first partition was added to the open transaction, or to
        the last transaction if none is open."""
        return self.value.start_ms

    @property
    def last_update_ms(self) -> int:
        return self.value.last_update_ms

    @property
    def previous_producer_id(self) -> int:
        return self.value.previous_producer_id

    @property
    def next_producer_id(self) -> int:
        """Returns the producer id with which the producer must continue after this transaction, or
        -1 if it keeps its producer id."""
        return self.value.next_producer_id

    @property
    def client_rules(self) -> int:
        """Returns the transaction.version of the client that last added partitions or ended a
        transaction."""
        return self.value.client_rules
