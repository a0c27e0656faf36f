"""The random histories must find each fault that a test plants into the core of the controller.
Each test replaces a part of the core, and runs histories until an invariant fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import controller.brokers
import controller.controller
import controller.deletions
import controller.elections
import controller.isr_changes
import controller.reassignments
import controller.settling
import controller.topics
import controller.work
from controller.batch import Batch
from controller.cluster import Cluster
from controller.facts import Result
from controller.partition import Partition, Topic
from controller.work import Work
from protocol import errors
from tests.controller.simulation import Simulation

MOST_SEEDS = 400
STEPS = 300

Plant = Callable[[pytest.MonkeyPatch], None]


def nothing(*_: Any, **__: Any) -> None:
    return None


def the_leader_epoch_is_not_raised(patch: pytest.MonkeyPatch) -> None:
    right = controller.elections._change

    def wrong(cluster: Cluster, partition: Partition, *rest: Any) -> Any:
        change = right(cluster, partition, *rest)
        epoch = change.state.leader_epoch - 1
        return controller.elections.Change(
            change.state._replace(leader_epoch=epoch), change.cause, change.lost,
            finishes=change.finishes,
        )  # fmt: skip

    patch.setattr(controller.elections, "_change", wrong)


def who_lives_may_lead(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Cluster, "allows_unclean", lambda *_: True)


def a_dead_leader_is_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Cluster, "is_there", lambda *_: True)


def who_came_back_unseen_is_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Cluster, "lost_since", lambda *_: ())


def followers_hear_of_a_leader_before_they_know_its_broker(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Batch, "greet", nothing)


def a_fenced_controller_goes_on(patch: pytest.MonkeyPatch) -> None:
    def wrong(self: Work, result: Any) -> None:
        landed = self._landed.pop(result.ticket, None)
        if landed is not None:
            landed(result)

    patch.setattr(Work, "land", wrong)


def a_lost_write_is_taken_for_done(patch: pytest.MonkeyPatch) -> None:
    right = controller.settling._landed

    def wrong(work: Work, partition: Partition, change: Any, result: Any) -> None:
        if result.result in (Result.BAD_VERSION, Result.FAILED):
            result = result._replace(result=Result.OK, version=0)
        right(work, partition, change, result)

    patch.setattr(controller.settling, "_landed", wrong)


def what_failed_is_not_tried_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Work, "retry", nothing)


def a_deletion_does_not_wait_for_a_dead_replica(patch: pytest.MonkeyPatch) -> None:
    def wrong(work: Work, partition: Partition, broker_id: int) -> None:
        right(work, partition, broker_id)
        if broker_id not in work.cluster.brokers:
            partition.topic.replicas_left -= 1

    right = controller.deletions._delete_replica
    patch.setattr(controller.deletions, "_delete_replica", wrong)
    patch.setattr(Cluster, "missing", lambda *_: set())


def a_deletion_does_not_wait_for_answers(patch: pytest.MonkeyPatch) -> None:
    def wrong(work: Work, partition: Partition, broker_id: int) -> None:
        right(work, partition, broker_id)
        partition.topic.replicas_left -= 1

    right = controller.deletions._delete_replica
    patch.setattr(controller.deletions, "_delete_replica", wrong)


def a_deletion_is_not_gone_on_with(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(controller.deletions, "broker_back", nothing)


def a_new_broker_is_told_of_no_replica(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(controller.brokers, "owe", nothing)


def a_new_broker_is_shown_no_partitions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Batch, "show_to", nothing)


def a_rewrite_drops_the_topics_id(patch: pytest.MonkeyPatch) -> None:
    right = controller.topic_nodes.RewriteTopic

    def wrong(ticket: int, name: str, topic_id: Any, *rest: Any) -> Any:
        return right(ticket, name, None, *rest)

    patch.setattr(controller.topic_nodes, "RewriteTopic", wrong)


def brokers_hear_of_a_topic_before_its_id_is_written(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Topic, "waits_for_id", False)


def a_reassignment_is_not_written_at_its_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(controller.reassignments, "_finished", nothing)


def an_isr_change_of_an_older_leader_is_taken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(controller.isr_changes, "_error", lambda *_: errors.NONE)


def two_writes_of_a_partition_are_in_flight(patch: pytest.MonkeyPatch) -> None:
    right = controller.settling.settle

    def wrong(work: Work, partition: Partition) -> None:
        partition.flight = None
        right(work, partition)

    patch.setattr(controller.controller, "settle", wrong)


def a_ticket_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(controller.isr_changes, "granted", nothing)


def a_stopped_brokers_ticket_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(controller.settling.shutdowns, "settled", nothing)


def who_resigns_answers_nobody(patch: pytest.MonkeyPatch) -> None:
    right = Work.resign

    def wrong(self: Work, reason: str) -> None:
        self._parked.clear()
        right(self, reason)

    patch.setattr(Work, "resign", wrong)


def notices_are_left(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Work, "delete_nodes", nothing)


def blocks_of_producer_ids_overlap(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(controller.producer_ids, "BLOCK", 0)


PLANTS = [
    the_leader_epoch_is_not_raised,
    who_lives_may_lead,
    a_dead_leader_is_kept,
    who_came_back_unseen_is_kept,
    followers_hear_of_a_leader_before_they_know_its_broker,
    a_fenced_controller_goes_on,
    a_lost_write_is_taken_for_done,
    what_failed_is_not_tried_again,
    a_deletion_does_not_wait_for_a_dead_replica,
    a_deletion_does_not_wait_for_answers,
    a_deletion_is_not_gone_on_with,
    a_new_broker_is_told_of_no_replica,
    a_new_broker_is_shown_no_partitions,
    a_rewrite_drops_the_topics_id,
    brokers_hear_of_a_topic_before_its_id_is_written,
    a_reassignment_is_not_written_at_its_end,
    an_isr_change_of_an_older_leader_is_taken,
    two_writes_of_a_partition_are_in_flight,
    a_ticket_is_forgotten,
    a_stopped_brokers_ticket_is_forgotten,
    who_resigns_answers_nobody,
    notices_are_left,
    blocks_of_producer_ids_overlap,
]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
@pytest.mark.planted("simulated controller")
def test_random_histories_of_the_controller_detect_each_planted_fault(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in range(MOST_SEEDS):
        simulation = Simulation(seed)
        try:
            simulation.run(STEPS)
        except Exception:  # noqa: BLE001 - a failed check, or an exception that it causes
            return
    pytest.fail(f"{MOST_SEEDS} histories did not find that {plant.__name__}")
