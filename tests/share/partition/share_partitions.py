"""Share partitions for tests, and functions that call them."""

from __future__ import annotations

from collections.abc import Sequence

from protocol.now import Now
from share.partition.settings import ShareSettings
from share.partition.share_partition import SharePartition
from share.partition.values import (
    AckBatch,
    Acknowledged,
    AcknowledgeType,
    AcquireMode,
    Change,
    FetchedBatch,
    FetchedRecords,
)
from share.values import DeliveryState, SharePartitionKey, StateBatch, StoredState

KEY = SharePartitionKey("group", bytes(16), 0)
LOCK_MS = 30_000
GAP, ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = DeliveryState
BATCH_OPTIMIZED, RECORD_LIMIT = AcquireMode
NOON_MS = 1_700_000_000_000
"""The wall time at which the monotonic clock shows 0."""


def at(mono_ms: int) -> Now:
    """Returns the monotonic and the wall time of a broker that was never paused."""
    return Now(mono_ms, NOON_MS + mono_ms)


def partition(
    *batches: tuple[int, int, int, int], start_offset: int = 0, limit: int = 5, locks: int = 2000
) -> SharePartition:
    """Returns a share partition that is loaded from stored state batches."""
    state = StoredState(3, 1, start_offset, -1, tuple(StateBatch(*each) for each in batches))
    return SharePartition(KEY, state, ShareSettings(LOCK_MS, limit, locks))


def fetched(
    *batches: tuple[int, int], at: int = 0, aborted: Sequence[tuple[int, int]] = ()
) -> FetchedRecords:
    return FetchedRecords(at, [FetchedBatch(*each) for each in batches], aborted)


def acquire(
    share: SharePartition,
    records: FetchedRecords,
    max_records: int = 500,
    member_id: str = "a",
    batch_size: int = 500,
    mode: AcquireMode = BATCH_OPTIMIZED,
    now_ms: int = 0,
) -> list[tuple[int, int, int]]:
    acquired = share.acquire(member_id, records, max_records, batch_size, mode, at(now_ms))
    return [(first, last, count) for first, last, count in acquired]


def acknowledge(
    share: SharePartition, *batches: tuple[int, int, list[int]], member_id: str = "a"
) -> Acknowledged:
    return share.acknowledge(member_id, [AckBatch(*each) for each in batches], at(0))


def stored(share: SharePartition, change: Change | None) -> Change:
    """Calls `written` of the share partition, to report that ``change`` is stored. ``change`` must
    not be None."""
    assert change is not None
    share.written(change, at(0))
    return change


def states(share: SharePartition) -> list[tuple[int, int, int, int]]:
    return [
        (each.first_offset, each.last_offset, each.state, each.delivery_count)
        for each in share.in_flight()
    ]


def changed(answer: Acknowledged) -> Change:
    """Returns the change that an accepted acknowledgement requires. The change must not be None."""
    assert answer.change is not None
    return answer.change
