"""In random histories of a cluster, the invariants hold and the controller completes all its
work."""

from __future__ import annotations

import os

import pytest

from tests.controller.simulation import Simulation

SEED = int(os.environ.get("SEED", "0"))
SEEDS = 100


def run(seeds: range, steps: int) -> None:
    for seed in seeds:
        simulation = Simulation(seed)
        try:
            simulation.run(steps)
        except Exception as problem:
            raise AssertionError(f"SEED={seed}, step {simulation.steps}: {problem}") from problem


@pytest.mark.parametrize("tenth", range(10))
def test_controller_invariants_hold_in_random_histories(tenth: int) -> None:
    first = SEED + tenth * SEEDS // 10
    run(range(first, first + SEEDS // 10), 300)


@pytest.mark.soak
@pytest.mark.parametrize("thousand", range(8))
def test_controller_invariants_hold_in_long_random_histories(thousand: int) -> None:
    run(range(thousand * 1000, (thousand + 1) * 1000), 1000)
