"""Facts that a shard of transactional ids reports; log lines, metrics and the journal are made of
them. An event is one for a request, never one for a partition."""

from __future__ import annotations

from enum import Enum

from protocol.slotted import slotted
from transactions.calls import BROKER, Client, Partitions
from transactions.states import State


class Cause(Enum):
    """Why a transactional id moved to another state; the value is for log lines and metrics."""

    CLIENT = "client"
    """The producer asked for it: InitProducerId, a partition, EndTxn."""
    TIMEOUT = "timeout"
    """Open for longer than its timeout."""
    FENCED = "fenced"
    """A newer producer with the same id called InitProducerId."""
    ADMIN = "admin"
    """An operator: `kafka-transactions abort`, fenceProducers, `muster transactions abort`."""
    MARKERS = "markers"
    """All markers are written."""
    EXPIRED = "expired"
    """Not used for transactional.id.expiration.ms."""


@slotted
class Transition:
    """A transactional id is in another state; its record is accepted."""

    transactional_id: str
    old: State | None
    """None: the id is new."""
    new: State
    producer_id: int
    producer_epoch: int
    cause: Cause
    detail: str
    """The cause with its figures: a sentence without a subject."""
    client: Client = BROKER
    partitions: int = 0
    """How many the transaction has touched."""
    open_ms: int = -1
    """How long it has been open (wall); -1 where none is."""
    since_prepare_ms: int = -1
    """COMPLETE_*: how long the markers took."""


@slotted
class PartitionsAdded:
    """Partitions that were not yet in the transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Partitions
    client: Client
    group_id: str = ""
    """Whose offsets partition it is."""


@slotted
class ProducerFenced:
    """A newer producer has taken the id over: the epochs below are refused from now on."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    """The newer one."""
    client: Client
    """The new owner of the id."""
    fenced: Client
    """The fenced client: the sender of the last call before."""


@slotted
class TransactionRefused:
    """A call was refused with an error that ends the producer or its transaction."""

    transactional_id: str
    error_code: int
    detail: str
    producer_id: int
    producer_epoch: int
    """The epoch in the call."""
    client: Client


@slotted
class EndedPastCoordinator:
    """WriteTxnMarkers ended what a producer had open on partitions; no coordinator asked for it.

    So an operator ends what hangs. The edge reports it: no shard need know of the producer.
    """

    transactional_id: str
    """The id that has this producer; "" where none has it any more."""

    producer_id: int
    producer_epoch: int
    committed: bool
    partitions: Partitions
    """Where it was open."""
    since_ms: int
    """Wall time of the producer's last record there."""
    client: Client


@slotted
class ShardLoaded:
    """A partition of ``__transaction_state`` was loaded."""

    transactional_ids: int
    completing: int
    """Of these so many were between Prepare and Complete: their markers are sent again."""


Event = (
    Transition
    | PartitionsAdded
    | ProducerFenced
    | TransactionRefused
    | EndedPastCoordinator
    | ShardLoaded
)
