"""Events of a shard of transactional ids, for log lines, metrics and the journal. One event
describes a whole request, never a single partition."""

from __future__ import annotations

from enum import Enum

from protocol.slotted import slotted
from transactions.calls import BROKER, Client, Partitions
from transactions.states import State


class Cause(Enum):
    """The cause of a state change of a transactional id. The value appears in log lines and
    metrics."""

    CLIENT = "client"
    """The producer sent InitProducerId, AddPartitionsToTxn or EndTxn."""
    TIMEOUT = "timeout"
    """The transaction was open for longer than its timeout."""
    FENCED = "fenced"
    """A newer producer with the same id called InitProducerId."""
    ADMIN = "admin"
    """An operator used `kafka-transactions abort`, fenceProducers or `muster transactions
    abort`."""
    MARKERS = "markers"
    """All markers are written."""
    EXPIRED = "expired"
    """The transactional id was not used for transactional.id.expiration.ms."""


@slotted
class Transition:
    """The state of a transactional id has changed by a new record."""

    transactional_id: str
    old: State | None
    """The previous state, or None for a new transactional id."""
    new: State
    producer_id: int
    producer_epoch: int
    cause: Cause
    detail: str
    """The cause of the state change as text, with its numbers."""
    client: Client = BROKER
    partitions: int = 0
    open_ms: int = -1
    """Milliseconds for which the transaction has been open (wall time), or -1 without a
    transaction."""
    since_prepare_ms: int = -1
    """Milliseconds from the Prepare record to the last marker. Only set if the new state is
    COMPLETE_*."""


@slotted
class PartitionsAdded:
    """Partitions that were not yet in the transaction were added to it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Partitions
    client: Client
    group_id: str = ""
    """The group whose partition of __consumer_offsets was added, or ""."""


@slotted
class ProducerFenced:
    """A newer producer has taken over a transactional id. Requests with lower epochs are rejected
    from now on."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    client: Client
    """The client that now owns the transactional id."""
    fenced: Client
    """The client that has lost the transactional id: the sender of the last request for this id
    before the newer producer's request."""


@slotted
class TransactionRefused:
    """A call was rejected. Because of the error, the client must end its producer or abort its
    transaction."""

    transactional_id: str
    error_code: int
    detail: str
    producer_id: int
    producer_epoch: int
    client: Client


@slotted
class EndedPastCoordinator:
    """A client's WriteTxnMarkers request has ended an open transaction on some partitions without
    its coordinator.

    Operators end hanging transactions in this way. The broker emits the event, because the shard
    may not know the producer.
    """

    transactional_id: str
    """The transactional id of the producer, or "" if the producer has none."""

    producer_id: int
    producer_epoch: int
    committed: bool
    partitions: Partitions
    """The partitions in which the transaction was open."""
    since_ms: int
    """The wall time of the last record by the producer in these partitions, in ms since 1970."""
    client: Client


@slotted
class ShardLoaded:
    """A partition of ``__transaction_state`` was loaded."""

    transactional_ids: int
    completing: int
    """The number of transactional ids between Prepare and Complete. Their markers are sent again
    after the load."""


Event = (
    Transition
    | PartitionsAdded
    | ProducerFenced
    | TransactionRefused
    | EndedPastCoordinator
    | ShardLoaded
)
