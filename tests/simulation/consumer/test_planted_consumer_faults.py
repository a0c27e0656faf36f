"""Tests of the checkers: each fault that is planted into consumer groups must be detected by the
simulation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import coordinator.consumer.advance
import coordinator.consumer.commits
import coordinator.consumer.deletion
import coordinator.consumer.downgrade
import coordinator.consumer.reconcile
from coordinator.classic.group import Group
from coordinator.consumer.group import ConsumerGroup
from coordinator.step import Step
from offsets.consumer_records import (
    ConsumerGroupRun,
    ConsumerRecord,
    CurrentRecord,
    EpochRecord,
)
from offsets.runs import GroupRun
from tests.simulation.consumer.world import ConsumerWorld
from tests.simulation.disk_plants import (
    a_snapshot_leaves_out_consumer_groups,
    a_start_cuts_off_a_whole_batch,
    replies_leave_before_the_append,
)
from tests.simulation.whole.runs import PLAYED_S_MAX
from tests.tiers import sampled

MOST_SEEDS = 20
STEPS = 600

Plant = Callable[[pytest.MonkeyPatch], None]


def a_revocation_is_not_awaited(patch: pytest.MonkeyPatch) -> None:
    """Plants a fault: the coordinator assigns a partition to another member although its previous
    owner has not given it up yet."""
    patch.setattr(coordinator.consumer.reconcile, "_owns_any", lambda *_: False)


def commits_of_any_epoch_are_taken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(coordinator.consumer.commits, "_check_epoch", lambda *_: None)


def _without(patch: pytest.MonkeyPatch, unwanted: Callable[[ConsumerRecord], bool]) -> None:
    real = coordinator.consumer.advance._emit

    def emit(step: Step, changes: Any) -> bool:
        changes.records[:] = [each for each in changes.records if not unwanted(each)]
        return real(step, changes)

    patch.setattr(coordinator.consumer.advance, "_emit", emit)


def the_current_assignment_is_not_written(patch: pytest.MonkeyPatch) -> None:
    _without(patch, lambda record: isinstance(record, CurrentRecord))


def no_target_is_computed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(coordinator.consumer.advance, "_compute_target", lambda *_: None)


def the_rebalance_timeout_is_not_armed(patch: pytest.MonkeyPatch) -> None:
    real = Step.arm

    def arm(self: Step, timer: Any, after_ms: int) -> None:
        group = self.state.consumer_groups.get(timer.group_id)
        member = None if group is None else group.members.get(timer.member_id)
        if member is None or timer is not member.rebalance:
            real(self, timer, after_ms)

    patch.setattr(Step, "arm", arm)


def _tombstones(patch: pytest.MonkeyPatch, change: Callable[[list[ConsumerRecord]], Any]) -> None:
    real = coordinator.consumer.deletion.tombstones

    def tombstones(group: ConsumerGroup) -> ConsumerGroupRun:
        run = real(group)
        return replace(run, records=list(change(list(run.records))))

    for module in (coordinator.consumer.deletion, coordinator.consumer.downgrade):
        patch.setattr(module, "tombstones", tombstones)


def a_deletion_leaves_the_groups_record(patch: pytest.MonkeyPatch) -> None:
    _tombstones(
        patch, lambda records: [each for each in records if not isinstance(each, EpochRecord)]
    )


def a_deletion_begins_with_the_groups_record(patch: pytest.MonkeyPatch) -> None:
    """Plants a fault: the tombstones of a deleted group are in an order that Kafka cannot load."""
    _tombstones(patch, reversed)


def a_downgraded_group_is_loaded_as_stable(patch: pytest.MonkeyPatch) -> None:
    """Plants a fault of Kafka 4.3.1: the record of a group that was downgraded to a classic group
    names the first member as the leader. So a load after a crash finds a stable group, and no
    member gets the partitions of the member whose leave caused the downgrade."""
    real = Group.run

    def run(self: Group, *replaced: Any) -> GroupRun:
        result = real(self, *replaced)
        value = result.value
        if value is None or value.leader or not value.members:
            return result
        return replace(result, value=replace(value, leader=value.members[0].member_id))

    patch.setattr(Group, "run", run)


PLANTS: list[Plant] = [
    a_downgraded_group_is_loaded_as_stable,
    a_revocation_is_not_awaited,
    commits_of_any_epoch_are_taken,
    the_current_assignment_is_not_written,
    no_target_is_computed,
    the_rebalance_timeout_is_not_armed,
    a_deletion_leaves_the_groups_record,
    a_deletion_begins_with_the_groups_record,
    a_snapshot_leaves_out_consumer_groups,
    a_start_cuts_off_a_whole_batch,
    replies_leave_before_the_append,
]
FOUND_SOON = set(PLANTS) - {
    a_deletion_leaves_the_groups_record,
    replies_leave_before_the_append,
}
"""Planted faults that are detected in less than a second. The other planted faults are tested only
by `make campaign`."""


@pytest.mark.planted("simulated consumer groups")
@pytest.mark.parametrize("plant", sampled(PLANTS, FOUND_SOON), ids=lambda plant: plant.__name__)
@pytest.mark.timeout(PLAYED_S_MAX)
def test_simulation_of_consumer_groups_detects_each_planted_fault(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in range(MOST_SEEDS):
        try:
            world = ConsumerWorld(seed)
            for _ in range(STEPS):
                world.step()
            world.calm()
        except AssertionError:
            return
    pytest.fail(f"{MOST_SEEDS} worlds of {STEPS} steps found nothing wrong")
