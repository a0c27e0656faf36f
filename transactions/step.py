"""One step of a shard: the state of the shard, and the outcome that the step has built so far."""

from __future__ import annotations

from typing import Any

from protocol.deadlines import Deadlines
from protocol.now import Now
from protocol.records.batch import HEADER_BYTES
from transactions.calls import (
    BROKER,
    TV1,
    TV2,
    AddPartitions,
    Client,
    EndTransaction,
    InitProducerId,
    Partitions,
    Ticket,
)
from transactions.config import TransactionConfig
from transactions.events import Cause, Event, TransactionRefused, Transition
from transactions.outcome import Outcome, Reply, SendMarkers
from transactions.record_codec import run_bytes_at_most
from transactions.states import PREPARED, State
from transactions.transaction import Timeout, Transaction
from transactions.values import NO_EPOCH, NO_TIMEOUT_MS, TransactionRun, TransactionValue

UNKNOWN_ID = "the transactional id is unknown, or has expired"


class ShardState:
    """The state of a shard of transactional ids. Only `TransactionShard.replay` changes it."""

    __slots__ = ("config", "expiries", "open", "timeouts", "transactions")

    def __init__(self, config: TransactionConfig) -> None:
        self.config = config
        self.transactions: dict[str, Transaction] = {}
        self.open: dict[str, Transaction] = {}
        """Transactions in ONGOING and PREPARE_*, in the order in which they began."""
        self.timeouts: Deadlines[Timeout] = Deadlines()
        """Timers of the transactions in ONGOING. Each is due at the wall time of the transaction's
        timeout."""
        self.expiries: Deadlines[Transaction] = Deadlines()
        """Transactional ids without an open transaction, sorted by the wall time of their last
        use."""

    def watch(self, transaction: Transaction) -> None:
        """Sets the timers of a transactional id according to its state."""
        value = transaction.value
        match value.state:
            case State.ONGOING:
                self.open[transaction.transactional_id] = transaction
                transaction.disarm()
                if value.timeout_ms != NO_TIMEOUT_MS:
                    if transaction.timeout is None:
                        transaction.timeout = Timeout(transaction)
                    due_ms = value.start_ms + value.timeout_ms + 1
                    self.timeouts.arm(transaction.timeout, due_ms)
                return
            case State.PREPARE_COMMIT | State.PREPARE_ABORT:
                self.open[transaction.transactional_id] = transaction
                transaction.disarm()
            case State.EMPTY | State.COMPLETE_COMMIT | State.COMPLETE_ABORT:
                self.open.pop(transaction.transactional_id, None)
                self.expiries.arm(transaction, value.last_update_ms)
            case State.DEAD:
                self.open.pop(transaction.transactional_id, None)
        if transaction.timeout is not None:
            transaction.timeout.disarm()

    @property
    def server_rules(self) -> int:
        """Returns TV1 or TV2: the transaction protocol of a transaction that the coordinator ends
        without a request of a client, for example after its timeout."""
        return TV2 if self.config.transaction_version >= TV2 else TV1


class Step:
    """One step of a shard. Handlers read ``state`` and ``now``, add records, events and markers,
    and return a reply."""

    __slots__ = ("client", "events", "markers", "now", "records", "state")

    def __init__(self, state: ShardState, now: Now, client: Client = BROKER) -> None:
        self.state = state
        self.now = now
        self.client = client
        """The sender of the call, or the broker itself for a step without a call."""
        self.records: list[TransactionRun] = []
        self.events: list[Event] = []
        self.markers: list[SendMarkers] = []
        """Markers for the marker sender. In the outcome they follow all replies."""

    def outcome(self, *replies: tuple[Ticket, Reply]) -> Outcome:
        """Returns the outcome of the step: its records, its events, ``replies``, and then the
        markers to send."""
        sender = self.state.config.marker_sender
        markers = [(sender, each) for each in self.markers]
        return Outcome(self.records, [*replies, *markers], self.events)

    @property
    def room(self) -> int:
        """Returns the maximum size in bytes of the records of one batch."""
        return self.state.config.max_record_bytes - HEADER_BYTES

    def fits(self, transactional_id: str, partitions: Partitions) -> bool:
        """Returns True if each record of a transaction with these partitions fits into a batch."""
        return run_bytes_at_most(transactional_id, partitions) <= self.room

    def next(self, old: TransactionValue, state: State, **changes: Any) -> TransactionValue:
        """Returns the value of the next record of a transactional id.

        As in Kafka, the previous producer id in this value is the producer id of ``old``, even if
        the producer id stays the same.
        """
        return old._replace(
            state=state,
            last_update_ms=self.now.wall_ms,
            previous_producer_id=old.producer_id,
            **changes,
        )

    def write(
        self, transactional_id: str, value: TransactionValue | None, last_epoch: int = NO_EPOCH
    ) -> None:
        """Adds a record of a transactional id. If ``value`` is None, the record is a tombstone."""
        version = 1 if self.state.config.transaction_version else 0
        run = TransactionRun(transactional_id, value, version, last_epoch, self.client)
        self.records.append(run)

    def moved(
        self,
        transactional_id: str,
        old: TransactionValue | None,
        new: TransactionValue,
        cause: Cause,
        detail: str,
    ) -> None:
        """Emits a `Transition`. If the new state is PREPARE_*, also adds the markers to send."""
        touched = new.partitions or (() if old is None else old.partitions)
        completes = old is not None and old.state in PREPARED
        begun = new.state is not State.EMPTY and new.start_ms >= 0
        self.events.append(
            Transition(
                transactional_id,
                None if old is None else old.state,
                new.state,
                new.producer_id,
                new.producer_epoch,
                cause,
                detail,
                self.client,
                sum(len(ids) for _, ids in touched),
                self.now.wall_ms - new.start_ms if begun and new.state is not State.DEAD else -1,
                self.now.wall_ms - old.last_update_ms if completes and old is not None else -1,
            )
        )
        if new.state in PREPARED:
            self.markers.append(markers_of(transactional_id, new))

    def refused(
        self,
        transactional_id: str,
        error_code: int,
        detail: str,
        producer_id: int,
        producer_epoch: int,
    ) -> int:
        """Emits a `TransactionRefused` for a call whose error ends the producer or its transaction.
        Returns the error code."""
        self.events.append(
            TransactionRefused(
                transactional_id, error_code, detail, producer_id, producer_epoch, self.client
            )
        )
        return error_code


def caller(call: InitProducerId | AddPartitions | EndTransaction) -> str:
    return f"producer {call.producer_id} at epoch {call.producer_epoch}"


def owner(value: TransactionValue) -> str:
    """Returns text that names the owner of a transactional id, for the details of rejected
    calls."""
    return (
        f"the transactional id belongs to producer {value.producer_id} at epoch"
        f" {value.producer_epoch} ({value.state.wire_name})"
    )


def markers_of(transactional_id: str, value: TransactionValue) -> SendMarkers:
    """Returns the markers that must be sent for a Prepare record."""
    return SendMarkers(
        transactional_id,
        value.producer_id,
        value.producer_epoch,
        value.state is State.PREPARE_COMMIT,
        TV2 if value.client_rules >= TV2 else TV1,
        value.partitions,
    )
