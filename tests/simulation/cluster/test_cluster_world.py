"""Clusters in simulated worlds: whatever fails, the laws of replication hold.

`make simulate SEED=n` runs one seed alone, for as many virtual seconds as SECONDS says. A failure
prints its seed. The soak has fresh ones, for SOAK_S seconds, and SOAK_SEEDS long ones.
"""

from __future__ import annotations

import os
import time

import pytest

from tests.simulation.cluster.busy import BusyCluster
from tests.simulation.whole.runs import Record, run

SEEDS = [int(os.environ["SEED"])] if "SEED" in os.environ else list(range(60))
SECONDS = int(os.environ.get("SECONDS", "30"))
SOAK_S = float(os.environ.get("SOAK_S", "3600"))
"""For so long the soak runs fresh seeds, some half a second of one core for ten virtual seconds."""
SOAK_SEEDS = int(os.environ.get("SOAK_SEEDS", "200"))
SOAK_SECONDS = 300


@pytest.mark.parametrize("seed", SEEDS)
def test_the_laws_hold_in_a_cluster(seed: int, record_property: Record) -> None:
    world = run(BusyCluster(seed), SECONDS, record_property)

    assert world.happened["records acknowledged"] > SECONDS


@pytest.mark.soak
def test_the_laws_hold_in_clusters_of_fresh_seeds(record_property: Record) -> None:
    until_s = time.monotonic() + SOAK_S
    while time.monotonic() < until_s:
        seed = int.from_bytes(os.urandom(4), "big")
        run(BusyCluster(seed), SECONDS, record_property)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10_000, 10_000 + SOAK_SEEDS))
def test_the_laws_hold_in_a_cluster_for_long(seed: int, record_property: Record) -> None:
    world = run(BusyCluster(seed), SOAK_SECONDS, record_property)

    assert world.happened["records acknowledged"] > SOAK_SECONDS
