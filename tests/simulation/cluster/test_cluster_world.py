"""Clusters in simulated worlds: whatever fails, the laws of replication hold.

`make simulate SEED=n` runs one seed alone, for as many virtual seconds as SECONDS says. A failure
prints its seed. The soak has fresh ones.
"""

from __future__ import annotations

import os

import pytest

from tests.simulation.cluster.busy import BusyCluster
from tests.simulation.cluster.runs import Record, run_cluster

SEEDS = [int(os.environ["SEED"])] if "SEED" in os.environ else list(range(20))
SECONDS = int(os.environ.get("SECONDS", "40"))
FRESH_SEEDS = 0 if "SEED" in os.environ else 20
SOAK_SEEDS = int(os.environ.get("SOAK_SEEDS", "200"))
SOAK_SECONDS = 300


@pytest.mark.parametrize("seed", SEEDS)
def test_the_laws_hold_in_a_cluster(seed: int, record_property: Record) -> None:
    world = run_cluster(BusyCluster(seed), SECONDS, record_property)

    assert world.happened["records acknowledged"] > SECONDS


@pytest.mark.soak
@pytest.mark.parametrize("number", range(FRESH_SEEDS))
def test_the_laws_hold_in_a_cluster_for_a_fresh_seed(number: int, record_property: Record) -> None:
    seed = int.from_bytes(os.urandom(4), "big")
    world = run_cluster(BusyCluster(seed), SECONDS, record_property)

    assert world.happened["records acknowledged"] > SECONDS, number


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10_000, 10_000 + SOAK_SEEDS))
def test_the_laws_hold_in_a_cluster_for_long(seed: int, record_property: Record) -> None:
    world = run_cluster(BusyCluster(seed), SOAK_SECONDS, record_property)

    assert world.happened["records acknowledged"] > SOAK_SECONDS
