"""During a reassignment, the controller writes the same partition states as the controller of
Apache Kafka 3.9.2, in the same leader epochs."""

from __future__ import annotations

import pytest

from controller.calls import AlterReassignments
from controller.values import LeaderAndIsr, TopicPartition
from tests.controller.test_stories import T0, cluster

State = tuple[int, int, tuple[int, ...]]
"""Leader, leader epoch and ISR of a partition."""

OF_KAFKA: list[tuple[tuple[int, ...], tuple[int, ...], list[State]]] = [
    ((2,), (3,), [(2, 1, (2,)), (2, 1, (2, 3)), (3, 2, (2, 3)), (3, 3, (3,))]),
    (
        (2, 3),
        (2, 4),
        [(2, 1, (2, 3)), (2, 1, (2, 3, 4)), (2, 2, (2, 3, 4)), (2, 3, (2, 4))],
    ),
    ((2, 3, 4), (2,), [(2, 1, (2, 3, 4)), (2, 2, (2, 4)), (2, 3, (2,))]),
    ((2, 3, 4), (3,), [(3, 1, (2, 3, 4)), (3, 2, (3, 4)), (3, 3, (3,))]),
    ((2,), (2, 3), [(2, 1, (2,)), (2, 1, (2, 3)), (2, 2, (2, 3))]),
    ((2, 3), (3, 2), [(2, 1, (2, 3))]),
    (
        (2, 3, 4),
        (1, 4, 3),
        [(2, 1, (2, 3, 4)), (2, 1, (2, 3, 4, 1)), (1, 2, (2, 3, 4, 1)), (1, 3, (3, 4, 1))],
    ),
]
"""Reassignments in a Kafka cluster of four brokers: the replicas before, the replicas after, and
the partition states that Kafka wrote to ZooKeeper."""


@pytest.mark.parametrize(("origin", "target", "states"), OF_KAFKA)
def test_reassignment_writes_the_same_partition_states_as_kafka(
    origin: tuple[int, ...], target: tuple[int, ...], states: list[State]
) -> None:
    host = cluster(1, 2, 3, 4, topics={"t": {0: origin}})
    world = host.world
    written: list[State] = []

    def on_state(_: TopicPartition, before: LeaderAndIsr | None, state: LeaderAndIsr) -> None:
        written.append(state[:3])

    world.nodes.on_state = on_state
    host.give(AlterReassignments("move", {T0: target}))
    host.settle()
    if joining := [each for each in target if each not in origin]:
        isr = world.nodes.states[T0].isr
        host.give(world.isr_asked("isr", world.nodes.states[T0].leader, {T0: (*isr, *joining)}))
        host.settle()

    assert written == states
    assert world.nodes.topics["t"].partitions[0].replicas == target
