"""Tests of unclean elections in simulated clusters: records may be lost, but the replicas must
agree afterwards."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.simulation.cluster.test_planted_cluster_faults import (
    a_follower_is_never_told_that_it_diverges,
)
from tests.simulation.cluster.unclean import UncleanCluster
from tests.simulation.whole.runs import Record, find_fault, run

pytestmark = [] if "SEED" in os.environ else [pytest.mark.campaign]
SEEDS = [int(os.environ["SEED"])] if "SEED" in os.environ else range(24)
SECONDS = int(os.environ.get("SECONDS", "40"))
"""The virtual seconds of each simulation. One seed takes about 1.2 s on one core."""
HAPPENS = {
    "unclean election",
    "leader left alone",
    "late watches",
    "kill the controller",
    "AlterPartitionReassignments 0",
    "ElectLeaders 0",
    "the log ends before a reader",
    "cut",
}


@pytest.mark.timeout(1200)
def test_replication_invariants_hold_in_clusters_with_unclean_elections(
    record_property: Record,
) -> None:
    happened: Counter[str] = Counter()
    for seed in SEEDS:
        happened += run(UncleanCluster(seed), SECONDS, record_property).happened
    missed = HAPPENS - happened.keys()
    assert not missed or "SEED" in os.environ


@pytest.mark.planted("simulated cluster")
@pytest.mark.timeout(600)
def test_checker_detects_a_follower_that_keeps_diverging_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a_follower_is_never_told_that_it_diverges(monkeypatch)
    find_fault(UncleanCluster, range(12), SECONDS)
