"""The whole broker in simulated worlds: whatever fails, the laws hold.

`make simulate SEED=n` runs one seed alone, for as many virtual seconds as SECONDS says. A failure
prints its seed. Each run has the same few seeds and as many fresh ones.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

from tests.simulation.whole.world import World

SEEDS = [int(os.environ["SEED"])] if "SEED" in os.environ else list(range(5))
SECONDS = int(os.environ.get("SECONDS", "100"))
FRESH_SEEDS = 0 if "SEED" in os.environ else 5

Record = Callable[[str, object], None]


def run(seed: int, seconds: int, record_property: Record) -> World:
    """One world; a broken law says which seed broke it."""
    world = World(seed)
    began_s = time.process_time()
    try:
        world.run(seconds)
        world.rest()
    except Exception as error:
        raise AssertionError(
            f"after {world.seconds:.3f} s a law is broken; again with: "
            f"make simulate SEED={seed} SECONDS={seconds}"
        ) from error
    cpu_s = time.process_time() - began_s
    record_property("simulated broker", (seed, world.agenda.happened, world.seconds, cpu_s))
    return world


@pytest.mark.parametrize("seed", SEEDS)
def test_the_laws_hold(seed: int, record_property: Record) -> None:
    assert run(seed, SECONDS, record_property).replies.compared > SECONDS


@pytest.mark.parametrize("number", range(FRESH_SEEDS))
def test_the_laws_hold_for_a_fresh_seed(number: int, record_property: Record) -> None:
    seed = int.from_bytes(os.urandom(4), "big")
    assert run(seed, SECONDS, record_property).replies.compared > SECONDS, number
