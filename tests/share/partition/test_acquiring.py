"""Tests of the records that a member acquires. Source: Kafka 4.3.1; KIP-932, KIP-1206, KIP-1222."""

from __future__ import annotations

import pytest

from share.partition.values import AcquireMode
from share.values import StateBatch
from tests.share.partition.share_partitions import (
    ACCEPT,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    BATCH_OPTIMIZED,
    GAP,
    RECORD_LIMIT,
    RELEASE,
    acknowledge,
    acquire,
    at,
    fetched,
    partition,
    states,
    stored,
)

# --- acquiring

LOG = [(0, 2), (3, 6), (7, 7), (8, 13), (14, 19)]


@pytest.mark.parametrize(
    ("max_records", "batch_size", "mode", "expected"),
    [
        (1, 500, BATCH_OPTIMIZED, [(0, 2)]),
        (3, 500, BATCH_OPTIMIZED, [(0, 2)]),
        (4, 500, BATCH_OPTIMIZED, [(0, 6)]),
        (100, 500, BATCH_OPTIMIZED, [(0, 19)]),
        (100, 1, BATCH_OPTIMIZED, [(0, 2), (3, 6), (7, 7), (8, 13), (14, 19)]),
        (100, 4, BATCH_OPTIMIZED, [(0, 6), (7, 13), (14, 19)]),
        (9, 8, BATCH_OPTIMIZED, [(0, 7), (8, 13)]),
        (100, 20, BATCH_OPTIMIZED, [(0, 19)]),
        (100, 0, BATCH_OPTIMIZED, [(0, 2), (3, 6), (7, 7), (8, 13), (14, 19)]),
        (1, 500, RECORD_LIMIT, [(0, 0)]),
        (9, 1, RECORD_LIMIT, [(0, 8)]),
        (100, 1, RECORD_LIMIT, [(0, 19)]),
        (0, 500, BATCH_OPTIMIZED, []),
        (0, 500, RECORD_LIMIT, []),
    ],
)
def test_acquired_ranges_respect_record_limit_batch_size_and_acquire_mode(
    max_records: int, batch_size: int, mode: AcquireMode, expected: list[tuple[int, int]]
) -> None:
    share = partition()
    acquired = acquire(share, fetched(*LOG), max_records, batch_size=batch_size, mode=mode)
    assert acquired == [(first, last, 1) for first, last in expected]
    assert share.next_fetch_offset() == (expected[-1][1] + 1 if expected else 0)


def test_fetch_without_batches_acquires_no_records() -> None:
    assert acquire(partition(), fetched()) == []


def test_batch_that_begins_below_the_start_offset_is_acquired_from_the_start_offset() -> None:
    share = partition(start_offset=4)
    assert acquire(share, fetched((0, 9), at=4)) == [(4, 9, 1)]


def test_released_records_are_acquired_before_new_records() -> None:
    share = partition()
    acquire(share, fetched((0, 9)))
    stored(share, acknowledge(share, (2, 3, [RELEASE]), (6, 6, [RELEASE])).change)
    assert share.next_fetch_offset() == 2
    records = fetched((0, 9), (10, 12), at=2)
    assert acquire(share, records, 2, "b", mode=RECORD_LIMIT) == [(2, 3, 2)]
    assert acquire(share, records, 2, "b", mode=RECORD_LIMIT) == [(6, 6, 2), (10, 10, 1)]


def test_batch_optimized_redelivery_extends_to_the_end_of_the_log_batch() -> None:
    share = partition()
    acquire(share, fetched((0, 4), (5, 9)))
    stored(share, share.release_member("a"))
    assert acquire(share, fetched((0, 4), (5, 9)), 2) == [(0, 4, 2)]


def test_full_share_partition_delivers_only_released_records() -> None:
    share = partition(locks=10)
    assert acquire(share, fetched((0, 7)), 8) == [(0, 7, 1)]
    assert share.can_acquire()
    assert acquire(share, fetched((8, 13), at=8), 50) == [(8, 13, 1)]
    assert not share.can_acquire()
    assert acquire(share, fetched((14, 15), at=14)) == []
    stored(share, acknowledge(share, (3, 3, [RELEASE]), (5, 5, [ACCEPT])).change)
    assert share.can_acquire()
    assert acquire(share, fetched((0, 13), (14, 15), at=3)) == [(3, 3, 2)]
    assert not share.can_acquire()
    stored(share, acknowledge(share, (0, 4, [ACCEPT])).change)
    assert share.start_offset == 6
    assert share.can_acquire()
    assert acquire(share, fetched((14, 15), (16, 19), at=14), mode=RECORD_LIMIT) == [(14, 15, 1)]


def test_aborted_records_are_archived_and_not_delivered() -> None:
    share = partition()
    records = fetched((0, 4), (5, 6), (7, 9), (10, 12), aborted=[(0, 4), (7, 9)])
    assert acquire(share, records) == [(5, 6, 1), (10, 12, 1)]
    assert share.start_offset == 5
    assert states(share) == [(5, 6, ACQUIRED, 1), (7, 9, ARCHIVED, 0), (10, 12, ACQUIRED, 1)]
    change = stored(share, acknowledge(share, (5, 6, [ACCEPT])).change)
    assert change.delivery_complete_count == 5


