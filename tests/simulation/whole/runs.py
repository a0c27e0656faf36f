"""How tests run simulated worlds: one to its rest, or several until one finds a planted fault."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import pytest

from protocol.records.corrupt import CorruptRecords
from tests.simulation.whole.living import LivingWorld

Record = Callable[[str, object], None]
WorldT = TypeVar("WorldT", bound=LivingWorld)


def run(world: WorldT, seconds: int, record_property: Record) -> WorldT:
    """One world, and its rest; a broken law says which seed broke it."""
    began_s = time.process_time()
    try:
        world.run(seconds)
        world.rest()
    except Exception as error:
        raise AssertionError(
            f"after {world.seconds:.3f} s a law is broken; again with: "
            f"make simulate SEED={world.seed} SECONDS={seconds}"
        ) from error
    finally:
        world.end()
    cpu_s = time.process_time() - began_s
    record_property("simulated broker", (world.seed, world.agenda.happened, world.seconds, cpu_s))
    return world


def find_fault(new_world: Callable[[int], LivingWorld], seeds: int, seconds: int) -> None:
    """Runs worlds until one breaks a law; fails where none does."""
    for seed in range(seeds):
        world = new_world(seed)
        try:
            world.run(seconds)
            world.rest()
        except (AssertionError, CorruptRecords) as found:
            print(f"seed {seed}: {found}")
            return
        finally:
            world.end()
    pytest.fail(f"{seeds} worlds of {seconds} s found nothing wrong")
