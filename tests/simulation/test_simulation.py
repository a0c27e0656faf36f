"""Tests of the pure core of groups in a seeded simulation with clients, clocks, crashes and failed
writes.

`make simulate SEED=n` runs one seed, for STEPS steps. A failure prints its seed. Each run of the
tests uses a few fixed seeds and the same number of new seeds, and prints the speed of the
simulation at the end.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable

import pytest

from tests.simulation.world import World

SEEDS = [int(os.environ["SEED"])] if "SEED" in os.environ else list(range(8))
STEPS = int(os.environ.get("STEPS", "1200"))
FRESH_SEEDS = 0 if "SEED" in os.environ else 16
SOAK_SEEDS = int(os.environ.get("SOAK_SEEDS", "400"))
SOAK_STEPS = 4000


Tell = Callable[[str, object], None]


def again(seed: int, steps: int) -> str:
    """Returns the command that repeats a simulation, for the message of a failure."""
    return f"again with: make simulate SEED={seed} STEPS={steps}"


def run(seed: int, steps: int, tell: Tell) -> World:
    """Runs one simulation from its first step until it is at rest. A failure names the seed."""
    world = World(seed)
    began_s = time.process_time()
    try:
        for _ in range(steps):
            world.step()
        world.calm()
    except Exception as error:
        raise AssertionError(
            f"after {world.checkers.steps} steps a law is broken; {again(seed, steps)}"
        ) from error
    tell("simulated", (world.checkers.steps, time.process_time() - began_s))
    return world


@pytest.mark.campaign
@pytest.mark.parametrize("seed", SEEDS)
def test_group_core_invariants_hold_in_a_simulated_world(seed: int, record_property: Tell) -> None:
    assert run(seed, STEPS, record_property).checkers.steps >= STEPS


@pytest.mark.parametrize("number", range(FRESH_SEEDS))
def test_group_core_invariants_hold_in_a_simulation_with_a_new_seed(
    number: int, record_property: Tell
) -> None:
    """Each run of the test uses a new seed. A failure prints the seed."""
    seed = int.from_bytes(os.urandom(4), "big")
    world = run(seed, STEPS, record_property)
    assert world.checkers.steps >= STEPS, again(seed, STEPS)


def test_same_seed_gives_the_same_simulation_of_the_group_core() -> None:
    one, other = World(77), World(77)
    for world in (one, other):
        for _ in range(300):
            world.step()
    assert one.log.data == other.log.data
    assert one.happened == other.happened


def test_every_event_and_check_occurs_in_ten_simulations_of_the_group_core(
    record_property: Tell,
) -> None:
    happened: Counter[str] = Counter()
    checked: Counter[str] = Counter()
    for seed in range(1000, 1010):
        world = run(seed, 600, record_property)
        happened.update(world.happened)
        checked.update(world.checkers.checked)
    assert set(happened) == {
        "clients_act", "end_turn", "disk_flushes", "time_passes", "client_repeats",
        "client_disconnects", "client_restarts", "time_leaps", "wall_clock_jumps",
        "topic_is_deleted", "append_fails", "crash", "power lost", "log_is_cleaned",
        "snapshot_is_taken", "reply lost", "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup",
        "OffsetCommit", "OffsetFetch", "DescribeGroup", "ListGroups", "DeleteGroup", "OffsetDelete",
        "TxnOffsetCommit", "EndOffsets",
    }  # fmt: skip
    assert set(checked) == {
        "parked", "awaited in initial delay", "awaited in join", "awaited in sync", "join", "sync",
        "persisted", "fence", "commit", "fetch", "list", "describe", "deleted", "expired",
        "fenced", "sessions", "reloaded STABLE", "reloaded EMPTY", "snapshot", "generation",
        "given", "at rest", "transactional commit", "pending", "unstable", "transaction committed",
        "transaction aborted",
    }  # fmt: skip
    assert min(happened.values()) > 2
    assert min(checked.values()) > 2


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10_000, 10_000 + SOAK_SEEDS))
def test_invariants_of_the_group_core_hold_in_a_long_simulation(
    seed: int, record_property: Tell
) -> None:
    assert run(seed, SOAK_STEPS, record_property).checkers.steps >= SOAK_STEPS
