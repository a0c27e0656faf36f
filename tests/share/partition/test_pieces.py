"""Tests that long operations on a share partition run in pieces of a few milliseconds."""

from __future__ import annotations

from share.partition.acknowledgement import PIECE
from share.partition.loading import loading
from share.partition.settings import ShareSettings
from share.partition.share_partition import SharePartition
from share.values import StateBatch, StoredState
from tests.instructions import instructions
from tests.share.partition.share_partitions import (
    ACCEPT,
    ACKNOWLEDGED,
    AVAILABLE,
    KEY,
    LOCK_MS,
    RELEASE,
    acknowledge,
    acquire,
    at,
    fetched,
    partition,
    states,
    stored,
)

RANGES = 2 * PIECE + 100
OFFSETS = 2 * RANGES


def scattered() -> SharePartition:
    """Returns a share partition with `RANGES` available records. An accepted record follows each
    available record."""
    share = partition()
    acquire(share, fetched((0, OFFSETS - 1)))
    stored(share, acknowledge(share, (0, OFFSETS - 1, [RELEASE, ACCEPT] * RANGES)).change)
    return share


def acquired_in_pieces(share: SharePartition) -> list[int]:
    """Acquires all available records. Returns the number of ranges in each acquisition."""
    sizes = []
    while (offset := share.next_fetch_offset()) < OFFSETS:
        sizes.append(len(acquire(share, fetched((0, OFFSETS - 1), at=offset), OFFSETS)))
    return sizes


def test_records_in_many_ranges_are_acquired_in_slices_of_limited_size() -> None:
    assert acquired_in_pieces(scattered()) == [PIECE, PIECE, RANGES - 2 * PIECE]


def test_records_of_a_leaving_member_are_released_in_slices() -> None:
    share = scattered()
    acquired_in_pieces(share)
    sizes, offset = [], 0
    while (change := share.release_member("a", offset)) is not None:
        sizes.append(len(change.batches))
        offset = change.batches[-1].last_offset + 1
        share.written(change, at(0))
    assert sizes == [PIECE, PIECE, RANGES - 2 * PIECE]
    assert {each[2:] for each in states(share)} == {(AVAILABLE, 2), (ACKNOWLEDGED, 1)}


def test_expired_acquisition_locks_are_released_in_several_short_calls() -> None:
    share = scattered()
    acquired_in_pieces(share)
    sizes = []
    while (deadline := share.next_deadline()) is not None and deadline <= LOCK_MS:
        change = share.expire(LOCK_MS)
        assert change is not None
        sizes.append(len(change.batches))
    assert sizes == [PIECE, PIECE, RANGES - 2 * PIECE]
    assert share.expire(LOCK_MS) is None


def test_acquisition_lock_that_ends_between_two_calls_of_method_expire_is_released() -> None:
    share = scattered()
    acquire(share, fetched((0, OFFSETS - 1)), PIECE, now_ms=5)
    offset = share.next_fetch_offset()
    acquire(share, fetched((0, OFFSETS - 1), at=offset), PIECE)
    acquire(share, fetched((0, OFFSETS - 1), at=share.next_fetch_offset()), OFFSETS)
    released: list[int] = []
    for now_ms in (LOCK_MS, LOCK_MS + 5, LOCK_MS + 5, LOCK_MS + 5):
        change = share.expire(now_ms)
        released += [each.first_offset for each in change.batches] if change is not None else []
    assert sorted(released) == list(range(0, OFFSETS, 2))
    assert share.next_deadline() is None or share.expire(2 * LOCK_MS) is None


def test_in_flight_ranges_are_read_in_slices_while_records_are_acquired() -> None:
    share = scattered()
    steps = share.in_flight_pieces()
    first = next(steps)
    acquire(share, fetched((0, OFFSETS - 1)), PIECE)
    found = [*first, *[each for piece in steps for each in piece]]
    assert [each.first_offset for each in found] == list(range(OFFSETS))
    assert len(first) == PIECE


def test_stored_share_partition_state_is_loaded_in_slices() -> None:
    batches = tuple(StateBatch(2 * i, 2 * i, AVAILABLE, 1) for i in range(RANGES))
    state = StoredState(3, 1, 0, -1, batches)
    assert len(list(loading(state))) == 2
    assert len(states(SharePartition(KEY, state, ShareSettings()))) == OFFSETS - 1


def test_drop_of_many_ranges_costs_less_than_1_5_method_calls_per_range() -> None:
    ranges = scattered()._ranges
    counted = list(ranges)
    calls = instructions(lambda: [each.is_complete() for each in counted])
    assert len(counted) > 2 * RANGES - 2
    assert instructions(lambda: ranges.drop_before(OFFSETS + 1)) < 1.5 * calls
    assert (ranges.start_offset, ranges.complete_count, list(ranges)) == (OFFSETS + 1, 0, [])
