"""A transactional id: the fold of its records, and what memory alone knows of it."""

from __future__ import annotations

from protocol.deadlines import Timer
from transactions.calls import BROKER, Client, Partitions
from transactions.states import LEGAL_PREVIOUS, OPEN, State
from transactions.values import NO_EPOCH, TransactionRun, TransactionValue


class Timeout(Timer):
    """Ends a transaction that is open for too long; on the wall clock, as the log knows it."""

    __slots__ = ("transaction",)

    def __init__(self, transaction: Transaction) -> None:
        super().__init__()
        self.transaction = transaction


class Transaction(Timer):
    """One transactional id. It changes in `transition_to` and nowhere else.

    As a timer it is due for expiry: ``due_ms`` is when it was used last (wall), while nothing is
    open.
    """

    __slots__ = ("client", "last_epoch", "prepared_ms", "timeout", "transactional_id", "value")

    def __init__(self, transactional_id: str, value: TransactionValue) -> None:
        super().__init__()
        self.transactional_id = transactional_id
        self.value = value
        """Its last record."""
        self.last_epoch = NO_EPOCH
        """The epoch before this one, where its owner may come with it again since the answer was
        lost; no record keeps it, and so a load forgets it, as in Kafka 4.3.1."""
        self.client: Client = BROKER
        """The sender of the last call that changed the state; changes by the broker itself leave
        it."""
        self.prepared_ms = -1
        """Wall time of the PREPARE_* that is to be completed or was; -1: none since the load."""
        self.timeout: Timeout | None = None
        """Made for its first transaction."""

    def transition_to(self, run: TransactionRun, *, live: bool = True) -> None:
        """Takes a record: another state, or the same with more in it.

        ``live`` holds it to the legal moves. The records of a log may have gaps, since it is
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
        """Whether a transaction is under way: begun and not complete."""
        return self.value.state in OPEN

    @property
    def state(self) -> State:
        """See `State`."""
        return self.value.state

    @property
    def producer_id(self) -> int:
        """That of its producer now."""
        return self.value.producer_id

    @property
    def producer_epoch(self) -> int:
        """That of its producer now; of the markers while it is between Prepare and Complete."""
        return self.value.producer_epoch

    @property
    def timeout_ms(self) -> int:
        """How long a transaction may be open."""
        return self.value.timeout_ms

    @property
    def partitions(self) -> Partitions:
        """The partitions of the transaction."""
        return self.value.partitions

    @property
    def start_ms(self) -> int:
        """Wall time of the first partition of the transaction; the last one's once complete."""
        return self.value.start_ms

    @property
    def last_update_ms(self) -> int:
        """Wall time of its last record."""
        return self.value.last_update_ms

    @property
    def previous_producer_id(self) -> int:
        """That before its epochs ran out."""
        return self.value.previous_producer_id

    @property
    def next_producer_id(self) -> int:
        """That with which its producer goes on behind this end."""
        return self.value.next_producer_id

    @property
    def client_rules(self) -> int:
        """transaction.version of the last client that added partitions or ended."""
        return self.value.client_rules
