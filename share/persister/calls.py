"""Calls of the share coordinator and their replies, each for one share partition.

A call has no versions or bytes. ``ticket`` is opaque to the core, which returns the ticket with the
reply. ``exists`` is False if the broker does not know the topic-partition; then the reply is
UNKNOWN_TOPIC_OR_PARTITION, after all other checks. A negative partition gets INVALID_REQUEST.
Source: Kafka 4.3.1 ``ShareCoordinatorShard``; APIs 83 to 87.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from protocol.slotted import slotted
from share.values import SharePartitionKey, StateBatch, StoredState

Ticket = Any


@slotted
class InitializeState:
    """Creates the state of a share partition, or replaces it. The reply is a `StateReply`.

    FENCED_STATE_EPOCH if the stored state epoch is greater.
    """

    ticket: Ticket
    key: SharePartitionKey
    state_epoch: int
    start_offset: int
    exists: bool = True


@slotted
class ReadState:
    """Returns the state to the leader of the partition, and stores a newer leader epoch. The reply
    is a `StateReply` with the state.

    FENCED_LEADER_EPOCH if the stored leader epoch is greater; INVALID_REQUEST if the state was
    never initialized.
    """

    ticket: Ticket
    key: SharePartitionKey
    leader_epoch: int
    exists: bool = True


@slotted
class ReadStateSummary:
    """Returns the state without its batches, for administrators; stores nothing.

    The state of a share partition that was never initialized has start offset -1 and completed
    count -1, without an error.
    """

    ticket: Ticket
    key: SharePartitionKey
    leader_epoch: int
    exists: bool = True


@slotted
class WriteState:
    """Stores changed batches and the start offset. The reply is a `StateReply`.

    FENCED_LEADER_EPOCH or FENCED_STATE_EPOCH if the epoch is smaller than the stored epoch;
    INVALID_REQUEST if the state was never initialized.
    """

    ticket: Ticket
    key: SharePartitionKey
    state_epoch: int
    leader_epoch: int
    start_offset: int
    """The new start offset; -1: unchanged. The stored start offset never moves back."""
    delivery_complete_count: int
    """The number of final records at or after the start offset; replaces the stored number."""
    batches: Sequence[StateBatch]
    exists: bool = True


@slotted
class DeleteState:
    """Deletes the state of a share partition; NONE if it does not exist.

    The topic may be deleted already: in Kafka the reply is then UNKNOWN_TOPIC_OR_PARTITION.
    """

    ticket: Ticket
    key: SharePartitionKey
    exists: bool = True


@slotted(frozen=True)
class StateReply:
    """The reply to every call. ``state`` is set only for a successful read."""

    error_code: int
    error_message: str | None = None
    state: StoredState | None = None


@slotted
class FindRedundant:
    """Returns the log offset before which all records of a shard are redundant. The reply is a
    `RedundantReply`, which the broker gets when all records that make them redundant are stable."""

    ticket: Ticket


@slotted(frozen=True)
class RedundantReply:
    """The reply to `FindRedundant`."""

    error_code: int
    first_needed: int = 0
    """The offset of the first record that a load needs."""


Call = InitializeState | ReadState | ReadStateSummary | WriteState | DeleteState
