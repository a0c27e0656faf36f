"""The records of transactional ids in the log: the value, and the run that contains it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from protocol.records.batch import PRODUCER_EPOCH_MAX
from transactions.calls import BROKER, Client, Partitions
from transactions.states import State

NO_PRODUCER_ID = -1
NO_TIMEOUT_MS = (1 << 31) - 1
"""The timeout value of a two-phase transaction (KIP-939). Such a transaction never times out."""
NO_EPOCH = -1
EXHAUSTED_EPOCH = PRODUCER_EPOCH_MAX - 1
"""The last epoch that a client receives."""


class TransactionValue(NamedTuple):
    """A TransactionLogValue of version 0 or 1. Fields that do not exist in version 0 have their
    defaults."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: State
    partitions: Partitions
    """The partitions of the transaction. In EMPTY and COMPLETE_* the value is (). In the log, the
    field is null in EMPTY."""
    last_update_ms: int
    """The wall time in ms at which the record was created."""
    start_ms: int
    """The wall time in ms at which the first partition was added, or -1 without a transaction."""
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id in the previous record (v1, tag 0).

    When the epochs of a producer id are exhausted, the transactional id gets another producer id.
    This field identifies a producer that then repeats its request (KIP-890).
    """
    next_producer_id: int = NO_PRODUCER_ID
    """The producer id with which the producer must continue after this transaction (v1, tag 1)."""
    client_rules: int = 0
    """ClientTransactionVersion (v1, tag 2). It is 2 for TV2, and 0 for a lower or unknown
    version."""
    next_producer_epoch: int = NO_EPOCH
    """The epoch for prepared transactions of KIP-939 (v1, tag 3). Kafka 4.3.1 does not write it."""


@dataclass(slots=True)
class TransactionRun:
    """One record of ``__transaction_state``. If ``value`` is None, the record is a tombstone.

    The fields from ``last_epoch`` on exist only in memory.
    """

    transactional_id: str
    value: TransactionValue | None
    version: int = 1
    """The version of the value. It is 1 if transaction.version is 1 or higher."""
    last_epoch: int = field(default=NO_EPOCH, compare=False)
    """The value that `Transaction.last_epoch` gets when this record is applied."""
    client: Client = field(default=BROKER, compare=False)
    """The client whose call caused the record."""

    def __len__(self) -> int:
        return 1
