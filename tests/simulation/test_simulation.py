"""A seeded simulation of clients, clocks, crashes and failed writes over the pure core.

`SEED=n` runs one seed alone, for as many steps as `STEPS` says. A failure prints its seed.
"""

from __future__ import annotations

import os

import pytest

from tests.simulation.world import World

SEEDS = [int(os.environ["SEED"])] if "SEED" in os.environ else list(range(10))
STEPS = int(os.environ.get("STEPS", "1500"))


def run(seed: int, steps: int) -> World:
    """One world from its first step to its rest; a broken law says which seed broke it."""
    world = World(seed)
    try:
        for _ in range(steps):
            world.step()
        world.calm()
        world.checkers.check_rest()
    except Exception as error:
        raise AssertionError(
            f"after {world.checkers.steps} steps a law is broken; again with: "
            f"SEED={seed} STEPS={steps} pytest tests/simulation/test_simulation.py"
        ) from error
    return world


@pytest.mark.parametrize("seed", SEEDS)
def test_the_laws_hold(seed: int) -> None:
    world = run(seed, STEPS)
    assert world.checkers.steps >= STEPS
