"""Tests that combined state batches equal a naive model with one entry per offset."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from share.persister.combining import are_ascending, combine
from share.values import StateBatch

BATCHES = st.lists(
    st.builds(
        lambda first, length, state, count: StateBatch(first, first + length, state, count),
        st.integers(0, 30),
        st.integers(0, 12),
        st.sampled_from([0, 2, 4]),
        st.integers(0, 2),
    ),
    max_size=6,
)


def by_offset(batches: list[StateBatch], start_offset: int) -> dict[int, tuple[int, int]]:
    """Returns a pair of delivery count and state for each offset: the highest pair of all batches
    that contain the offset."""
    found: dict[int, tuple[int, int]] = {}
    for first, last, state, count in batches:
        for offset in range(max(first, start_offset), last + 1):
            found[offset] = max(found.get(offset, (-1, -1)), (count, state))
    return found


@given(BATCHES, BATCHES, st.integers(-1, 45))
def test_combined_state_batches_equal_the_model_and_are_as_few_as_possible(
    before: list[StateBatch], added: list[StateBatch], start_offset: int
) -> None:
    so_far = combine((), before, -1)
    found = combine(so_far, added, start_offset)
    assert by_offset(list(found), -1) == by_offset([*so_far, *added], start_offset)
    assert are_ascending(found)
    for one, two in pairwise(found):
        assert one.last_offset + 1 < two.first_offset or one[2:] != two[2:]


@pytest.mark.parametrize(
    ("batches", "added", "start_offset", "expected"),
    [
        ([(0, 9, 0, 1)], [(10, 19, 0, 1)], -1, [(0, 19, 0, 1)]),
        ([(0, 9, 0, 1)], [(10, 19, 2, 1)], -1, [(0, 9, 0, 1), (10, 19, 2, 1)]),
        ([(0, 9, 0, 2)], [(3, 5, 2, 1)], -1, [(0, 9, 0, 2)]),
        ([(0, 9, 0, 2)], [(3, 5, 2, 2)], -1, [(0, 2, 0, 2), (3, 5, 2, 2), (6, 9, 0, 2)]),
        ([(0, 9, 0, 1)], [(5, 14, 0, 2)], -1, [(0, 4, 0, 1), (5, 14, 0, 2)]),
        ([(0, 4, 2, 1), (8, 9, 2, 1)], [(5, 7, 2, 1)], -1, [(0, 9, 2, 1)]),
        ([(0, 4, 2, 1), (8, 9, 2, 1)], [], 3, [(3, 4, 2, 1), (8, 9, 2, 1)]),
        ([(0, 4, 2, 1)], [(5, 9, 2, 1)], 10, []),
    ],
)
def test_added_state_batches_are_combined_with_existing_batches(
    batches: list[tuple[int, int, int, int]],
    added: list[tuple[int, int, int, int]],
    start_offset: int,
    expected: list[tuple[int, int, int, int]],
) -> None:
    found = combine(
        [StateBatch(*b) for b in batches], [StateBatch(*b) for b in added], start_offset
    )
    assert list(map(tuple, found)) == expected
