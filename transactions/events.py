"""Events of a shard of transactional ids, for log lines, metrics and the journal.

Events are per request, never per partition.
"""

from __future__ import annotations

from enum import Enum

from protocol.slotted import slotted
from transactions.calls import BROKER, Client, Partitions
from transactions.states import State


class Cause(Enum):
    """The cause of a state change of a transactional id; the value is for log lines and metrics."""

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
    """A transactional id changed its state by a new record."""

    transactional_id: str
    old: State | None
    """The previous state; None for a new transactional id."""
    new: State
    producer_id: int
    producer_epoch: int
    cause: Cause
    detail: str
    """The cause of the transition with its figures, in words."""
    client: Client = BROKER
    partitions: int = 0
    """The number of partitions in the transaction."""
    open_ms: int = -1
    """Milliseconds for which the transaction has been open (wall time); -1 without a
    transaction."""
    since_prepare_ms: int = -1
    """For COMPLETE_*, the milliseconds from the Prepare record to the last marker."""


@slotted
class PartitionsAdded:
    """Partitions that were not yet in the transaction were added to it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Partitions
    client: Client
    group_id: str = ""
    """The group whose offsets partition was added; "" if no group's partition was added."""


@slotted
class ProducerFenced:
    """A newer producer has taken over the transactional id; requests with lower epochs are now
    rejected."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    """The newer producer's epoch."""
    client: Client
    """The client that now owns the transactional id."""
    fenced: Client
    """The fenced client, which is the sender of the last call before the takeover."""


@slotted
class TransactionRefused:
    """A call was rejected with an error that ends the producer or its transaction."""

    transactional_id: str
    error_code: int
    detail: str
    producer_id: int
    producer_epoch: int
    """The epoch in the call."""
    client: Client


@slotted
class EndedPastCoordinator:
    """A WriteTxnMarkers request of a client ended a producer's open transaction on some partitions,
    bypassing the transaction's coordinator.

    Operators end hanging transactions by this request. The broker emits the event, because the
    shard may not know the producer.
    """

    transactional_id: str
    """The transactional id of this producer; "" if the producer has none."""

    producer_id: int
    producer_epoch: int
    committed: bool
    partitions: Partitions
    """The partitions in which the transaction was open."""
    since_ms: int
    """Wall time of the producer's last record in these partitions, in Unix milliseconds."""
    client: Client


@slotted
class ShardLoaded:
    """A partition of ``__transaction_state`` was loaded."""

    transactional_ids: int
    completing: int
    """The number of transactional ids between Prepare and Complete. Their markers are sent again.
    """


Event = (
    Transition
    | PartitionsAdded
    | ProducerFenced
    | TransactionRefused
    | EndedPastCoordinator
    | ShardLoaded
)
