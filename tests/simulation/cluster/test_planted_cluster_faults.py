"""Tests of the checkers: each fault that is planted into the brokers of a simulated cluster must be
detected.

As in `tests/simulation/test_planted_faults.py`, a function named after the fault replaces correct
code with `monkeypatch`. If `MOST_SEEDS` simulations do not detect a fault, the test fails.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.cluster.controller.controller_reads import ControllerReads
from broker.cluster.controller.controller_writes import ControllerWrites
from broker.cluster.coordinators import remote_markers
from broker.cluster.coordinators.coordinators import Coordinators
from broker.cluster.coordinators.remote_markers import RemoteMarkers
from broker.cluster.membership.registration import BrokerRegistration
from broker.cluster.replicas import followed
from broker.cluster.replicas.replicas import ReplicaManager
from broker.topics.replicas.replica import Replica
from controller.partition import Partition
from coordinator.outcome import Outcome
from coordinator.shard import GroupShard
from log.partition_log import PartitionLog
from log.producers.producer_state import ProducerStates
from protocol.errors import NONE, NOT_LEADER_OR_FOLLOWER
from protocol.now import Now
from replication.follower import Begin
from replication.leader import LedReplicas
from replication.values import WantedIsr
from tests.simulation.cluster.busy import BusyCluster
from tests.simulation.whole.runs import find_fault
from tests.tiers import sampled
from transactions.outcome import SendMarkers
from transactions.shard import TransactionShard

MOST_SEEDS = 12
SECONDS = 40

Plant = Callable[[pytest.MonkeyPatch], None]


def an_older_controller_is_obeyed(patch: pytest.MonkeyPatch) -> None:
    def refusal(self: ReplicaManager, request: Any) -> int:
        self._controller_epoch = request.controller_epoch
        return NONE

    patch.setattr(ReplicaManager, "_refusal", refusal)


def an_older_controller_writes(patch: pytest.MonkeyPatch) -> None:
    async def fenced(self: ControllerWrites, *operations: Any) -> list[Any]:
        return await self._zookeeper.multi(operations)

    patch.setattr(ControllerWrites, "_fenced", fenced)


def the_high_watermark_does_not_wait_for_the_isr_to_be_written(patch: pytest.MonkeyPatch) -> None:
    def ask(self: LedReplicas, isr: tuple[int, ...]) -> WantedIsr:
        self.pending = WantedIsr(isr, self.state.partition_epoch)
        self.maximal_isr = frozenset(isr)
        return self.pending

    patch.setattr(LedReplicas, "_ask", ask)


def the_high_watermark_does_not_wait_for_followers(patch: pytest.MonkeyPatch) -> None:
    def appended(self: LedReplicas, end_offset: int, now_ms: int) -> Any:
        self.end_offset = self.high_watermark = end_offset
        return self._step(now_ms)

    patch.setattr(LedReplicas, "appended", appended)


def who_is_behind_is_in_sync(patch: pytest.MonkeyPatch) -> None:
    def expanded(self: LedReplicas, replica_id: int, offset: int) -> Any:
        return self._ask((*self.state.isr, replica_id))

    patch.setattr(LedReplicas, "_expanded", expanded)


def a_follower_begins_at_its_high_watermark(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(followed, "begin", lambda way, latest_epoch: Begin.CUT)


def a_follower_is_cut_at_the_wrong_offset(patch: pytest.MonkeyPatch) -> None:
    real = Replica.truncate_for_leader

    def truncate(self: Replica, offset: int) -> int:
        return real(self, max(0, offset - 1))

    patch.setattr(Replica, "truncate_for_leader", truncate)


def a_follower_is_never_told_that_it_diverges(patch: pytest.MonkeyPatch) -> None:
    real = followed.Followed.asked

    def asked(self: followed.Followed, max_bytes: int, *, by_epoch: bool) -> Any:
        return real(self, max_bytes, by_epoch=False)

    patch.setattr(followed.Followed, "asked", asked)


def a_new_leader_does_not_write_its_epoch_down(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionLog, "start_epoch", lambda self, epoch: None)


def a_deposed_leader_leads_on(patch: pytest.MonkeyPatch) -> None:
    real = Replica.follow

    def follow(self: Replica, state: Any) -> None:
        if self.led is None:
            real(self, state)

    patch.setattr(Replica, "follow", follow)


def the_watch_on_brokers_is_not_armed_again(patch: pytest.MonkeyPatch) -> None:
    real = ControllerReads.brokers

    async def brokers(self: ControllerReads, watch: Any) -> Any:
        armed = "brokers" in self._logged_errors
        self._logged_errors.add("brokers")
        return await real(self, (lambda: None) if armed else watch)

    patch.setattr(ControllerReads, "brokers", brokers)


def a_new_session_registers_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BrokerRegistration, "_session_changed", lambda self, connection: None)


def followers_do_not_learn_producers(patch: pytest.MonkeyPatch) -> None:
    real = Replica.append_replicated

    def append_replicated(self: Replica, batches: Any, *offsets: int) -> int:
        known, self.log.producers = self.log.producers, ProducerStates()
        try:
            return real(self, batches, *offsets)
        finally:
            self.log.producers = known

    patch.setattr(Replica, "append_replicated", append_replicated)


def a_coordinator_that_leads_loads_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Coordinators, "on_leader", lambda self, replica, leader_epoch: None)


def a_coordinator_that_is_deposed_answers_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Coordinators, "on_follower", lambda self, replica, leader_epoch: None)


def a_coordinator_answers_before_its_record_is_replicated(patch: pytest.MonkeyPatch) -> None:
    def when_stable(self: Replica, offset: int, replies: Any, *_: Any) -> None:
        self._deliver(list(replies))

    patch.setattr(Replica, "when_stable", when_stable)


def a_coordinator_that_loads_knows_no_members(patch: pytest.MonkeyPatch) -> None:
    real = GroupShard.loaded

    def loaded(self: GroupShard, now: Now) -> Outcome:
        outcome = real(self, now)
        self._state.groups.clear()
        return outcome

    patch.setattr(GroupShard, "loaded", loaded)


def a_coordinator_that_loads_ends_no_transaction(patch: pytest.MonkeyPatch) -> None:
    real = TransactionShard.loaded

    def loaded(self: TransactionShard, now: Now) -> Any:
        outcome = real(self, now)
        kept = [each for each in outcome.replies if not isinstance(each[1], SendMarkers)]
        return outcome._replace(replies=kept)

    patch.setattr(TransactionShard, "loaded", loaded)


def a_marker_is_given_up_when_the_leader_moves(patch: pytest.MonkeyPatch) -> None:
    real = RemoteMarkers.write

    def write(self: RemoteMarkers, topic: str, partition: int, *marker: Any) -> None:
        found = self._cluster.partition(topic, partition)
        if found is None or found.leader < 0:
            marker[-1].take(NONE)
        else:
            real(self, topic, partition, *marker)

    patch.setattr(RemoteMarkers, "write", write)
    patch.setattr(remote_markers._Wanted, "lost", lambda self, _: self.ticket.take(NONE))
    patch.setitem(remote_markers._AS_TAKEN, NOT_LEADER_OR_FOLLOWER, NONE)


def a_move_is_done_when_the_new_replicas_are_in_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "target", property(lambda self: self.adding or self.replicas))


def who_was_not_told_that_its_replica_moved_leads_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReplicaManager, "_stop_where_moved", lambda self, topic, shown: None)


class Killed(BusyCluster):
    """A cluster with inter-broker version 2.6 whose only faults are killed brokers."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.faults.worth = {"kill": 1}

    def _settings(self) -> dict[str, str]:
        return {**super()._settings(), "inter.broker.protocol.version": "2.6-IV0"}


