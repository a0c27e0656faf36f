"""The expired locks that are kept for verdicts."""

from __future__ import annotations

from share.partition.expiries import MEMBERS_MAX, TIMES_KEPT, TOGETHER_MS, Expiries, Expiry


def test_locks_that_end_together_are_one_expiry() -> None:
    expiries = Expiries()
    expiries.note("a", 2, 10)
    expiries.note("b", 1, 10)
    expiries.note("a", 3, 9 + TOGETHER_MS)
    expiries.note("a", 4, 10 + TOGETHER_MS)
    assert dict(expiries) == {
        "b": (Expiry(10, 1),),
        "a": (Expiry(10, 5), Expiry(10 + TOGETHER_MS, 4)),
    }


def test_number_of_members_and_of_expiries_is_bounded() -> None:
    expiries = Expiries()
    for number in range(MEMBERS_MAX + 5):
        for again in range(TIMES_KEPT + 2):
            expiries.note(f"m{number}", 1, again * TOGETHER_MS)
    found = dict(expiries)
    assert len(found) == MEMBERS_MAX
    assert f"m{MEMBERS_MAX + 4}" in found
    assert {len(each) for each in found.values()} == {TIMES_KEPT}
