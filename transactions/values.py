"""The log's records of transactional ids: a value, and the run that contains it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from protocol.records.batch import PRODUCER_EPOCH_MAX
from transactions.calls import BROKER, Client, Partitions
from transactions.states import State

NO_PRODUCER_ID = -1
NO_TIMEOUT_MS = (1 << 31) - 1
"""Of a transaction in two phases (KIP-939), which is never aborted by its timeout."""
NO_EPOCH = -1
EXHAUSTED_EPOCH = PRODUCER_EPOCH_MAX - 1
"""The last epoch that a client is given."""


class TransactionValue(NamedTuple):
    """TransactionLogValue, version 0 or 1; fields that version 0 does not hold have
    their defaults.
    """

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: State
    partitions: Partitions
    """() while EMPTY and when complete; the log says null while EMPTY."""
    last_update_ms: int
    """Wall time of the last record."""
    start_ms: int
    """Wall time of the first partition; -1 outside of a transaction."""
    previous_producer_id: int = NO_PRODUCER_ID
    """v1, tag 0: that of the record before; by it a producer whose epochs have run out is known
    when it comes again (KIP-890)."""
    next_producer_id: int = NO_PRODUCER_ID
    """v1, tag 1: that with which the producer goes on behind this end."""
    client_rules: int = 0
    """v1, tag 2: ClientTransactionVersion, 0 below TV2 or unknown, and 2."""
    next_producer_epoch: int = NO_EPOCH
    """v1, tag 3: of KIP-939's prepared transactions; Kafka 4.3.1 leaves it out."""


@dataclass(slots=True)
class TransactionRun:
    """One record of ``__transaction_state``; ``value`` None is its tombstone.

    The fields from ``last_epoch`` on are for memory alone: no record has them.
    """

    transactional_id: str
    value: TransactionValue | None
    version: int = 1
    """Of the value: 1 with transaction.version 1 and up."""
    last_epoch: int = field(default=NO_EPOCH, compare=False)
    """`Transaction.last_epoch` from now on."""
    client: Client = field(default=BROKER, compare=False)
    """The sender of the call."""

    def __len__(self) -> int:
        return 1
