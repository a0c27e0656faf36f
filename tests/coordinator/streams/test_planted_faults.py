"""Random histories of streams groups detect each fault that a test plants into the coordinator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coordinator.streams import advance, reconcile
from coordinator.streams.changes import StreamsChanges
from coordinator.streams.group import StreamsGroup
from offsets.streams_records import TaskRoles
from tests.coordinator.streams.lives import live

LIVES = 12

Plant = Callable[[pytest.MonkeyPatch], None]


def tasks_are_given_before_others_release_them(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StreamsGroup, "processes", lambda self, role, task: ())


def revoked_tasks_are_forgotten_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reconcile, "_owns_any", lambda owned, tasks: False)


def request_that_lists_no_tasks_confirms_the_revocation(patch: pytest.MonkeyPatch) -> None:
    def step(current: Any, towards: Any, owned: TaskRoles | None) -> Any:
        return real(current, towards, owned or TaskRoles())

    real = reconcile.reconcile
    patch.setattr(advance, "reconcile", step)


def waiting_member_counts_as_stable(patch: pytest.MonkeyPatch) -> None:
    def difference(*args: Any) -> Any:
        return real(*args)._replace(waits=False)

    real = reconcile._difference
    patch.setattr(reconcile, "_difference", difference)


def member_that_must_revoke_has_no_deadline(patch: pytest.MonkeyPatch) -> None:
    def reconciled(step: Any, changes: Any, member: Any, *rest: Any) -> None:
        real(step, changes, member, *rest)
        member.rebalance.disarm()

    real = advance._reconciled
    patch.setattr(advance, "_reconciled", reconciled)


def member_is_not_recorded(patch: pytest.MonkeyPatch) -> None:
    def set_metadata(self: StreamsChanges, member_id: str, metadata: Any) -> None:
        real(self, member_id, metadata)
        self.records.pop()

    real = StreamsChanges.set_metadata
    patch.setattr(StreamsChanges, "set_metadata", set_metadata)


def changed_topic_begins_no_rebalance(patch: pytest.MonkeyPatch) -> None:
    def configured(step: Any, group: StreamsGroup, topology: Any) -> Any:
        return real(step, group, topology)[0], group.epoch.metadata_hash

    real = advance._configured
    patch.setattr(advance, "_configured", configured)


@pytest.mark.planted("lives of streams groups")
@pytest.mark.parametrize(
    "plant",
    [
        tasks_are_given_before_others_release_them,
        revoked_tasks_are_forgotten_at_once,
        request_that_lists_no_tasks_confirms_the_revocation,
        waiting_member_counts_as_stable,
        member_that_must_revoke_has_no_deadline,
        member_is_not_recorded,
        changed_topic_begins_no_rebalance,
    ],
    ids=lambda plant: plant.__name__,
)
def test_random_histories_of_streams_groups_detect_each_planted_fault(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in range(LIVES):
        try:
            live(seed)
        except (AssertionError, KeyError):
            return
    pytest.fail(f"{LIVES} lives found nothing wrong")
