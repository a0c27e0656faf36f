"""Faults planted into the judge, one at a time: a story of test_verdicts.py must end otherwise."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from broker.metrics import group_facts, verdicts
from broker.metrics.group_facts import GroupLooks
from broker.metrics.progress import Look, Progress, Unclaimed
from coordinator.events import Cause
from tests.broker.metrics import test_verdicts as stories
from verdicts import judge, others
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
    patch.setattr(group_facts, "_awaits", lambda group, now: None)


def an_empty_group_is_abandoned_at_once(patch: Patch) -> None:
    patch.setattr(judge._Rules, "_abandoned_since", lambda self, behind: 1)


def clients_that_assign_to_themselves_are_nobody(patch: Patch) -> None:
    patch.setattr(judge._Rules, "_somebody_commits", lambda self: False)
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
    (a_commit_is_progress, stories.test_a_stuck_member_that_goes_on_committing_the_same_offset),
    (nothing_is_remembered, stories.test_a_stuck_member_that_goes_on_committing_the_same_offset),
    (nothing_is_forgotten, stories.test_what_is_gone_is_forgotten),
    (
        what_stands_is_counted_from_the_last_move,
        stories.test_an_idle_group_is_ok_for_as_long_as_it_likes,
    ),
    (a_new_owner_has_no_time, stories.test_members_have_time_to_come_back_after_a_restart),
    (a_pause_is_not_noted, stories.test_a_pause_of_the_broker_stalls_nobody),
    (
        records_below_the_start_are_no_loss,
        stories.test_an_offset_above_the_end_and_one_below_the_start,
    ),
    (what_is_above_the_end_is_read, stories.test_an_offset_above_the_end_and_one_below_the_start),
    (neighbours_are_not_looked_at, stories.test_one_partition_stands_while_its_neighbours_move),
    (any_neighbour_makes_a_stuck_record, stories.test_of_two_members_one_hangs),
    (
        joins_count_as_rebalances,
        stories.test_a_group_that_grows_and_one_that_is_restarted_do_not_flap,
    ),
    (
        refused_joins_are_not_seen,
        stories.test_client_that_is_refused_until_its_settings_are_changed,
    ),
    (returns_are_not_seen, stories.test_a_client_that_keeps_coming_back),
    (returns_count_for_ever, stories.test_a_client_that_keeps_coming_back),
    (any_wait_is_a_block, stories.test_a_rebalance_that_waits_for_a_member),
    (nobody_is_awaited, stories.test_a_rebalance_that_waits_for_a_member),
    (an_empty_group_is_abandoned_at_once, stories.test_a_group_that_nobody_is_in_any_more),
    (
        clients_that_assign_to_themselves_are_nobody,
        stories.test_clients_that_assign_to_themselves_are_ok_while_they_read,
    ),
    (
        a_timestamp_is_believed_whenever_the_record_came,
        stories.test_old_records_that_have_just_come_make_nobody_late,
    ),
    (nothing_is_old, stories.test_a_group_whose_oldest_unread_record_is_old),
    (
        what_nobody_subscribes_is_read,
        stories.test_a_topic_that_is_not_subscribed_any_more_stalls_nobody,
    ),
    (who_began_at_the_end_is_behind, stories.test_a_member_that_began_at_the_end),
    (
        what_has_no_commit_is_new_at_each_look,
        stories.test_static_member_that_restarts_within_its_session_flaps_and_stalls,
    ),
    (
        who_owned_what_is_forgotten,
        stories.test_group_is_abandoned_when_its_last_member_is_removed_before_its_first_commit,
    ),
    (every_look_is_the_first, stories.test_a_verdict_holds_since_its_first_look),
]


@pytest.mark.planted("stories of verdicts")
@pytest.mark.parametrize(("plant", "story"), PLANTS, ids=[plant.__name__ for plant, _ in PLANTS])
async def test_a_planted_fault_is_found(
    tmp_path: Path, monkeypatch: Patch, plant: Callable[[Patch], None], story: Story
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        await story(tmp_path)
