"""Tests in virtual time that a replica which was down catches up at its throttled rate."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from broker.topics.replicas.replica import Replica
from broker.topics.replicas.roles import Role
from tests.log.log_tools import batch
from tests.simulation.cluster.controller_clients import TopicMaker
from tests.simulation.cluster.machine import BrokerMachine
from tests.simulation.cluster.world import ClusterWorld
from tests.simulation.whole.client import WireRequest

TOPIC = "moved"
RATE = 200_000
"""The replication quota in bytes per second."""
RECORDS, RECORD_BYTES = 60, 50_000
AT_ONCE = 1 << 20
"""The maximum size in bytes of the first Fetch response. The throttle applies only after this
response."""


class ThrottledTopic(TopicMaker):
    """Creates a topic whose replicas are all throttled, either as leaders or as followers."""

    side = ""

    def send(self, request: WireRequest, about: Any = None, expects_answer: bool = True) -> None:
        if request.name == "CreateTopics":
            throttled = {"name": f"{self.side}.replication.throttled.replicas", "value": "*"}
            for topic in request.value["topics"]:
                topic["configs"] = [throttled]
        super().send(request, about, expects_answer)


def replica_at(machine: BrokerMachine) -> Replica | None:
    """Returns the topic's replica on the broker of a machine, or None."""
    assert machine.process is not None
    found = machine.process.broker.logs.get(TOPIC, 0)
    return found if isinstance(found, Replica) else None


def run_until(
    world: ClusterWorld, what: str, condition: Callable[[], object], within_s: float = 60
) -> float:
    """Runs the simulation until ``condition`` holds. Returns the elapsed virtual seconds."""
    began = world.seconds
    while not condition():
        world.run(0.1)
        assert world.seconds - began < within_s, f"not within {within_s} s: {what}"
    return world.seconds - began


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_replica_catches_up_at_its_throttled_rate(side: str) -> None:
    world = ClusterWorld(1)
    for machine in world.machines:
        machine.settings[f"{side}.replication.throttled.rate"] = str(RATE)
    maker = ThrottledTopic(world, "maker", "10.1.0.1", world.fork(), {TOPIC: 1})
    maker.side = side
    world.populate([maker])
    try:
        _comes_back(world, maker, side)
    finally:
        world.end()


def _comes_back(world: ClusterWorld, maker: TopicMaker, side: str) -> None:
    run_until(world, "the topic is made", lambda: maker.made)
    run_until(
        world,
        "it is replicated",
        lambda: sum(replica_at(machine) is not None for machine in world.machines) == 3,
    )
    here = [(machine, replica) for machine in world.machines if (replica := replica_at(machine))]
    run_until(world, "it is led", lambda: any(each.role is Role.LEADER for _, each in here))
    (leader, led), *_ = [each for each in here if each[1].role is Role.LEADER]
    away, behind = next(each for each in here if each[1].role is Role.FOLLOWER)
    world.internet.cut(leader.host, away.host)
    assert led.led is not None
    known = led.led
    assert leader.process is not None
    append = partial(led.append, batch(0, b"v" * RECORD_BYTES), 1_000)
    leader.process.loop.call_soon(append)  # a complete replica stays in the ISR
    run_until(world, "it is out of sync", lambda: away.node_id not in known.state.isr)
    for _ in range(RECORDS - 1):
        leader.process.loop.call_soon(append)
    world.run(20)  # until the bytes of the other, in-sync follower leave the quota windows
    assert led.high_watermark == led.log.log_end_offset == RECORDS
    assert behind.log.log_end_offset == 0
    world.internet.mend(leader.host, away.host)
    took_s = run_until(
        world, "it has come back", lambda: behind.log.log_end_offset == RECORDS, within_s=120
    )
    moved = RECORDS * RECORD_BYTES
    assert (moved - AT_ONCE) / RATE * 0.95 <= took_s <= moved / RATE * 1.3 + 2
    run_until(world, "it is in sync", lambda: away.node_id in known.state.isr)
    quota = led.quotas.leader if side == "leader" else behind.quotas.follower
    assert quota.throttled_bytes >= moved
