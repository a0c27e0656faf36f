"""Tests of loading, settings and views of a share partition. Source: Kafka 4.3.1; KIP-932."""

from __future__ import annotations

from itertools import pairwise

from protocol.now import Now
from share.partition.settings import ShareSettings
from tests.share.partition.share_partitions import (
    ACCEPT,
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    GAP,
    LOCK_MS,
    NOON_MS,
    RECORD_LIMIT,
    REJECT,
    RELEASE,
    acknowledge,
    acquire,
    at,
    changed,
    fetched,
    partition,
    states,
    stored,
)

# --- loading


def test_loaded_share_partition_delivers_records_that_are_not_acknowledged() -> None:
    share = partition((12, 13, ACKNOWLEDGED, 1), (16, 17, AVAILABLE, 2), start_offset=10)
    assert (share.start_offset, share.end_offset, share.state_epoch) == (10, 17, 3)
    assert states(share) == [
        (10, 11, AVAILABLE, 0),
        (12, 13, ACKNOWLEDGED, 1),
        (14, 15, AVAILABLE, 0),
        (16, 17, AVAILABLE, 2),
    ]
    assert share.next_fetch_offset() == 10
    assert share.in_flight_count() == 6


def test_loaded_share_partition_starts_after_acknowledged_and_archived_records() -> None:
    share = partition((0, 4, ACKNOWLEDGED, 1), (5, 6, ARCHIVED, 5), (7, 7, 3, 1))
    assert (share.start_offset, share.end_offset, states(share)) == (8, 7, [])
    assert share.next_fetch_offset() == 8


def test_stored_batches_are_loaded_only_from_the_start_offset() -> None:
    share = partition((0, 4, ACKNOWLEDGED, 1), (3, 6, AVAILABLE, 1), start_offset=4)
    assert states(share) == [(5, 6, AVAILABLE, 1)]


def test_acquired_records_are_available_after_a_reload() -> None:
    share = partition((0, 3, ACQUIRED, 2))
    assert acquire(share, fetched((0, 3)), mode=RECORD_LIMIT, max_records=1) == [(0, 0, 3)]


def test_last_offset_to_fetch_does_not_count_acknowledged_records() -> None:
    share = partition((2, 3, ACKNOWLEDGED, 1), (4, 6, AVAILABLE, 1))
    assert [share.last_wanted(0, records) for records in (1, 2, 3, 5, 6)] == [0, 1, 4, 6, 7]
    assert [share.last_wanted(1, records) for records in (1, 2, 10)] == [1, 4, 12]
    assert partition().last_wanted(0, 500) == 499


def test_last_offset_that_a_share_partition_fetches_depends_on_the_record_lock_limit() -> None:
    share = partition()
    share.configure(ShareSettings(LOCK_MS, 5, 200))
    assert share.last_wanted(0, 1_000_000) == 199


# --- settings, views


def test_new_settings_apply_only_to_later_acquisitions() -> None:
    share = partition()
    acquire(share, fetched((0, 0)))
    share.configure(ShareSettings(15_000, 2, 100))
    acquire(share, fetched((1, 1), at=1))
    ends = [each.lock_ends_ms for each in share.in_flight()]
    assert ends == [LOCK_MS, 15_000]
    assert share.next_deadline() == 15_000


def test_delivery_outcomes_explain_repeated_deliveries_and_archived_records() -> None:
    share = partition()
    acquire(share, fetched((0, 9)))
    share.written(changed(acknowledge(share, (0, 4, [RELEASE]), (5, 9, [ACCEPT]))), at(10))
    acquire(share, fetched((0, 9)), member_id="b", now_ms=15)
    share.written(changed(acknowledge(share, (0, 2, [REJECT]), member_id="b")), at(20))
    share.written(changed(acknowledge(share, (3, 4, [ACCEPT]), member_id="b")), at(30))
    assert [tuple(each) for each in share.outcomes(0, 2)] == [
        (0, 4, 1, "a", NOON_MS, NOON_MS + 10, "released", False),
        (0, 2, 2, "b", NOON_MS + 15, NOON_MS + 20, "rejected", True),
    ]
    assert share.outcomes(4, 4)[-1].kind == "accepted"
    assert share.outcomes(5, 9) == []


def test_delivery_outcomes_of_control_records_are_not_kept() -> None:
    share = partition()
    acquire(share, fetched((0, 9)))
    stored(share, acknowledge(share, (0, 8, [ACCEPT]), (9, 9, [GAP])).change)
    assert share.outcomes(0, 9) == []


def test_memory_of_delivery_outcomes_and_expired_locks_is_bounded() -> None:
    share = partition(limit=10)
    for offset in range(0, 4000, 2):
        acquire(share, fetched((offset, offset + 1), at=offset))
        answer = acknowledge(share, (offset, offset + 1, [REJECT if offset % 4 else RELEASE]))
        stored(share, answer.change)
        share.log_start_moved(offset + 2)
    assert len(share.outcomes(0, 4000)) == 256
    assert len(share._ranges.locks._deadlines) <= 40


def test_adjacent_ranges_of_equal_state_and_delivery_count_are_joined() -> None:
    share = partition()
    acquire(share, fetched((0, 1999)), 2000)
    changes = [changed(acknowledge(share, (offset, offset, [RELEASE]))) for offset in range(2000)]
    for change in changes[::2] + changes[1::2]:
        share.written(change, at(0))
    assert states(share) == [(0, 1999, AVAILABLE, 1)]
    assert all(a.last_offset < b.first_offset for a, b in pairwise(share.in_flight()))


def test_delivery_outcomes_stay_in_order_when_the_clock_is_set_back() -> None:
    share = partition()
    for delivery, wall_ms in enumerate((NOON_MS, NOON_MS - 5_000), 1):
        acquire(share, fetched((0, 0)))
        change = changed(acknowledge(share, (0, 0, [RELEASE])))
        share.written(change, Now(delivery, wall_ms))
    assert [each.delivery_count for each in share.outcomes(0, 0)] == [1, 2]
