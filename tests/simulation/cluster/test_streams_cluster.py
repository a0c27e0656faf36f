"""The laws of streams groups (KIP-1071) hold in simulated clusters whose coordinators fail over.

`make simulate SEED=n` runs one seed, for SECONDS virtual seconds. A failure prints its seed.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

import pytest

from coordinator.outcome import Outcome
from coordinator.shard import GroupShard
from coordinator.step import Step
from coordinator.streams import hosting
from coordinator.streams.group import NO_ASSIGNMENT, StreamsGroup
from offsets.streams_records import StreamsCurrentRecord
from protocol.now import Now
from tests.simulation.cluster.streams_cluster import StreamsCluster
from tests.simulation.whole.runs import PLAYED_S_MAX, Record, find_fault, run
from tests.tiers import sampled

SEED = int(os.environ.get("SEED", "0"))
IS_ONE = "SEED" in os.environ
SEEDS = range(40)
SECONDS = int(os.environ.get("SECONDS", "30"))
SHORT_S = SECONDS if IS_ONE else 10
"""The duration of a simulation in `make test`, in virtual seconds."""
PLANT_SEEDS = 12
HAPPENS = {
    "StreamsGroupHeartbeat 0",
    "StreamsGroupHeartbeat 14",
    "StreamsGroupHeartbeat 16",
    "StreamsGroupHeartbeat 35",
    "kill",
    "member restarts",
    "status 3",
    "tasks received",
    "tasks revoked",
}

Plant = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.proves("streams 10")
def test_invariants_of_streams_groups_hold_in_a_simulated_cluster(record_property: Record) -> None:
    assert run(StreamsCluster(SEED), SHORT_S, record_property).happened["tasks received"]


@pytest.mark.campaign
@pytest.mark.proves("streams 10")
@pytest.mark.timeout(PLAYED_S_MAX)
def test_invariants_of_streams_groups_hold_in_many_simulated_clusters(
    record_property: Record,
) -> None:
    happened: Counter[str] = Counter()
    for seed in SEEDS:
        happened += run(StreamsCluster(seed), SECONDS, record_property).happened
    assert not HAPPENS - happened.keys()


def _when_loaded(patch: pytest.MonkeyPatch, change: Callable[[StreamsGroup], None]) -> None:
    """Applies ``change`` to each streams group that a coordinator has loaded."""
    real = GroupShard.loaded

    def loaded(self: GroupShard, now: Now) -> Outcome:
        outcome = real(self, now)
        for group in self._state.streams_groups.values():
            change(group)
        return outcome

    patch.setattr(GroupShard, "loaded", loaded)


def a_coordinator_loads_members_without_their_tasks(patch: pytest.MonkeyPatch) -> None:
    def change(group: StreamsGroup) -> None:
        for member_id in group.members:
            group.fold(StreamsCurrentRecord(member_id, NO_ASSIGNMENT), -1)

    _when_loaded(patch, change)


def a_coordinator_forgets_who_holds_tasks(patch: pytest.MonkeyPatch) -> None:
    """Plants a fault: a loaded group has its members, but does not know which tasks its members
    still own."""

    def change(group: StreamsGroup) -> None:
        for holders in group._holders.values():
            holders.clear()

    _when_loaded(patch, change)


def a_coordinator_that_loads_begins_no_sessions(patch: pytest.MonkeyPatch) -> None:
    """Plants a fault: a coordinator that has loaded a group starts no session timers. A dead member
    then keeps its tasks for ever."""

    def wake(step: Step, group: StreamsGroup) -> None:
        group.changed_ms = step.now.mono_ms

    patch.setattr(hosting, "wake", wake)


PLANTS: list[Plant] = [
    a_coordinator_loads_members_without_their_tasks,
    a_coordinator_forgets_who_holds_tasks,
    a_coordinator_that_loads_begins_no_sessions,
]
FOUND_SOON = {a_coordinator_loads_members_without_their_tasks}
"""The planted faults that are detected within a second. Only the campaign tests the other planted
faults."""


@pytest.mark.planted("simulated streams groups in clusters")
@pytest.mark.timeout(PLAYED_S_MAX)
@pytest.mark.parametrize("plant", sampled(PLANTS, FOUND_SOON), ids=lambda plant: plant.__name__)
def test_simulation_of_streams_groups_in_a_cluster_detects_each_planted_fault(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    find_fault(StreamsCluster, range(PLANT_SEEDS), SECONDS)
