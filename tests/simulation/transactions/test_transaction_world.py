"""Tests that transactions are atomic in a simulation of a whole broker, under all kinds of faults.

`make simulate SEED=n` runs one seed, for SECONDS virtual seconds. A failure prints its seed. `make
test` runs four fixed seeds and three new seeds. The campaign runs more seeds.
"""

from __future__ import annotations

import os

import pytest

from tests.simulation.transactions.world import TransactionWorld
from tests.simulation.whole.faults import FAULTS_WORTH
from tests.simulation.whole.runs import PLAYED_S_MAX, Record, again, run
from tests.tiers import sampled

SEEDS = [int(os.environ["SEED"])] if "SEED" in os.environ else sampled(range(10), range(4))
SECONDS = int(os.environ.get("SECONDS", "100"))
FRESH_SEEDS = 0 if "SEED" in os.environ else 10
CORNER_SEEDS = range(1_000, 1_030)
SOAK_SEEDS = int(os.environ.get("SOAK_SEEDS", "200"))
SOAK_SECONDS = 300


@pytest.mark.parametrize("seed", SEEDS)
def test_transactions_are_atomic_in_a_simulated_world(seed: int, record_property: Record) -> None:
    assert run(TransactionWorld(seed), SECONDS, record_property).ledger.deeds


@pytest.mark.parametrize("number", sampled(range(FRESH_SEEDS), range(3)))
def test_transactions_are_atomic_in_a_simulation_with_a_new_seed(
    number: int, record_property: Record
) -> None:
    seed = int.from_bytes(os.urandom(4), "big")
    world = run(TransactionWorld(seed), SECONDS, record_property)
    # A log that failed at the start of the broker may reject all producers until the world ends.
    assert world.ledger.deeds or world.happened["failing fsync"], again(world, SECONDS)


@pytest.mark.campaign
@pytest.mark.timeout(PLAYED_S_MAX)
def test_all_faults_and_outcomes_occur_in_simulations_of_transactions(
    record_property: Record,
) -> None:
    """All kinds of faults, all crash positions and all outcomes of transactions must occur. A
    change of the broker changes the events of each seed. The test therefore runs simulations until
    all these events have occurred."""
    rare = {
        "TV1 committed", "TV1 aborted", "TV2 committed", "TV2 aborted", "zombie", "doubled",
        "producer died", "crash behind a state record", "crash behind a marker",
        "crash behind a offsets marker", "InitProducerId CONCURRENT_TRANSACTIONS",
        "EndTxn PRODUCER_FENCED", "unstable offset", "Produce INVALID_PRODUCER_EPOCH",
        "TxnOffsetCommit NONE", "later coordinator", "commit beside the end NONE",
        "commit beside the end INVALID_PRODUCER_EPOCH",
        "commit beside the end TRANSACTION_ABORTABLE",
    }  # fmt: skip
    missing = rare | set(FAULTS_WORTH) - {"wall clock jumps"}
    for seed in CORNER_SEEDS:
        happened = run(TransactionWorld(seed), SECONDS, record_property).happened
        missing -= {what for what, times in happened.items() if times}
        if not missing:
            break
    assert not missing


def test_same_seed_gives_the_same_simulation_of_transactions() -> None:
    def fingerprint() -> str:
        world = TransactionWorld(7)
        world.run(40)
        world.end()
        return world.fingerprint()

    assert fingerprint() == fingerprint()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20_000, 20_000 + SOAK_SEEDS))
def test_transactions_are_atomic_in_a_simulation_for_a_long_time(
    seed: int, record_property: Record
) -> None:
    assert run(TransactionWorld(seed), SOAK_SECONDS, record_property).ledger.deeds
