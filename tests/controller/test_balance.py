"""The leader balancer of the controller: when it elects preferred leaders, and above which
percentage of imbalance."""

from __future__ import annotations

import pytest

from controller.facts import Tick
from controller.values import LeaderAndIsr
from tests.controller.world import Host, World, replicas

PARTITIONS = 10
FIRST_LOOK_MS = 5_000


def led_elsewhere(count: int, **config: object) -> Host:
    """Returns a controller of ten partitions with preferred leader 1. Broker 2 leads ``count`` of
    the partitions."""
    world = World(2, **config)
    for broker_id in (1, 2):
        world.register(broker_id)
    world.nodes.create_topic(
        "t", dict.fromkeys(range(PARTITIONS), replicas(1, 2)), world.spare_id()
    )
    for index in range(PARTITIONS):
        leader = 2 if index < count else 1
        world.nodes.states["t", index] = LeaderAndIsr(leader, 3, (1, 2), 0)._replace(
            written=world.nodes.zxid
        )
    host = world.elect()
    host.settle()
    return host


def led_by_2(host: Host) -> int:
    return sum(state.leader == 2 for state in host.world.nodes.states.values())


def pass_time(host: Host, ms: int) -> int:
    """Advances the time. Returns the number of partitions that broker 2 leads afterwards."""
    host.now_ms += ms
    host.give(Tick())
    host.settle()
    return led_by_2(host)


def test_leader_imbalance_is_corrected_soon_after_the_controller_election() -> None:
    host = led_elsewhere(4)
    assert pass_time(host, FIRST_LOOK_MS - 1) == 4
    assert pass_time(host, 1) == 0


@pytest.mark.parametrize(
    ("percentage", "elsewhere", "left"),
    [(10, 1, 1), (10, 2, 0), (50, 5, 5), (50, 6, 0), (0, 1, 0), (100, 10, 10)],
)
def test_leader_imbalance_up_to_the_configured_percentage_is_not_corrected(
    percentage: int, elsewhere: int, left: int
) -> None:
    host = led_elsewhere(elsewhere, leader_imbalance_per_broker_percentage=percentage)
    assert pass_time(host, FIRST_LOOK_MS) == left


def test_leader_balance_is_checked_again_after_the_interval() -> None:
    host = led_elsewhere(0, leader_imbalance_check_interval_ms=60_000)
    assert pass_time(host, FIRST_LOOK_MS) == 0
    host.world.unregister(1)
    host.give(host.world.see_brokers())
    host.settle()
    assert led_by_2(host) == PARTITIONS
    host.world.register(1)
    host.give(host.world.see_brokers())
    host.settle()
    for key, state in host.world.nodes.states.items():
        if 1 not in state.isr:
            host.give(host.world.isr_asked(key, 2, {key: (*state.isr, 1)}))
    host.settle()
    assert pass_time(host, 59_999) == PARTITIONS
    assert pass_time(host, 1) == 0


def test_leaders_are_not_balanced_when_auto_leader_rebalance_is_disabled() -> None:
    host = led_elsewhere(PARTITIONS, auto_leader_rebalance_enable=False)
    assert pass_time(host, 3_600_000) == PARTITIONS
