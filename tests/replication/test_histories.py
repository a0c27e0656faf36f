"""Tests that random histories of a partition lose no committed record. The simulation is in
`world.py`."""

from __future__ import annotations

from random import Random

import pytest

from replication.follower import Way
from tests.replication.world import FAULTS, NO_EPOCH, Lost, World
from tests.tiers import sampled

SEEDS = range(40)
STEPS = 1500


def history(seed: int, way: Way, min_isr: int, fault: str = "") -> World:
    world = World(Random(seed), way, min_isr, fault)
    try:
        for _ in range(STEPS):
            world.step()
        world.heal()
    except Lost as lost:
        raise Lost(f"seed {seed}, step {world.moves}, {way.value}: {lost}") from None
    return world


@pytest.mark.parametrize("min_isr", [1, 2])
@pytest.mark.parametrize("way", [Way.BY_FETCH, Way.BY_EPOCH])
def test_committed_records_survive_each_election(way: Way, min_isr: int) -> None:
    committed = 0
    for seed in SEEDS:
        committed += len(history(seed, way, min_isr).told)
    assert committed > 20 * len(SEEDS)


def run_histories_with(fault: str) -> None:
    for seed in range(300):
        for way in (Way.BY_FETCH, Way.BY_EPOCH):
            history(seed, way, 1, fault)


@pytest.mark.planted("histories of replicas")
@pytest.mark.parametrize("fault", sampled(FAULTS, set(FAULTS) - {"expand for nothing"}))
def test_some_history_loses_a_committed_record_when_a_replication_rule_is_disabled(
    fault: str,
) -> None:
    with pytest.raises(Lost):
        run_histories_with(fault)


@pytest.mark.parametrize("fault", ["", NO_EPOCH])
def test_follower_truncates_records_of_a_lost_epoch_before_the_new_leader_appends_any(
    fault: str,
) -> None:
    """Broker 2 led epoch 5 and has a record that no other replica has. Broker 3 now leads epoch 6.
    Its log is longer than that of broker 2, and the last epoch in it is 3.

    Before broker 3 can return an end offset for epoch 5, it must have written epoch 6 to its log.
    """
    world = World(Random(0), Way.BY_FETCH, 1, fault)
    world.mail.clear()
    leader, follower = world.nodes[3], world.nodes[2]
    leader.log = [(3, f"v{offset}") for offset in range(12)]
    leader.epochs = [(3, 0)]
    follower.log = [*leader.log[:10], (5, "alone")]
    follower.epochs = [(3, 0), (5, 10)]
    state = world.zookeeper._replace(leader=3, leader_epoch=6, isr=(2, 3))
    for node in (leader, follower):
        world._heard(node, state)
        node.high_watermark = 10

    def fetches() -> None:
        for _ in range(60):
            world._answer_fetch(follower, leader)
            world.mail.pop()()

    if fault:
        with pytest.raises(Lost):
            fetches()
    else:
        fetches()
        assert follower.log == leader.log
