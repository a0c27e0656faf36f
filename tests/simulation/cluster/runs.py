"""How tests run simulated clusters: one to its rest, or several until one finds a planted fault."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing

import pytest

from protocol.records.corrupt import CorruptRecords
from tests.simulation.cluster.busy import BusyCluster

Record = Callable[[str, object], None]


def run_cluster(world: BusyCluster, seconds: int, record_property: Record) -> BusyCluster:
    """One world, and its rest; a broken law says which seed broke it."""
    began_s = time.process_time()
    try:
        with closing(world):
            world.run(seconds)
            world.rest()
    except Exception as error:
        raise AssertionError(
            f"after {world.seconds:.3f} s a law is broken; again with: "
            f"make simulate SEED={world.seed} SECONDS={seconds}"
        ) from error
    cpu_s = time.process_time() - began_s
    record_property("simulated cluster", (world.seed, world.agenda.happened, world.seconds, cpu_s))
    return world


def find_fault(seeds: int, seconds: int, make: Callable[[int], BusyCluster] = BusyCluster) -> None:
    """Runs worlds until one breaks a law; fails where none does."""
    for seed in range(seeds):
        try:
            with closing(make(seed)) as world:
                world.run(seconds)
                world.rest()
        except (AssertionError, CorruptRecords) as found:
            print(f"seed {seed}: {found}")
            return
    pytest.fail(f"{seeds} worlds of {seconds} s found nothing wrong")
