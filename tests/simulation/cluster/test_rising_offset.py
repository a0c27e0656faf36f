"""Tests of `RisingOffset`, a checker of the committed offsets that a client fetches. No commit may
be lost. A commit whose client no longer waits for the response may take effect late.

In these tests, ``log`` is the list of commits in the coordinator's log.
"""

from __future__ import annotations

import pytest

from tests.simulation.cluster.clients import RisingOffset


def committed(offsets: int, unheard: int) -> RisingOffset:
    """Returns a client that committed the offsets from 1 to ``offsets``. The commit of offset
    ``unheard`` got no response."""
    rising = RisingOffset()
    for _ in range(offsets):
        offset = rising.next()
        if offset != unheard:
            rising.acknowledged(offset)
    return rising


def tell(rising: RisingOffset, offset: int, log: list[int]) -> None:
    rising.told("keeper", offset, lambda: log)


def test_checker_accepts_that_a_commit_without_a_response_is_executed_late() -> None:
    rising = committed(16, unheard=15)

    tell(rising, 16, log=[14, 16])
    tell(rising, 15, log=[14, 16, 15])
    tell(rising, 15, log=[14, 16, 15])


def test_checker_allows_an_offset_whose_commit_got_no_response() -> None:
    tell(committed(15, unheard=15), 15, log=[14, 15])


@pytest.mark.planted("commits of a simulated cluster")
@pytest.mark.parametrize(
    ("offset", "log"),
    [
        pytest.param(14, [14, 16], id="one that was acknowledged, and is not the last"),
        pytest.param(-1, [], id="none"),
        pytest.param(17, [14, 16, 17], id="one that was never tried"),
        pytest.param(15, [14, 15, 16], id="one that was given up, and came before the last"),
        pytest.param(15, [14, 15], id="one that was given up, and the last is not in the log"),
        pytest.param(15, [14, 16], id="one that was given up, and never came"),
    ],
)
def test_checker_detects_that_an_offset_fetch_returns_a_wrong_committed_offset(
    offset: int, log: list[int]
) -> None:
    with pytest.raises(AssertionError, match=f"has committed 16, and is told {offset}"):
        tell(committed(16, unheard=15), offset, log)


def test_checker_detects_an_offset_fetch_that_returns_a_replaced_offset() -> None:
    rising = committed(16, unheard=15)
    tell(rising, 15, log=[14, 16, 15])

    with pytest.raises(AssertionError, match="has committed 15, and is told 16"):
        tell(rising, 16, log=[14, 16, 15])
