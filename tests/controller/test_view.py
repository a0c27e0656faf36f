"""The counts and the pending work in the controller's view."""

from __future__ import annotations

from controller.calls import AlterReassignments
from controller.facts import DeletionsSeen
from controller.view import Counts, Waits, counts, waits
from tests.controller.test_stories import cluster


def test_controller_shows_counts_of_brokers_and_partitions_and_its_pending_work() -> None:
    host = cluster(
        1, 2, 3, topics={"t": {0: (1, 2), 1: (2, 1), 2: (3,)}, "gone": {0: (3, 1)}, "fine": {}}
    )
    world = host.world
    host.give(AlterReassignments("move", {("t", 1): (2, 3)}))
    host.settle()
    world.unregister(3)
    host.give(world.see_brokers())
    host.give(DeletionsSeen(["gone"]))
    host.settle()

    shown = host.controller.cluster
    assert [*counts(shown)][-1] == Counts(
        active_brokers=2, topics=3, partitions=4, offline_partitions=1,
        preferred_replica_imbalance=1, topics_to_delete=1, topics_ineligible_to_delete=1,
        replicas_to_delete=2, replicas_ineligible_to_delete=1, reassigning=1,
    )  # fmt: skip
    assert [*waits(shown)] == [
        [Waits("reassignment", "t", 1, (3,)), Waits("leader", "t", 2, (3,))],
        [Waits("deletion", "gone", -1, (3,))],
    ]