def test_record_limit_does_not_count_aborted_records() -> None:
    share = partition()
    records = fetched((0, 4), (5, 9), (10, 14), aborted=[(5, 9)])
    assert acquire(share, records, 7, mode=RECORD_LIMIT) == [(0, 4, 1), (10, 11, 1)]


def test_aborted_records_count_as_in_flight() -> None:
    records = fetched((0, 4), (5, 9), (10, 14), (15, 19), aborted=[(5, 9)])
    share = partition(locks=12)
    assert acquire(share, records) == [(0, 4, 1), (10, 14, 1)]
    assert share.end_offset == 14
    share = partition(locks=12)
    assert acquire(share, records, mode=RECORD_LIMIT) == [(0, 4, 1), (10, 11, 1)]
    assert share.end_offset == 11


def test_start_offset_advances_past_a_fetch_with_only_aborted_records() -> None:
    share = partition()
    assert acquire(share, fetched((0, 4), aborted=[(0, 4)])) == []
    assert (share.start_offset, share.next_fetch_offset()) == (5, 5)


def test_control_records_are_acquired_and_acknowledged_as_gaps() -> None:
    share = partition()
    assert acquire(share, fetched((0, 0), (1, 1))) == [(0, 1, 1)]
    change = stored(share, acknowledge(share, (0, 1, [ACCEPT, GAP])).change)
    assert change.batches[1] == StateBatch(1, 1, ARCHIVED, 1)
    assert share.start_offset == 2


def test_gaps_between_fetched_batches_are_acquired() -> None:
    share = partition()
    assert acquire(share, fetched((0, 3), (8, 9))) == [(0, 9, 1)]


def test_offsets_that_the_log_skips_before_a_batch_are_archived() -> None:
    share = partition()
    acquire(share, fetched((0, 3)))
    assert acquire(share, fetched((9, 9), at=4)) == [(9, 9, 1)]
    assert states(share)[1:] == [(4, 8, ARCHIVED, 0), (9, 9, ACQUIRED, 1)]


def test_released_records_that_compaction_removed_are_archived() -> None:
    share = partition()
    acquire(share, fetched((0, 9)))
    stored(share, acknowledge(share, (2, 6, [RELEASE])).change)
    assert share.next_fetch_offset() == 2
    assert acquire(share, fetched((5, 9), at=2)) == [(5, 6, 2)]
    assert states(share)[1] == (2, 4, ARCHIVED, 1)


# --- poisonous records


def test_records_with_several_failed_deliveries_are_delivered_in_smaller_ranges() -> None:
    share = partition((0, 3, AVAILABLE, 0), (4, 7, AVAILABLE, 3), (8, 9, AVAILABLE, 0))
    records = fetched((0, 9), (10, 12))
    assert acquire(share, records) == [(0, 3, 1)]
    assert acquire(share, records) == [(4, 5, 4)]
    assert acquire(share, records) == [(6, 6, 4)]
    assert acquire(share, records) == [(7, 7, 4)]
    assert acquire(share, records) == [(8, 12, 1)]


@pytest.mark.parametrize(
    ("limit", "sizes"),
    [
        (2, [500, 500]),
        (3, [500, 500, 1]),
        (4, [500, 500, 250, 1]),
        (5, [500, 500, 500, 250, 1]),
        (6, [500, 500, 500, 250, 125, 1]),
        (10, [500, 500, 500, 500, 500, 250, 125, 62, 31, 1]),
    ],
)
def test_acquired_range_is_halved_after_repeated_failed_deliveries(
    limit: int, sizes: list[int]
) -> None:
    share = partition(limit=limit)
    seen = []
    for count in range(1, limit + 1):
        ((first, last, delivery_count),) = acquire(share, fetched((0, 499)))
        assert (first, delivery_count) == (0, count)
        seen.append(last + 1)
        stored(share, share.release_member("a"))
    assert seen == sizes
    assert share.start_offset == sizes[-1]


def test_record_that_always_fails_is_archived_and_other_records_are_delivered() -> None:
    """The member closes its session whenever it reads record 77. It accepts the records before
    record 77."""
    share = partition()
    accepted: set[int] = set()
    for _ in range(2000):
        if share.start_offset == 100:
            break
        for first, last, _ in acquire(share, fetched((0, 99), at=share.next_fetch_offset())):
            if first <= 77 <= last:
                break
            accepted |= set(range(first, last + 1))
            stored(share, acknowledge(share, (first, last, [ACCEPT])).change)
        share.release_member("b")
        if (change := share.release_member("a")) is not None:
            share.written(change, at(0))
    archived = [each for each in share.outcomes(0, 99) if each.archived]
    assert 77 not in accepted
    assert len(accepted) + sum(each.last_offset - each.first_offset + 1 for each in archived) == 100
