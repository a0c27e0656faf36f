"""The tables of the partition and replica state machines, and the replicas of a reassignment."""

from __future__ import annotations

import pytest

from controller.states import (
    LEGAL_PREVIOUS,
    LEGAL_PREVIOUS_REPLICA,
    PartitionState,
    ReplicaState,
)
from controller.values import Assignment, LeaderAndIsr


def test_every_partition_state_and_replica_state_has_legal_previous_states() -> None:
    assert set(LEGAL_PREVIOUS) == set(PartitionState)
    assert set(LEGAL_PREVIOUS_REPLICA) == set(ReplicaState)
    assert all(LEGAL_PREVIOUS.values())
    assert all(LEGAL_PREVIOUS_REPLICA.values())


@pytest.mark.parametrize(
    ("before", "target", "after"),
    [
        (
            Assignment((1, 2, 3)),
            (3, 4, 5),
            Assignment((3, 4, 5, 1, 2), (4, 5), (1, 2)),
        ),
        (Assignment((1, 2)), (2, 1), Assignment((2, 1))),
        (
            Assignment((3, 4, 1, 2), (3, 4), (1, 2)),
            (5, 1),
            Assignment((5, 1, 2), (5,), (2,)),
        ),
        (Assignment((3, 4, 1, 2), (3, 4), (1, 2)), (1, 2), Assignment((1, 2))),
    ],
)
def test_reassignment_keeps_target_and_original_replicas_of_the_partition(
    before: Assignment, target: tuple[int, ...], after: Assignment
) -> None:
    assert before.reassigned_to(target) == after
    assert after.target == target
    assert after.origin == tuple(each for each in after.replicas if each in before.origin)


def test_comparison_of_partition_states_ignores_the_partition_epoch() -> None:
    state = LeaderAndIsr(1, 2, (1, 2), 3, partition_epoch=4)

    assert state.says_as(state._replace(partition_epoch=9))
    assert not state.says_as(state._replace(isr=(1,)))
