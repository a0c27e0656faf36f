"""The log's records of transactional ids: a value, and the run that contains it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from protocol.records.batch import PRODUCER_EPOCH_MAX
from transactions.calls import BROKER, Client, Partitions
from transactions.states import State

NO_PRODUCER_ID = -1
NO_TIMEOUT_MS = (1 << 31) - 1
"""The timeout value of a two-phase transaction (KIP-939), which never times out."""
NO_EPOCH = -1
EXHAUSTED_EPOCH = PRODUCER_EPOCH_MAX - 1
"""The last epoch that a client receives."""


class TransactionValue(NamedTuple):
    """A TransactionLogValue of version 0 or 1; fields that version 0 lacks have their defaults."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: State
    partitions: Partitions
    """The partitions of the transaction; () in EMPTY and COMPLETE_*. In EMPTY the field in the log
    is null."""
    last_update_ms: int
    """Wall time of the last record."""
    start_ms: int
    """Wall time of the first partition; -1 outside of a transaction."""
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id in the previous record (v1, tag 0). It identifies a producer that retries
    after the epochs of its producer id were exhausted (KIP-890)."""
    next_producer_id: int = NO_PRODUCER_ID
    """The producer id with which the producer continues after this transaction (v1, tag 1)."""
    client_rules: int = 0
    """ClientTransactionVersion (v1, tag 2): 2, or 0 if it is below TV2 or unknown."""
    next_producer_epoch: int = NO_EPOCH
    """The epoch for the prepared transactions of KIP-939 (v1, tag 3); Kafka 4.3.1 omits it."""


@dataclass(slots=True)
class TransactionRun:
    """One record of ``__transaction_state``; a ``value`` of None is a tombstone.

    The fields from ``last_epoch`` on exist only in memory; records do not contain them.
    """

    transactional_id: str
    value: TransactionValue | None
    version: int = 1
    """The version of the value: 1 if transaction.version is 1 or higher."""
    last_epoch: int = field(default=NO_EPOCH, compare=False)
    """The `Transaction.last_epoch` that the record sets."""
    client: Client = field(default=BROKER, compare=False)
    """The sender of the call."""

    def __len__(self) -> int:
        return 1
