"""The values that a share partition takes and returns."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from share.values import DeliveryState, StateBatch


class AcquireMode(IntEnum):
    """How strictly an acquisition keeps to the maximum number of records (KIP-1206). The numbers
    are those of ShareFetch v2."""

    BATCH_OPTIMIZED = 0
    """The acquisition goes on to the end of the log batch that reaches the maximum."""
    RECORD_LIMIT = 1
    """The acquisition has no more records than the maximum."""


class AcknowledgeType(IntEnum):
    """The result that a member reports for a record. The numbers are those of ShareAcknowledge."""

    GAP = 0
    """The log has no record at the offset, or the record is a control record."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4
    """The member keeps the record; its acquisition lock starts again."""


class FetchedBatch(NamedTuple):
    """The offsets of a batch of the log, both ends included."""

    base_offset: int
    last_offset: int


class FetchedRecords(NamedTuple):
    """The result of a read of the log."""

    fetch_offset: int
    """The offset at which the read began; the log has no records between it and the first batch."""
    batches: Sequence[FetchedBatch]
    """In ascending order. The first batch may begin before the fetch offset."""
    aborted: Sequence[tuple[int, int]] = ()
    """The first and last offsets of aborted records, in ascending order and without overlaps; empty
    for read_uncommitted."""


class AcquiredRange(NamedTuple):
    """Consecutive records, both ends included, that a member has acquired."""

    first_offset: int
    last_offset: int
    delivery_count: int
    """How often the records have been delivered, including this delivery."""


class AckBatch(NamedTuple):
    """The acknowledgement of consecutive offsets, both ends included."""

    first_offset: int
    last_offset: int
    types: Sequence[int]
    """One `AcknowledgeType` for all offsets, or one for each offset."""


class Change:
    """A change of the delivery state, to be stored. It takes effect when `SharePartition.written`
    is called; until then, no other operation touches its records."""

    __slots__ = ("batches", "delivery_complete_count", "start_offset")

    def __init__(
        self, start_offset: int, delivery_complete_count: int, batches: tuple[StateBatch, ...]
    ) -> None:
        self.start_offset = start_offset
        """The start offset before the change takes effect, as in Kafka: the stored start offset is
        one change late."""
        self.delivery_complete_count = delivery_complete_count
        """The number of final records at or after the start offset, including those of changes that
        are not yet written."""
        self.batches = batches
        """In ascending order, without neighbours of equal state and count; never empty."""


class Acknowledged(NamedTuple):
    """The result of an acknowledgement."""

    error_code: int
    error_message: str | None = None
    change: Change | None = None
    """None after an error, and if there is nothing to store. The reply to the member waits until
    the change is written."""


class InFlightRange(NamedTuple):
    """A view of consecutive offsets with equal state."""

    first_offset: int
    last_offset: int
    state: DeliveryState
    delivery_count: int
    member_id: str
    """The member that holds the records, or an empty string."""
    lock_begins_ms: int
    """The wall time at which the member acquired or renewed the records; -1 if no member holds the
    records."""
    lock_ends_ms: int
    """The end of the acquisition lock on the monotonic clock; -1 if no member holds the records."""
    pending: bool
    """True if a change of the records is not yet written."""


class Outcome(NamedTuple):
    """The end of one delivery of consecutive records, kept to explain repeated deliveries and
    archived records."""

    first_offset: int
    last_offset: int
    delivery_count: int
    member_id: str
    began_ms: int
    """The wall time at which the member acquired or last renewed the records."""
    ended_ms: int
    """The wall time at which the outcome was stored."""
    kind: str
    """``accepted``, ``released``, ``rejected``, ``gap``, ``lock expired`` or ``session closed``."""
    archived: bool
    """True if the records are not delivered again although no member accepted them."""
