"""Calls of the share coordinator and their replies. Each call is about one share partition.

``ticket`` is opaque to the core, which returns it with the reply. ``exists`` is False if the broker
does not know the partition. Then the reply is UNKNOWN_TOPIC_OR_PARTITION, after all other checks. A
negative partition number gets INVALID_REQUEST. Source: Kafka 4.3.1 ``ShareCoordinatorShard``; APIs
83 to 87.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from protocol.slotted import slotted
from share.values import SharePartitionKey, StateBatch, StoredState

Ticket = Any


@slotted
class InitializeState:
    """Creates the state of a share partition, or replaces it. The reply is a `StateReply`. Its
    error is FENCED_STATE_EPOCH if the stored state epoch is greater."""

    ticket: Ticket
    key: SharePartitionKey
    state_epoch: int
    start_offset: int
    exists: bool = True


@slotted
class ReadState:
    """Returns the state to the leader of the partition, and stores the leader epoch of the call if
    it is newer than the stored leader epoch. The reply is a `StateReply` with the state.

    The error is FENCED_LEADER_EPOCH if the stored leader epoch is greater, and INVALID_REQUEST if
    the state was never initialized.
    """

    ticket: Ticket
    key: SharePartitionKey
    leader_epoch: int
    exists: bool = True


@slotted
class ReadStateSummary:
    """Reads the state without its batches, for administrators. Unlike a read of the state, this
    call stores nothing.

    If the state was never initialized, the reply has start offset -1 and completed count -1,
    without an error.
    """

    ticket: Ticket
    key: SharePartitionKey
    leader_epoch: int
    exists: bool = True


@slotted
class WriteState:
    """Stores changed batches and the start offset. The reply is a `StateReply`.

    The error is FENCED_LEADER_EPOCH or FENCED_STATE_EPOCH if the epoch of the call is smaller than
    the stored epoch, and INVALID_REQUEST if the state was never initialized.
    """

    ticket: Ticket
    key: SharePartitionKey
    state_epoch: int
    leader_epoch: int
    start_offset: int
    """The new start offset; -1 means unchanged. The stored start offset never moves back."""
    delivery_complete_count: int
    """The number of records in a final state at or after the start offset. It replaces the stored
    number."""
    batches: Sequence[StateBatch]
    exists: bool = True


@slotted
class DeleteState:
    """Deletes the state of a share partition. The reply is also NONE if the state does not exist.

    The topic may be deleted already; Kafka then replies UNKNOWN_TOPIC_OR_PARTITION.
    """

    ticket: Ticket
    key: SharePartitionKey
    exists: bool = True


@slotted(frozen=True)
class StateReply:
    """The reply to every call. ``state`` is set only after a successful read."""

    error_code: int
    error_message: str | None = None
    state: StoredState | None = None


@slotted
class FindRedundant:
    """Requests the log offset before which all records of a shard are redundant.

    The reply is a `RedundantReply`. It is released when all records that make the earlier records
    redundant are stable.
    """

    ticket: Ticket


@slotted(frozen=True)
class RedundantReply:
    """The reply to `FindRedundant`."""

    error_code: int
    first_needed: int = 0
    """The offset of the first record that a load needs."""


Call = InitializeState | ReadState | ReadStateSummary | WriteState | DeleteState
