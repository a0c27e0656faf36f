"""Tests of share groups (KIP-932) in simulated clusters whose leaders and coordinators fail over.
An accepted record is never delivered again, and no record is lost.

`make simulate SEED=n` runs one seed, for SECONDS virtual seconds. A failure prints its seed.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from broker.cluster.coordinators import remote_share_states
from broker.share.live_partition import LivePartition
from broker.share.partitions import SharePartitions
from protocol.errors import NONE
from share.persister import shard
from share.persister.calls import StateReply
from share.persister.shard import ShareStateShard
from share.persister.values import UpdateValue
from tests.simulation.cluster.share_cluster import ShareCluster
from tests.simulation.whole.runs import PLAYED_S_MAX, Record, find_fault, run
from tests.tiers import sampled

SEED = int(os.environ.get("SEED", "0"))
IS_ONE = "SEED" in os.environ
SEEDS = range(30)
SECONDS = int(os.environ.get("SECONDS", "40"))
SHORT_S = SECONDS if IS_ONE else 12
"""The virtual seconds for which `make test` runs a cluster."""
PLANT_SEEDS = 25
HAPPENS = {
    "ShareAcknowledge 0",
    "ShareFetch 6",
    "ShareGroupHeartbeat 16",
    "kill",
    "records accepted",
    "records delivered again",
}

Plant = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.proves("share 14")
def test_share_group_invariants_hold_in_a_simulated_cluster(record_property: Record) -> None:
    assert run(ShareCluster(SEED), SHORT_S, record_property).happened["records accepted"]


@pytest.mark.campaign
@pytest.mark.proves("share 14")
@pytest.mark.timeout(PLAYED_S_MAX)
def test_share_group_invariants_hold_in_many_simulated_clusters(record_property: Record) -> None:
    happened: Counter[str] = Counter()
    for seed in SEEDS:
        happened += run(ShareCluster(seed), SECONDS, record_property).happened
    assert not HAPPENS - happened.keys()


def writes_without_a_response_count_as_stored(patch: pytest.MonkeyPatch) -> None:
    def lost(self: Any, _: object) -> None:
        self.call.ticket.take(StateReply(NONE))

    patch.setattr(remote_share_states._Sent, "lost", lost)


def a_new_leader_uses_its_old_states(patch: pytest.MonkeyPatch) -> None:
    """Plants a fault: a broker that becomes leader again uses the share partition states of its
    previous leadership."""

    def follow_leader_epoch(self: LivePartition, partition: Any) -> bool:
        self.leader_epoch = partition.leader_epoch
        return partition is self.partition

    patch.setattr(LivePartition, "follow_leader_epoch", follow_leader_epoch)
    patch.setattr(SharePartitions, "forget_idle", lambda *_: None)


def updates_are_lost_when_a_share_coordinator_loads(patch: pytest.MonkeyPatch) -> None:
    real_replay, real_loaded = ShareStateShard.replay, ShareStateShard.loaded
    live: set[int] = set()

    def replay(self: ShareStateShard, run: Any, base_offset: int) -> None:
        if id(self) in live or not isinstance(run.value, UpdateValue) or not run.value.batches:
            real_replay(self, run, base_offset)

    def loaded(self: ShareStateShard, now: Any) -> Any:
        live.add(id(self))
        return real_loaded(self, now)

    patch.setattr(ShareStateShard, "replay", replay)
    patch.setattr(ShareStateShard, "loaded", loaded)


def delayed_writes_move_the_start_offset_back(patch: pytest.MonkeyPatch) -> None:
    """Plants a fault: the coordinator handles each WriteShareGroupState as if it arrived late and
    had start offset 0."""
    real = ShareStateShard._write

    def write(self: ShareStateShard, call: Any, now: Any) -> Any:
        state = self._states.get(call.key)
        if state is not None and state.value.start_offset > 0 and call.start_offset > 0:
            call.start_offset = 0
            before, state.value = state.value, state.value._replace(start_offset=0)
            try:
                return real(self, call, now)
            finally:
                state.value = before
        return real(self, call, now)

    patch.setattr(ShareStateShard, "_write", write)
    patch.setitem(shard._HANDLERS, shard.WriteState, write)


PLANTS: list[Plant] = [
    writes_without_a_response_count_as_stored,
    a_new_leader_uses_its_old_states,
    updates_are_lost_when_a_share_coordinator_loads,
    delayed_writes_move_the_start_offset_back,
]
FOUND_SOON = {updates_are_lost_when_a_share_coordinator_loads}
"""Planted faults that are detected in a few seconds. The other planted faults are tested only by
`make campaign`."""


@pytest.mark.planted("simulated share groups in clusters")
@pytest.mark.timeout(PLAYED_S_MAX)
@pytest.mark.parametrize("plant", sampled(PLANTS, FOUND_SOON), ids=lambda plant: plant.__name__)
def test_simulation_of_share_groups_in_a_cluster_detects_each_planted_fault(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    find_fault(ShareCluster, range(PLANT_SEEDS), SECONDS)
