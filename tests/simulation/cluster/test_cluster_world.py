"""Tests of replication in simulated clusters under all kinds of faults.

`make simulate SEED=n` runs one seed, for SECONDS virtual seconds. A failure prints its seed. The
soak test runs new seeds for SOAK_S seconds, and then SOAK_SEEDS seeds of longer runs.
"""

from __future__ import annotations

import os
import time
from collections import Counter

import pytest

from tests.simulation.cluster.busy import BusyCluster
from tests.simulation.cluster.faults import FAULTS_WORTH
from tests.simulation.whole.runs import Record, run
from tests.tiers import SLICES

SEEDS = 200
SOME = 6
"""Number of seeds that `make test` runs. `make campaign` runs all other seeds, divided into several
tests."""
SLICED = [list(range(SOME + first, SEEDS, SLICES)) for first in range(SLICES)]
ONE_OR_SOME = [int(os.environ["SEED"])] if "SEED" in os.environ else range(SOME)
SECONDS = int(os.environ.get("SECONDS", "30"))
SOAK_S = float(os.environ.get("SOAK_S", "3600"))
"""The duration of the soak test in seconds. Ten virtual seconds take about half a second on one
core."""
SOAK_SEEDS = int(os.environ.get("SOAK_SEEDS", "200"))
SOAK_SECONDS = 300


HAPPENS = {
    *FAULTS_WORTH,
    "AlterPartitionReassignments 0",
    "CreatePartitions 0",
    "fleeting DeleteTopics 0",
    "lives of a topic",
    "cut",
    "records acknowledged",
    "records read",
    "OffsetCommit 0",
    "JoinGroup 0",
    "LeaveGroup 0",
    "member restarts",
    "TV1 committed",
    "TV1 aborted",
    "producer died",
    "unstable offset",
}
"""Events that must occur in every slice of the campaign tests of this module: each fault, each kind
of request, and truncations of logs."""


@pytest.mark.parametrize("seed", ONE_OR_SOME)
def test_replication_invariants_hold_in_a_simulated_cluster(
    seed: int, record_property: Record
) -> None:
    played(seed, record_property)


@pytest.mark.campaign
@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seeds", SLICED, ids=lambda seeds: f"from {seeds[0]}")
def test_replication_invariants_hold_in_many_simulated_clusters(
    seeds: list[int], record_property: Record
) -> None:
    happened: Counter[str] = Counter()
    for seed in seeds:
        happened += played(seed, record_property).happened

    assert not HAPPENS - happened.keys()


def played(seed: int, record_property: Record) -> BusyCluster:
    """Runs a simulated cluster, and asserts that records were acknowledged."""
    world = run(BusyCluster(seed), SECONDS, record_property)
    assert world.happened["records acknowledged"] > SECONDS, f"seed {seed}"
    return world


@pytest.mark.soak
def test_replication_invariants_hold_in_clusters_with_new_seeds(record_property: Record) -> None:
    until_s = time.monotonic() + SOAK_S
    while time.monotonic() < until_s:
        seed = int.from_bytes(os.urandom(4), "big")
        run(BusyCluster(seed), SECONDS, record_property)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10_000, 10_000 + SOAK_SEEDS))
def test_replication_invariants_hold_in_a_cluster_for_a_long_time(
    seed: int, record_property: Record
) -> None:
    world = run(BusyCluster(seed), SOAK_SECONDS, record_property)

    assert world.happened["records acknowledged"] > SOAK_SECONDS
