"""Tests of transactions in clusters whose producers repeat a TxnOffsetCommit while they send
EndTxn."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.simulation.cluster.overlapping import OverlappingCluster
from tests.simulation.whole.runs import Record, run

SEEDS = [int(os.environ["SEED"])] if "SEED" in os.environ else range(24)
SECONDS = int(os.environ.get("SECONDS", "30"))
WORLDS_MAX = 5
HAPPENS = {"commit beside the end NONE", "TV1 committed", "TV1 aborted"}


def test_replication_invariants_hold_when_commits_are_repeated_around_end_txn(
    record_property: Record,
) -> None:
    """The test simulates clusters with different seeds until all required events have occurred.
    Normally this takes one or two clusters."""
    happened: Counter[str] = Counter()
    for seed in range(WORLDS_MAX):
        happened += run(OverlappingCluster(seed), SECONDS, record_property).happened
        if not HAPPENS - happened.keys():
            return
    pytest.fail(f"did not happen: {HAPPENS - happened.keys()}")


@pytest.mark.campaign
@pytest.mark.timeout(1200)
def test_replication_invariants_hold_in_simulated_clusters_when_commits_are_repeated(
    record_property: Record,
) -> None:
    happened: Counter[str] = Counter()
    for seed in SEEDS:
        happened += run(OverlappingCluster(seed), SECONDS, record_property).happened
    assert not HAPPENS - happened.keys()
