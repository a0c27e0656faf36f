"""The values that share partitions and the share coordinator exchange.

Source: Kafka 4.3.1 ``PersisterStateBatch``, ``PartitionAllData``, ``RecordState``; KIP-932.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class DeliveryState(IntEnum):
    """The state of a record in a share partition; records store the number."""

    AVAILABLE = 0
    """The record may be delivered: it was not acquired yet, or it was released."""
    ACQUIRED = 1
    """A member holds the record until its acquisition lock ends. Never stored."""
    ACKNOWLEDGED = 2
    """A member has accepted the record. Final."""
    ARCHIVED = 4
    """The record is not delivered again: it was rejected, it was delivered too often, or the log
    start offset has passed it. Final."""


class SharePartitionKey(NamedTuple):
    """Identifies a share partition."""

    group_id: str
    topic_id: bytes
    partition: int


class StateBatch(NamedTuple):
    """Consecutive offsets, both ends included, that have the same delivery state and count."""

    first_offset: int
    last_offset: int
    delivery_state: int
    """A value of `DeliveryState`. A number, since a later version may store other states."""
    delivery_count: int


UNINITIALIZED_OFFSET = -1
"""The start offset of a share partition whose first fetch chooses the offset, according to
share.auto.offset.reset."""


class StoredState(NamedTuple):
    """The stored state of a share partition."""

    state_epoch: int
    """Raised when the group initializes the state again, for example by AlterShareGroupOffsets."""
    leader_epoch: int
    """The highest leader epoch that has read or written the state; -1: none."""
    start_offset: int
    """The first offset that is not final; `UNINITIALIZED_OFFSET` if not chosen yet."""
    delivery_complete_count: int
    """The number of final records at or after the start offset; -1: unknown."""
    batches: tuple[StateBatch, ...] = ()
    """The records whose state differs from "never delivered", in ascending order."""
