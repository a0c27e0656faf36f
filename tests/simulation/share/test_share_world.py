"""Tests that share groups deliver each record until it is in a final state, under all kinds of
faults.

`make simulate SEED=n` runs one seed, for SECONDS virtual seconds. A failure prints its seed. `make
test` runs two fixed seeds. The campaign runs more fixed seeds and new seeds.
"""

from __future__ import annotations

import os

import pytest

from tests.simulation.share.world import ShareWorld
from tests.simulation.whole.faults import FAULTS_WORTH
from tests.simulation.whole.runs import PLAYED_S_MAX, Record, again, fingerprint, run
from tests.tiers import sampled

SEEDS = [int(os.environ["SEED"])] if "SEED" in os.environ else sampled(range(20), (2, 3))
SECONDS = int(os.environ.get("SECONDS", "30"))
FRESH_SEEDS = 0 if "SEED" in os.environ else 6
CORNER_SEEDS = range(1_000, 1_030)
CORNER_SECONDS = 60
SOAK_SEEDS = int(os.environ.get("SOAK_SEEDS", "200"))
SOAK_SECONDS = 300


@pytest.mark.proves("share 16")
@pytest.mark.parametrize("seed", SEEDS)
def test_share_groups_bring_records_to_a_final_state_in_a_simulated_world(
    seed: int, record_property: Record
) -> None:
    assert run(ShareWorld(seed), SECONDS, record_property).happened["final record"] > 50


@pytest.mark.campaign
@pytest.mark.parametrize("number", range(FRESH_SEEDS))
def test_simulated_share_groups_bring_records_to_a_final_state_with_a_random_seed(
    number: int, record_property: Record
) -> None:
    seed = int.from_bytes(os.urandom(4), "big")
    world = run(ShareWorld(seed), SECONDS, record_property)
    assert world.happened["ShareFetch"] or world.happened["failing fsync"], again(world, SECONDS)


@pytest.mark.campaign
@pytest.mark.timeout(PLAYED_S_MAX)
def test_simulations_of_share_groups_contain_every_fault_and_every_end_of_a_delivery(
    record_property: Record,
) -> None:
    rare = {
        "delivered again: lock", "delivered again: released", "delivered again: session",
        "delivered again: member removed", "delivered again after a load", "lock renewed",
        "aborted record skipped", "doubled", "in-flight limit reached", "member crashes",
        "member sleeps", "session closed", "wrong acknowledgement", "acknowledged 121",
        "acknowledged 42", "ShareFetch 122", "ShareFetch 123", "admin DeleteRecords",
        "admin DeleteTopics", "connection vanished", "committed", "aborted",
    }  # fmt: skip
    missing = rare | set(FAULTS_WORTH) - {"wall clock jumps"}
    for seed in CORNER_SEEDS:
        happened = run(ShareWorld(seed), CORNER_SECONDS, record_property).happened
        missing -= {what for what, times in happened.items() if times}
        if not missing:
            break
    assert not missing


@pytest.mark.campaign
def test_same_seed_gives_the_same_simulation_of_share_groups() -> None:
    assert fingerprint(ShareWorld(5), 20) == fingerprint(ShareWorld(5), 20)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(30_000, 30_000 + SOAK_SEEDS))
def test_share_groups_deliver_each_record_until_its_final_state_in_a_soak_run(
    seed: int, record_property: Record
) -> None:
    assert run(ShareWorld(seed), SOAK_SECONDS, record_property).happened["final record"]
