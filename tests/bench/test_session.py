"""Tests that the benchmark sessions of `bench.session` run on Muster."""

from __future__ import annotations

import pytest

from bench.session.__main__ import CLUSTER, ONE_BROKER, Load, session


@pytest.mark.campaign
@pytest.mark.parametrize(("load", "tests"), [(ONE_BROKER, 4), (CLUSTER, 1)], ids=["one", "three"])
def test_bench_session_of_muster_returns_a_positive_value_for_each_column(
    load: Load, tests: int
) -> None:
    found = session(load, "muster", tests)

    assert tuple(found) == load.columns
    assert min(found.values()) > 0
