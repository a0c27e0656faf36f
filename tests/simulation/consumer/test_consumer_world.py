"""Tests of consumer groups with members of both protocols in a seeded simulation.

`make simulate SEED=n` runs one seed, for STEPS steps. A failure prints its seed.
"""

from __future__ import annotations

import os
import time

import pytest

from tests.simulation.consumer.world import ConsumerWorld
from tests.simulation.test_simulation import Tell, again
from tests.tiers import sampled

IS_ONE = "SEED" in os.environ
SEEDS = [int(os.environ["SEED"])] if IS_ONE else list(range(60))
STEPS = int(os.environ.get("STEPS", "600"))
FRESH_SEEDS = 0 if IS_ONE else 6


def run(seed: int, steps: int, tell: Tell) -> ConsumerWorld:
    """Runs one simulation from its first step until it is at rest. A failure names the seed."""
    world = ConsumerWorld(seed)
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


@pytest.mark.parametrize("seed", SEEDS if IS_ONE else sampled(SEEDS, range(4)))
def test_consumer_group_invariants_hold_in_a_simulated_world(
    seed: int, record_property: Tell
) -> None:
    assert run(seed, STEPS, record_property).checkers.steps >= STEPS


@pytest.mark.parametrize("number", sampled(range(FRESH_SEEDS), range(2)))
def test_consumer_group_invariants_hold_in_a_simulation_with_a_new_seed(
    number: int, record_property: Tell
) -> None:
    """Each run of the test uses a new seed. A failure prints the seed."""
    seed = int.from_bytes(os.urandom(4), "big")
    assert run(seed, STEPS, record_property).checkers.steps >= STEPS, again(seed, STEPS)


def test_same_seed_gives_the_same_simulation_of_consumer_groups() -> None:
    one, other = ConsumerWorld(77), ConsumerWorld(77)
    for world in (one, other):
        for _ in range(300):
            world.step()
    assert one.log.data == other.log.data
    assert one.happened == other.happened


HAPPENINGS = {
    "append_fails", "application_revokes", "client_disconnects", "client_repeats",
    "client_restarts", "ConsumerHeartbeat", "crash", "DeleteGroup", "log_is_cleaned",
    "OffsetCommit", "power lost", "regexes_are_resolved", "reply lost", "request delayed",
    "request lost", "requests_arrive", "snapshot_is_taken", "topic_changes", "topic_is_deleted",
}  # fmt: skip
CHECKS = {
    "awaited", "belief", "classic group at rest", "commit of a member",
    "commit of an older epoch", "commit refused", "consumer group at rest",
    "converted to classic", "converted to consumer", "deleted", "heartbeat answered 0",
    "heartbeat answered 25", "heartbeat answered 69", "heartbeat answered 81",
    "heartbeat answered 110", "heartbeat answered 111", "JoinReply of a consumer group",
    "must give up", "reloaded consumer group", "reloaded downgraded group", "snapshot",
    "SyncReply of a consumer group",
}  # fmt: skip


@pytest.mark.campaign
def test_every_event_and_check_occurs_in_simulations_of_consumer_groups(
    record_property: Tell,
) -> None:
    """The test runs at most 40 simulations, until each event and each check has occurred."""
    absent = HAPPENINGS | CHECKS
    for seed in range(1000, 1040):
        world = run(seed, STEPS, record_property)
        absent -= world.happened.keys() | world.checkers.checked.keys()
        if not absent:
            return
    pytest.fail(f"never occurred: {sorted(absent)}")
