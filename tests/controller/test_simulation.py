"""Random histories: what must always hold holds, and in the end nothing is left undone."""

from __future__ import annotations

import os

import pytest

from tests.controller.simulation import Simulation

SEED = int(os.environ.get("SEED", "0"))
SEEDS = 100


@pytest.mark.parametrize("tenth", range(10))
def test_the_laws_hold_of_the_controller(tenth: int) -> None:
    first = SEED + tenth * SEEDS // 10
    for seed in range(first, first + SEEDS // 10):
        simulation = Simulation(seed)
        try:
            simulation.run(300)
        except Exception as problem:
            raise AssertionError(f"SEED={seed}, step {simulation.steps}: {problem}") from problem
