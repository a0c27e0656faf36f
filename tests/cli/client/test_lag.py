"""The lag of a committed offset, and offsets outside the log."""

from __future__ import annotations

import pytest

from cli.client.lag import Lag, lag_of
from cli.client.offsets_at import Bounds


@pytest.mark.parametrize(
    ("committed", "bounds", "expected"),
    [
        (4, Bounds(0, 10), Lag(6)),
        (10, Bounds(0, 10), Lag(0)),
        (60_000, Bounds(0, 50_000), Lag(-10_000)),
        (10, Bounds(40_000, 50_000), Lag(10_000, lost=39_990)),
        (10, Bounds(40_000, 40_000), Lag(0, lost=39_990)),
        (None, Bounds(0, 10), Lag(None)),
        (None, Bounds(0, 0), Lag(0)),
        (None, Bounds(7, 7), Lag(0)),
        (4, None, Lag(None)),
        (None, None, Lag(None)),
    ],
)
def test_lag_is_computed_from_the_committed_offset_and_the_log_bounds(
    committed: int | None, bounds: Bounds | None, expected: Lag
) -> None:
    assert lag_of(committed, bounds) == expected


@pytest.mark.parametrize(
    ("lag", "outside"),
    [(Lag(0), False), (Lag(None), False), (Lag(-1), True), (Lag(0, lost=1), True)],
)
def test_offset_outside_its_log_is_out_of_range(lag: Lag, outside: bool) -> None:
    assert lag.out_of_range is outside