class CutOff(BusyCluster):
    """A cluster whose only faults are cut links between brokers and ZooKeeper."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.faults.worth = {"cut from ZooKeeper": 1}


WORLDS: dict[Plant, type[BusyCluster]] = {
    a_coordinator_that_loads_ends_no_transaction: Killed,
    who_was_not_told_that_its_replica_moved_leads_on: CutOff,
}
"""The planted faults that are detected only after a certain failure, each with a class of simulated
cluster in which this failure occurs often. All other planted faults are detected in a
`BusyCluster`."""
FOUND_BY: dict[Plant, int] = {
    an_older_controller_is_obeyed: 6,
    a_new_leader_does_not_write_its_epoch_down: 3,
    the_watch_on_brokers_is_not_armed_again: 4,
    a_marker_is_given_up_when_the_leader_moves: 9,
    who_was_not_told_that_its_replica_moved_leads_on: 11,
}
"""By planted fault: the seed with which its test begins. With a lower seed, the checkers find the
fault only after minutes."""

PLANTS = [
    an_older_controller_is_obeyed,
    an_older_controller_writes,
    the_high_watermark_does_not_wait_for_the_isr_to_be_written,
    the_high_watermark_does_not_wait_for_followers,
    who_is_behind_is_in_sync,
    a_follower_begins_at_its_high_watermark,
    a_follower_is_cut_at_the_wrong_offset,
    a_follower_is_never_told_that_it_diverges,
    a_new_leader_does_not_write_its_epoch_down,
    a_deposed_leader_leads_on,
    the_watch_on_brokers_is_not_armed_again,
    a_new_session_registers_nobody,
    followers_do_not_learn_producers,
    a_coordinator_that_leads_loads_nothing,
    a_coordinator_that_is_deposed_answers_on,
    a_coordinator_answers_before_its_record_is_replicated,
    a_coordinator_that_loads_knows_no_members,
    a_coordinator_that_loads_ends_no_transaction,
    a_marker_is_given_up_when_the_leader_moves,
    a_move_is_done_when_the_new_replicas_are_in_sync,
    who_was_not_told_that_its_replica_moved_leads_on,
]


FOUND_SOON = {
    the_high_watermark_does_not_wait_for_followers,
    a_coordinator_that_loads_knows_no_members,
    a_follower_begins_at_its_high_watermark,
}
"""Planted faults that are detected within seconds. The campaign covers the other faults."""


@pytest.mark.planted("simulated cluster")
@pytest.mark.timeout(900)  # worlds run until one reveals the fault
@pytest.mark.parametrize("plant", sampled(PLANTS, FOUND_SOON), ids=lambda plant: plant.__name__)
def test_simulation_of_a_cluster_detects_each_planted_fault(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    first = FOUND_BY.get(plant, 0)
    seeds = [first, *(seed for seed in range(MOST_SEEDS) if seed != first)]
    find_fault(WORLDS.get(plant, BusyCluster), seeds, SECONDS)
