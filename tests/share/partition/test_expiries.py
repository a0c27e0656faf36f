"""Tests of the expired acquisition locks that are kept for verdicts."""

from __future__ import annotations

from protocol.now import Now
from share.partition.counts import (
    ALL_MEMBERS_MAX,
    MEMBERS_MAX,
    TIMES_KEPT,
    TOGETHER_MS,
    Expiries,
    Expiry,
    GroupCounts,
    Room,
)
from tests.share.partition.share_partitions import LOCK_MS, NOON_MS, acquire, fetched, partition


def test_locks_of_a_member_that_expire_within_a_short_time_are_counted_in_one_entry() -> None:
    expiries = Expiries(Room())
    expiries.note("a", 2, 10)
    expiries.note("b", 1, 10)
    expiries.note("a", 3, 9 + TOGETHER_MS)
    expiries.note("a", 4, 10 + TOGETHER_MS)
    assert dict(expiries) == {
        "b": (Expiry(10, 1),),
        "a": (Expiry(10, 5), Expiry(10 + TOGETHER_MS, 4)),
    }


def test_history_of_expired_locks_is_bounded() -> None:
    expiries = Expiries(Room())
    for number in range(MEMBERS_MAX + 5):
        for again in range(TIMES_KEPT + 2):
            expiries.note(f"m{number}", 1, again * TOGETHER_MS)
    found = dict(expiries)
    assert len(found) == MEMBERS_MAX
    assert f"m{MEMBERS_MAX + 4}" in found
    assert {len(each) for each in found.values()} == {TIMES_KEPT}


def test_number_of_members_with_recorded_lock_expiries_is_bounded_for_all_groups_together() -> None:
    room = Room(2)
    one, two, three = Expiries(room), Expiries(room), Expiries(room)
    one.note("a", 1, 0)
    two.note("b", 1, 0)
    two.note("c", 1, 1)
    three.note("d", 1, 2)
    assert [[member for member, _ in each] for each in (one, two, three)] == [["a"], ["c"], []]
    one.forget("a")
    one.forget("a")
    three.note("d", 1, 3)
    two.close()
    two.note("b", 1, 3)
    three.note("e", 1, 4)
    assert [member for member, _ in three] == ["d", "e"]
    assert room.left == 0


def test_counts_of_expired_locks_are_removed_with_their_member_or_group() -> None:
    counts = GroupCounts()
    for group_id in ("g", "h"):
        counts.of(group_id).expiries.note("m", 1, 0)
    counts.member_removed("g", "m")
    counts.member_removed("unknown", "m")
    counts.forget("h")
    assert list(counts.of("g").expiries) == []
    assert counts._room.left == ALL_MEMBERS_MAX


def test_entry_about_expired_locks_has_the_wall_time_of_the_expiry() -> None:
    share = partition()
    acquire(share, fetched((0, 1)))
    change = share.expire(LOCK_MS)
    assert change is not None
    share.written(change, Now(LOCK_MS, NOON_MS + LOCK_MS + 7_600))  # after a pause of the broker
    assert dict(share._counts.expiries) == {"a": (Expiry(NOON_MS + LOCK_MS + 7_600, 2),)}


def test_lock_expiries_before_and_after_a_backward_clock_change_are_recorded_separately() -> None:
    expiries = Expiries(Room())
    expiries.note("a", 1, NOON_MS)
    expiries.note("a", 1, NOON_MS - 60_000)
    assert dict(expiries) == {"a": (Expiry(NOON_MS, 1), Expiry(NOON_MS - 60_000, 1))}
