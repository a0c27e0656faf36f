"""The arguments and results of a share partition."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from share.values import DeliveryState, StateBatch


class AcquireMode(IntEnum):
    """How strictly an acquisition respects the maximum number of records (KIP-1206). The numbers
    are those of ShareFetch v2."""

    BATCH_OPTIMIZED = 0
    """An acquisition that reaches the maximum number of records continues to the end of the current
    log batch."""
    RECORD_LIMIT = 1
    """An acquisition never has more records than the maximum."""


class AcknowledgeType(IntEnum):
    """The result that a member reports for a record. The numbers are from ShareAcknowledge."""

    GAP = 0
    """The log has no record at the offset, or the record is a control record."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4
    """The member keeps the record, and its acquisition lock starts again."""


class FetchedBatch(NamedTuple):
    """The offsets of a batch of the log. The first and the last offset are included."""

    base_offset: int
    last_offset: int


class FetchedRecords(NamedTuple):
    """The result of a read of the log."""

    fetch_offset: int
    """The offset at which the read began. If the first batch begins after this offset, the log has
    no records in between."""
    batches: Sequence[FetchedBatch]
    """The batches in ascending order. The first one may begin before the fetch offset."""
    aborted: Sequence[tuple[int, int]] = ()
    """The ranges of aborted records (first and last offset), in ascending order and without
    overlaps; empty for read_uncommitted."""


class AcquiredRange(NamedTuple):
    """Consecutive records that a member has acquired. The first and the last offset are
    included."""

    first_offset: int
    last_offset: int
    delivery_count: int
    """The number of deliveries of the records, including this one."""


class AckBatch(NamedTuple):
    """The acknowledgement of consecutive offsets. The first and the last offset are included."""

    first_offset: int
    last_offset: int
    types: Sequence[int]
    """One `AcknowledgeType` for all offsets, or one for each offset."""


class Change:
    """A change of the delivery state that must be stored. It takes effect with the call of
    `SharePartition.written`. Until then, no other operation changes the records of this change."""

    __slots__ = ("batches", "delivery_complete_count", "start_offset")

    def __init__(
        self, start_offset: int, delivery_complete_count: int, batches: tuple[StateBatch, ...]
    ) -> None:
        self.start_offset = start_offset
        """The start offset that is stored with the change. As in Kafka, it is the start offset
        before the change. If the change moves the start offset, the new start offset is stored with
        the next change."""
        self.delivery_complete_count = delivery_complete_count
        """The number of records in a final state at or after the start offset, including those of
        changes that are not stored yet."""
        self.batches = batches
        """The changed records in ascending order, never empty. Adjacent batches differ in state or
        delivery count."""


class Acknowledged(NamedTuple):
    """The result of an acknowledgement."""

    error_code: int
    error_message: str | None = None
    change: Change | None = None
    """The change to store; None after an error, and if there is nothing to store. The reply to the
    member waits until the change is stored."""


class InFlightRange(NamedTuple):
    """Consecutive records in flight that have the same state."""

    first_offset: int
    last_offset: int
    state: DeliveryState
    delivery_count: int
    member_id: str
    """The member that has acquired the records, or an empty string."""
    lock_begins_ms: int
    """The wall time in ms at which the member acquired or renewed the records; -1 if no member has
    acquired them."""
    lock_ends_ms: int
    """The end of the acquisition lock in monotonic ms; -1 if no member has acquired the records."""
    pending: bool
    """True if a change of the records is not stored yet."""


class Outcome(NamedTuple):
    """How one delivery of consecutive records ended. It is kept to explain repeated deliveries and
    archived records."""

    first_offset: int
    last_offset: int
    delivery_count: int
    member_id: str
    began_ms: int
    """The wall time in ms at which the member acquired or last renewed the records."""
    ended_ms: int
    """The wall time in ms at which the outcome was stored."""
    kind: str
    """``accepted``, ``released``, ``rejected``, ``gap``, ``lock expired`` or ``session closed``."""
    archived: bool
    """True if the records are not delivered again although no member accepted them."""
