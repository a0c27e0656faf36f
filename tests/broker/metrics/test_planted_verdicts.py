"""Each fault that the tests plant in the verdict rules makes test_verdicts.py or
test_share_verdicts.py fail."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from broker.metrics import group_facts, verdicts
from broker.metrics.group_facts import GroupLooks
from broker.metrics.progress import Look, Progress, Unclaimed
from coordinator.events import Cause
from tests.broker.metrics import test_share_verdicts as share_stories
from tests.broker.metrics import test_verdicts as stories
from verdicts import judge, others, share_rules
from verdicts.facts import PartitionFacts

Patch = pytest.MonkeyPatch
Story = Callable[[Path], Awaitable[None]]


def a_commit_is_progress(patch: Patch) -> None:
    real = Look.at

    def at(self: Look, partition: int, offset: int, committed_ms: int, *ends: int) -> Any:
        place = real(self, partition, offset, committed_ms, *ends)
        self.after.stands[-1] = committed_ms
        return place._replace(stands_ms=min(place.stands_ms, committed_ms))

    patch.setattr(Look, "at", at)


def nothing_is_remembered(patch: Patch) -> None:
    patch.setattr(Progress, "keep", lambda *_: None)


def nothing_is_forgotten(patch: Patch) -> None:
    patch.setattr(Progress, "forget", lambda *_: None)


def what_stands_is_counted_from_the_last_move(patch: Patch) -> None:
    real = Look.at

    def at(self: Look, *values: int) -> Any:
        place = real(self, *values)
        return place._replace(stands_ms=place.moved_ms if place.stands_ms >= 0 else -1)

    patch.setattr(Look, "at", at)


def a_new_owner_has_no_time(patch: Patch) -> None:
    patch.setattr(GroupLooks, "_counts_from", lambda self, group, now: 0)


def a_pause_is_not_noted(patch: Patch) -> None:
    patch.setattr(GroupLooks, "_note_pause", lambda self, now: None)


def records_below_the_start_are_no_loss(patch: Patch) -> None:
    patch.setattr(PartitionFacts, "lost", 0)


def what_is_above_the_end_is_read(patch: Patch) -> None:
    patch.setattr(PartitionFacts, "above", 0)


def neighbours_are_not_looked_at(patch: Patch) -> None:
    patch.setattr(others, "_raise", lambda *_: None)


def any_neighbour_makes_a_stuck_record(patch: Patch) -> None:
    real = judge.Others.__init__

    def made(self: Any, *values: Any) -> None:
        real(self, *values)
        for _, topic in list(self.unread):
            self.read_to.update(((owner, topic), 1 << 60) for owner, _ in list(self.unread))

    patch.setattr(judge.Others, "__init__", made)


def joins_count_as_rebalances(patch: Patch) -> None:
    patch.setattr(group_facts, "FLAPPING_CAUSES", frozenset(Cause))
    patch.setattr(judge._Rules, "_recent", lambda self, at_ms: list(at_ms) * 8)


def returns_are_not_seen(patch: Patch) -> None:
    patch.setattr(GroupLooks, "_returns", lambda *_: [])


def returns_count_for_ever(patch: Patch) -> None:
    patch.setattr(judge._Rules, "_recent", lambda self, at_ms: list(at_ms))


def any_wait_is_a_block(patch: Patch) -> None:
    real = verdicts.judge

    def judged(facts: Any, thresholds: Any, now_ms: int) -> Any:
        return real(facts._replace(state_since_ms=0), thresholds, now_ms)

    patch.setattr(verdicts, "judge", judged)


def nobody_is_awaited(patch: Patch) -> None:
    patch.setattr(group_facts, "awaited_facts", lambda group, now: None)


def one_expired_lock_is_enough(patch: Patch) -> None:
    patch.setattr(share_rules, "LOCKS_EXPIRED_AT", 1)


def an_empty_group_is_abandoned_at_once(patch: Patch) -> None:
    patch.setattr(judge._Rules, "_abandoned_since", lambda self, behind: 1)


def clients_that_assign_to_themselves_are_nobody(patch: Patch) -> None:
    patch.setattr(judge._Rules, "_has_recent_non_member_commit", lambda self: False)
    patch.setattr(judge._Rules, "_abandoned_since", lambda self, behind: 1)


def a_timestamp_is_believed_whenever_the_record_came(patch: Patch) -> None:
    patch.setattr(
        group_facts, "unread_since", lambda marks, place, timestamp_ms, now_ms: timestamp_ms or 0
    )


def nothing_is_old(patch: Patch) -> None:
    patch.setattr(group_facts, "unread_since", lambda marks, place, timestamp_ms, now_ms: now_ms)


def what_nobody_subscribes_is_read(patch: Patch) -> None:
    patch.setattr(judge._Rules, "_concerns", lambda self, each: True)


def who_began_at_the_end_is_behind(patch: Patch) -> None:
    patch.setattr(judge._Rules, "_may_be_read", lambda self, each: True)


def what_has_no_commit_is_new_at_each_look(patch: Patch) -> None:
    def without_commit(self: Look, partition: int, owner: str, end: int) -> Unclaimed:
        kept = self.after.unclaimed[partition] = Unclaimed(owner, end, self.now_ms, -1)
        return kept

    patch.setattr(Look, "without_commit", without_commit)


def who_owned_what_is_forgotten(patch: Patch) -> None:
    patch.setattr(Progress, "unclaimed", lambda *_: [])


def every_look_is_the_first(patch: Patch) -> None:
    real = verdicts.Verdicts._hold

    def hold(self: Any, *values: Any) -> Any:
        self._held.clear()
        return real(self, *values)

    patch.setattr(verdicts.Verdicts, "_hold", hold)


def refused_joins_are_not_seen(patch: Patch) -> None:
    patch.setattr(GroupLooks, "refused", lambda *_: ())


PLANTS: list[tuple[Callable[[Patch], None], Story]] = [
    (a_commit_is_progress, stories.test_member_that_keeps_committing_the_same_offset_is_stalled),
    (
        nothing_is_remembered,
        stories.test_member_that_keeps_committing_the_same_offset_is_stalled,
    ),
    (nothing_is_forgotten, stories.test_progress_and_verdicts_of_deleted_groups_are_removed),
    (
        what_stands_is_counted_from_the_last_move,
        stories.test_verdict_ignores_the_time_in_which_a_group_had_no_unread_records,
    ),
    (
        a_new_owner_has_no_time,
        stories.test_group_is_not_stalled_while_members_rejoin_after_a_restart,
    ),
    (
        a_pause_is_not_noted,
        stories.test_pause_of_the_broker_does_not_count_as_stalled_time_of_a_group,
    ),
    (
        records_below_the_start_are_no_loss,
        stories.test_verdict_is_out_of_range_when_committed_offset_is_outside_the_log,
    ),
    (
        what_is_above_the_end_is_read,
        stories.test_verdict_is_out_of_range_when_committed_offset_is_outside_the_log,
    ),
    (
        neighbours_are_not_looked_at,
        stories.test_verdict_is_stuck_record_when_only_one_partition_makes_no_progress,
    ),
    (
        any_neighbour_makes_a_stuck_record,
        stories.test_stalled_verdict_names_the_hanging_member_but_not_the_active_member,
    ),
    (
        joins_count_as_rebalances,
        stories.test_verdict_of_a_growing_or_restarted_group_is_not_flapping,
    ),
    (
        refused_joins_are_not_seen,
        stories.test_group_has_verdict_refused_while_a_client_tries_to_join_with_another_assignor,
    ),
    (returns_are_not_seen, stories.test_verdict_is_flapping_when_a_client_rejoins_repeatedly),
    (returns_count_for_ever, stories.test_verdict_is_flapping_when_a_client_rejoins_repeatedly),
    (any_wait_is_a_block, stories.test_verdict_is_blocked_when_a_rebalance_waits_for_a_member),
    (nobody_is_awaited, stories.test_verdict_is_blocked_when_a_rebalance_waits_for_a_member),
    (
        an_empty_group_is_abandoned_at_once,
        stories.test_group_without_members_is_abandoned_after_a_minute,
    ),
    (
        clients_that_assign_to_themselves_are_nobody,
        stories.test_verdict_is_ok_while_consumers_that_use_assign_commit,
    ),
    (
        a_timestamp_is_believed_whenever_the_record_came,
        stories.test_new_records_with_old_timestamps_do_not_make_the_group_lagging,
    ),
    (nothing_is_old, stories.test_group_is_lagging_when_its_oldest_unread_record_is_old),
    (
        what_nobody_subscribes_is_read,
        stories.test_unsubscribed_topic_does_not_stall_the_group,
    ),
    (
        who_began_at_the_end_is_behind,
        stories.test_member_that_started_at_log_end_is_stalled_only_after_new_records,
    ),
    (
        what_has_no_commit_is_new_at_each_look,
        stories.test_verdict_is_flapping_then_stalled_when_a_static_member_keeps_restarting,
    ),
    (
        who_owned_what_is_forgotten,
        stories.test_group_without_commits_is_abandoned_when_its_last_member_is_removed,
    ),
    (
        every_look_is_the_first,
        stories.test_start_time_of_a_verdict_is_kept_while_the_verdict_is_unchanged,
    ),
    (
        one_expired_lock_is_enough,
        share_stories.test_verdict_names_a_member_whose_acquisition_locks_expire_repeatedly,
    ),
]


@pytest.mark.planted("stories of verdicts")
@pytest.mark.parametrize(("plant", "story"), PLANTS, ids=[plant.__name__ for plant, _ in PLANTS])
async def test_fault_planted_in_the_verdict_rules_makes_a_verdict_test_fail(
    tmp_path: Path, monkeypatch: Patch, plant: Callable[[Patch], None], story: Story
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        await story(tmp_path)
