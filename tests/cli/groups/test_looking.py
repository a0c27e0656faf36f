"""The lag that `muster groups list` and `groups lag` print, and the option `--fail-above`."""

from __future__ import annotations

import pytest

from cli.client.group_reads import Group
from cli.errors import CommandError
from cli.groups import lag, listing
from cli.groups.judging import GroupHealth
from cli.groups.looking import Look


def look(*lags: int | None, state: str = "Stable") -> Look:
    """Returns a group with one partition for each given lag. None is an unknown lag."""
    group = Group("billing", "classic", state, "consumer", "range", "b:9092", [], {})
    rows = [{"lag": each, "verdict": "OK", "partition": at} for at, each in enumerate(lags)]
    return Look(group, rows, GroupHealth("OK"))


@pytest.mark.parametrize(
    ("lags", "total"),
    [((), None), ((None,), None), ((0, None), None), ((3, None), None), ((0, 0), 0), ((4, -2), 4)],
)
def test_lag_of_a_listed_group_is_unknown_when_one_partition_lag_is_unknown(
    lags: tuple[int | None, ...], total: int | None
) -> None:
    row = {"group": "billing", "state": "Stable", "type": "classic", "protocol_type": "consumer"}
    assert listing._row(row, look(*lags))["lag"] == total


def test_total_lag_sums_known_lags_and_counts_unknown_lags_separately() -> None:
    rows = [lag._sum(look(*lags)) for lags in ((), (None,), (3, None), (0, 0))]
    assert [(row["lag"], row["unknown"]) for row in rows] == [(None, 0), (None, 1), (3, 1), (0, 0)]


@pytest.mark.parametrize("total", [True, False])
@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (look(), "lag is unknown: billing"),
        (look(None), "lag is unknown: billing"),
        (look(0, None), "lag is unknown: billing"),
        (look(state="Empty"), "lag is unknown: billing"),
        (look(state="PreparingRebalance"), "lag is unknown during a rebalance: billing"),
        (look(0, state="CompletingRebalance"), "lag is unknown during a rebalance: billing"),
        (look(0, state="Assigning"), "lag is unknown during a rebalance: billing"),
        (look(9), "lag is above 0 records: billing"),
    ],
)
def test_option_fail_above_fails_when_lag_is_unknown_or_above_the_limit(
    found: Look, reason: str, total: bool
) -> None:
    rows = lag._totals([found]) if total else lag._partitions([found], wide=False, json=True)
    with pytest.raises(CommandError) as error:
        lag._fail_above([found], rows, 0)
    assert str(error.value) == reason


@pytest.mark.parametrize("state", ["Stable", "Empty"])
def test_groups_lag_with_fail_above_0_succeeds_when_the_lag_is_0(state: str) -> None:
    found = look(0, 0, state=state)
    lag._fail_above([found], lag._partitions([found], wide=False, json=True), 0)
    lag._fail_above([found], lag._totals([found]), 0)
