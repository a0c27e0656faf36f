"""Tests of consumer groups (KIP-848) in simulated clusters whose coordinators fail over.

`make simulate SEED=n` runs one seed, for SECONDS virtual seconds. A failure prints its seed.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import coordinator.consumer.commits
from coordinator.consumer import hosting
from coordinator.consumer.group import NO_ASSIGNMENT, ConsumerGroup
from coordinator.outcome import Outcome
from coordinator.shard import GroupShard
from coordinator.step import Step
from offsets.consumer_records import CurrentRecord
from protocol.now import Now
from tests.simulation.cluster.consumer_cluster import ConsumerCluster
from tests.simulation.whole.runs import PLAYED_S_MAX, Record, find_fault, run
from tests.tiers import sampled

IS_ONE = "SEED" in os.environ
SOME = [int(os.environ["SEED"])] if IS_ONE else range(2)
SEEDS = range(40)
SECONDS = int(os.environ.get("SECONDS", "30"))
SHORT_S = SECONDS if IS_ONE else 10
"""The virtual seconds for which `make test` runs a cluster."""
PLANT_SEEDS = 12
HAPPENS = {
    "ConsumerGroupHeartbeat 0",
    "ConsumerGroupHeartbeat 16",
    "ConsumerGroupHeartbeat 111",
    "OffsetCommit 0",
    "kill",
    "member restarts",
    "partitions received",
    "partitions revoked",
    "stale commit refused",
}

Plant = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize("seed", SOME)
def test_consumer_group_invariants_hold_in_a_simulated_cluster(
    seed: int, record_property: Record
) -> None:
    assert run(ConsumerCluster(seed), SHORT_S, record_property).happened["partitions received"]


@pytest.mark.campaign
@pytest.mark.timeout(PLAYED_S_MAX)
def test_consumer_group_invariants_hold_in_many_simulated_clusters(
    record_property: Record,
) -> None:
    happened: Counter[str] = Counter()
    for seed in SEEDS:
        happened += run(ConsumerCluster(seed), SECONDS, record_property).happened
    assert not HAPPENS - happened.keys()


def _when_loaded(patch: pytest.MonkeyPatch, change: Callable[[ConsumerGroup], None]) -> None:
    """Patches the coordinator so that ``change`` is applied to each loaded consumer group."""
    real = GroupShard.loaded

    def loaded(self: GroupShard, now: Now) -> Outcome:
        outcome = real(self, now)
        for group in self._state.consumer_groups.values():
            change(group)
        return outcome

    patch.setattr(GroupShard, "loaded", loaded)


def a_coordinator_loads_members_without_their_assignments(patch: pytest.MonkeyPatch) -> None:
    def change(group: ConsumerGroup) -> None:
        for member_id in group.members:
            group.fold(CurrentRecord(member_id, NO_ASSIGNMENT))

    _when_loaded(patch, change)


def a_coordinator_forgets_who_holds_partitions(patch: pytest.MonkeyPatch) -> None:
    """Plants a fault: a loaded group has its members, but does not know which partitions they still
    own."""
    _when_loaded(patch, lambda group: group.holders.clear())


def a_coordinator_that_loads_begins_no_sessions(patch: pytest.MonkeyPatch) -> None:
    """Plants a fault: loaded members have no session timeout, so a dead member keeps its partitions
    forever."""

    def wake(step: Step, group: ConsumerGroup) -> None:
        group.changed_ms = step.now.mono_ms

    patch.setattr(hosting, "wake", wake)


def commits_of_stale_member_epochs_are_accepted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(coordinator.consumer.commits, "_check_epoch", lambda *_: None)


def commits_are_lost_when_a_coordinator_loads(patch: pytest.MonkeyPatch) -> None:
    real = GroupShard.replay

    def replay(self: GroupShard, run: Any, base_offset: int) -> None:
        if self._live or type(run).__name__ != "OffsetRun" or base_offset % 5:
            real(self, run, base_offset)

    patch.setattr(GroupShard, "replay", replay)


PLANTS: list[Plant] = [
    a_coordinator_loads_members_without_their_assignments,
    a_coordinator_forgets_who_holds_partitions,
    a_coordinator_that_loads_begins_no_sessions,
    commits_of_stale_member_epochs_are_accepted,
    commits_are_lost_when_a_coordinator_loads,
]
FOUND_SOON = {commits_of_stale_member_epochs_are_accepted}
"""Planted faults that the simulation detects in less than a second. The other planted faults are
tested only by `make campaign`."""


@pytest.mark.planted("simulated consumer groups in clusters")
@pytest.mark.timeout(PLAYED_S_MAX)
@pytest.mark.parametrize("plant", sampled(PLANTS, FOUND_SOON), ids=lambda plant: plant.__name__)
def test_simulation_of_consumer_groups_in_a_cluster_detects_each_planted_fault(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    find_fault(ConsumerCluster, range(PLANT_SEEDS), SECONDS)
