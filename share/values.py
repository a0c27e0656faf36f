"""The values that share partitions and the share coordinator exchange.

Source: Kafka 4.3.1 ``PersisterStateBatch``, ``PartitionAllData``, ``RecordState``; KIP-932.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class DeliveryState(IntEnum):
    """The state of a record in a share partition. Stored records contain the number."""

    AVAILABLE = 0
    """The record may be delivered: it was not acquired yet, or it was released."""
    ACQUIRED = 1
    """A member has acquired the record, until its acquisition lock ends. This state is never
    stored."""
    ACKNOWLEDGED = 2
    """A member has accepted the record. This state is final."""
    ARCHIVED = 4
    """The record is not delivered again: it was rejected, it was delivered too often, or the log
    start offset has passed it. This state is final."""


class SharePartitionKey(NamedTuple):
    """Identifies a share partition."""

    group_id: str
    topic_id: bytes
    partition: int


class StateBatch(NamedTuple):
    """Consecutive offsets with the same delivery state and delivery count. The first and the last
    offset are included."""

    first_offset: int
    last_offset: int
    delivery_state: int
    """A value of `DeliveryState`. It is a number, because a later version may store other states.
    """
    delivery_count: int


UNINITIALIZED_OFFSET = -1
"""The start offset of a share partition before its first fetch. The first fetch chooses the start
offset according to share.auto.offset.reset."""


class StoredState(NamedTuple):
    """The stored state of a share partition."""

    state_epoch: int
    """The state epoch. It is raised when the group initializes the state again, for example after
    AlterShareGroupOffsets."""
    leader_epoch: int
    """The highest epoch of the leaders that have read or written the state; -1 before the first
    read or write."""
    start_offset: int
    """The first offset whose record is not in a final state; `UNINITIALIZED_OFFSET` if it was not
    chosen yet."""
    delivery_complete_count: int
    """The number of records in a final state at or after the start offset; -1 if it is unknown."""
    batches: tuple[StateBatch, ...] = ()
    """The records in ascending order, without the records that are available and were never
    delivered."""
