"""Tests of the invariants of a whole broker in a simulation with all kinds of faults.

`make simulate SEED=n` runs one seed, for SECONDS virtual seconds. A failure prints its seed. `make
test` runs two fixed seeds and a new seed. The campaign runs more seeds.
"""

from __future__ import annotations

import os

import pytest

from tests.simulation.whole.faults import FAULTS_WORTH
from tests.simulation.whole.runs import PLAYED_S_MAX, Record, again, run
from tests.simulation.whole.topic_clients import TopicLife
from tests.simulation.whole.world import World
from tests.tiers import sampled

SEEDS = [int(os.environ["SEED"])] if "SEED" in os.environ else sampled(range(4), (1, 2))
SECONDS = int(os.environ.get("SECONDS", "100"))
FRESH_SEEDS = 0 if "SEED" in os.environ else 5
LONG_SECONDS = 1000
SOAK_SEEDS = int(os.environ.get("SOAK_SEEDS", "200"))
SOAK_SECONDS = 300


@pytest.mark.parametrize("seed", SEEDS)
def test_broker_invariants_hold_in_a_simulated_world(seed: int, record_property: Record) -> None:
    assert run(World(seed), SECONDS, record_property).replies.compared > SECONDS


@pytest.mark.parametrize("number", sampled(range(FRESH_SEEDS), (0,)))
def test_broker_invariants_hold_in_a_simulation_with_a_new_seed(
    number: int, record_property: Record
) -> None:
    seed = int.from_bytes(os.urandom(4), "big")
    world = run(World(seed), SECONDS, record_property)
    assert world.replies.compared > SECONDS, again(world, SECONDS)


@pytest.mark.campaign
@pytest.mark.timeout(PLAYED_S_MAX)
def test_every_fault_and_check_occurs_in_a_thousand_seconds_of_broker_simulations(
    record_property: Record,
) -> None:
    world = run(World(1_000), LONG_SECONDS, record_property)

    checked = {name for watch in world.watches for name in watch.checkers.checked}
    assert set(FAULTS_WORTH) <= set(world.happened)
    assert checked >= {
        "parked", "awaited in join", "awaited in sync", "join", "sync", "persisted", "fence",
        "commit", "fetch", "list", "describe", "deleted", "expired", "fenced", "sessions",
        "reloaded STABLE", "reloaded EMPTY", "generation", "given", "at rest",
    }  # fmt: skip
    for what in (
        "records acknowledged", "records read", "slow reader", "hostile bytes", "gluttony",
        "put out", "connection closed", "connection reset", "connection vanished",
        "client restarts", "client hangs", "confused", "verdict OK", "verdict OUT_OF_RANGE",
    ):  # fmt: skip
        assert world.happened[what] > 2, what
    [topic_life] = [client for client in world.clients if isinstance(client, TopicLife)]
    assert topic_life.lives > 2


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10_000, 10_000 + SOAK_SEEDS))
def test_broker_invariants_hold_in_a_simulation_for_a_long_time(
    seed: int, record_property: Record
) -> None:
    assert run(World(seed), SOAK_SECONDS, record_property).replies.compared > SECONDS
