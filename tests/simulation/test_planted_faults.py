"""Tests of the checkers: each fault that is planted into the core must be detected by the
simulation.

A plant is a function that replaces correct code by faulty code. `monkeypatch` restores the code
when the test ends. Simulations of 600 steps then run until a checker raises AssertionError.
If none of twenty simulations detects the fault, the test fails.

Faults of durability are planted into the simulated disk (disk_plants.py), and all others into the
core. Each plant is listed under the invariant that it breaks. docs/internals/simulations.md names
the checker of each invariant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import coordinator.classic.joining
import coordinator.classic.membership
import coordinator.classic.rebalance
import coordinator.classic.static_members
import coordinator.classic.sweeps
import coordinator.commits
import coordinator.retention
import coordinator.shard
import coordinator.step
import offsets.cache
from coordinator.classic.group import Group
from coordinator.classic.states import State
from coordinator.outcome import JoinReply, SyncReply
from coordinator.step import Step
from offsets.cache import OffsetCache
from offsets.columns import TopicColumns
from offsets.expiry import ExpiryRule
from offsets.pending import PendingOffsets
from offsets.runs import MarkerRun, OffsetRun
from protocol.errors import REBALANCE_IN_PROGRESS
from tests.simulation.disk_plants import (
    a_cleaned_batch_is_read_as_a_whole_one,
    a_flush_is_not_waited_for,
    a_snapshot_ahead_of_the_log_is_believed,
    a_snapshot_leaves_a_group_out,
    a_snapshot_leaves_out_what_is_pending,
    a_start_cuts_off_a_whole_batch,
    replies_leave_before_the_append,
    the_cleaner_takes_tombstones_that_a_snapshot_needs,
    the_log_is_cleaned_before_it_is_flushed,
)
from tests.simulation.whole.runs import PLAYED_S_MAX
from tests.simulation.world import World
from tests.tiers import sampled

MOST_SEEDS = 20
STEPS = 600

Plant = Callable[[pytest.MonkeyPatch], None]


def nothing(*_: Any, **__: Any) -> None:
    return None


def metadata_is_not_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TopicColumns, "_store_metadata", nothing)


def tombstones_are_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OffsetCache, "_remove", nothing)


def a_log_offset_is_off_by_one(patch: pytest.MonkeyPatch) -> None:
    real = OffsetCache.replay

    def replay(self: OffsetCache, run: Any, base_offset: int) -> None:
        real(self, run, base_offset + isinstance(run, OffsetRun))

    patch.setattr(OffsetCache, "replay", replay)


def the_last_partition_of_a_commit_is_lost(patch: pytest.MonkeyPatch) -> None:
    real = coordinator.commits.commit

    def commit(state: Any, call: Any, now: Any) -> Any:
        topics = [
            topic._replace(
                partitions=topic.partitions[:-1],
                offsets=topic.offsets[:-1],
                leader_epochs=topic.leader_epochs[:-1],
            )
            for topic in call.topics
            if topic.metadata is None and topic.commit_timestamps_ms is None
        ]
        return real(state, replace(call, topics=topics), now)

    patch.setitem(coordinator.shard._HANDLERS, coordinator.shard.OffsetCommit, commit)


def commits_of_old_generations_are_taken(patch: pytest.MonkeyPatch) -> None:
    real = coordinator.commits._check

    def check(state: Any, group: Any, call: Any, now: Any) -> int:
        if group is not None and call.generation_id >= 0:
            call = replace(call, generation_id=group.generation_id)
        return real(state, group, call, now)

    patch.setattr(coordinator.commits, "_check", check)


def a_fenced_instance_goes_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        Group, "check_member", lambda self, member_id, _: 0 if member_id in self.members else 25
    )


def a_refused_commit_keeps_its_session(patch: pytest.MonkeyPatch) -> None:
    real = coordinator.commits._check

    def check(state: Any, group: Any, call: Any, now: Any) -> int:
        member = None if group is None else group.members.get(call.member_id)
        if member is not None and not member.waits:
            member.session.due_ms = now.mono_ms + member.session_timeout_ms
        return real(state, group, call, now)

    patch.setattr(coordinator.commits, "_check", check)


def sessions_are_twice_as_long(patch: pytest.MonkeyPatch) -> None:
    real = Step.arm

    def arm(self: Step, timer: Any, after_ms: int) -> None:
        real(self, timer, 2 * after_ms if timer.member_id else after_ms)

    patch.setattr(Step, "arm", arm)


def commits_are_taken_while_completing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(coordinator.commits, "REBALANCE_IN_PROGRESS", 0)


def a_displaced_join_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    real = Step.park_join

    def park_join(self: Step, group: Any, member: Any, ticket: Any) -> None:
        if member.join_ticket is not None:
            self.void(group, member)
        real(self, group, member, ticket)

    patch.setattr(Step, "park_join", park_join)


def a_rebalance_leaves_somebody_waiting(patch: pytest.MonkeyPatch) -> None:
    real = Step.answer_sync

    def answer_sync(self: Step, group: Any, member: Any, reply: SyncReply) -> bool:
        if reply.error_code == REBALANCE_IN_PROGRESS and member.sync_ticket is not None:
            self.void(group, member)
            return True
        return real(self, group, member, reply)

    patch.setattr(Step, "answer_sync", answer_sync)


def a_join_is_answered_twice(patch: pytest.MonkeyPatch) -> None:
    real = Step.answer_join

    def answer_join(self: Step, group: Any, member: Any, reply: JoinReply) -> None:
        if member.join_ticket is not None:
            self.replies.append((member.join_ticket, reply))
        real(self, group, member, reply)

    patch.setattr(Step, "answer_join", answer_join)


def the_join_phase_has_no_deadline(patch: pytest.MonkeyPatch) -> None:
    def begin(step: Any, group: Any, hold_ms: int) -> None:
        group.pending_syncs.clear()
        group.initial_delay = group.holding = False

    patch.setattr(coordinator.classic.rebalance, "_begin_join_phase", begin)


def the_end_of_a_join_phase_is_not_noticed(patch: pytest.MonkeyPatch) -> None:
    for module in (
        coordinator.classic.joining,
        coordinator.classic.membership,
        coordinator.classic.rebalance,
        coordinator.classic.static_members,
    ):
        patch.setattr(module, "complete_if_joined", nothing)


def sessions_are_not_armed(patch: pytest.MonkeyPatch) -> None:
    real = Step.arm

    def arm(self: Step, timer: Any, after_ms: int) -> None:
        if not timer.member_id:
            real(self, timer, after_ms)

    patch.setattr(Step, "arm", arm)


def support_is_not_counted_down(patch: pytest.MonkeyPatch) -> None:
    real = Group._count_protocols

    def count(self: Group, protocols: Any, step: int) -> None:
        if step > 0 or len(self.members) < 2:
            real(self, protocols, step)

    patch.setattr(Group, "_count_protocols", count)


def the_record_forgets(field: str, value: Any) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        real = Group.run

        def run(self: Group, *args: Any) -> Any:
            made = real(self, *args)
            assert made.value is not None
            setattr(made.value, field, value)
            return made

        patch.setattr(Group, "run", run)

    plant.__name__ = f"the_record_forgets_the_{field}"
    return plant


def a_deleted_group_keeps_its_record(patch: pytest.MonkeyPatch) -> None:
    real = coordinator.classic.sweeps.forget

    def forget(step: Step, *args: Any) -> None:
        written = len(step.records)
        real(step, *args)
        del step.records[written:]

    for caller in (coordinator.classic.sweeps, coordinator.retention):
        patch.setattr(caller, "forget", forget)


def an_assignment_changes_when_asked_again(patch: pytest.MonkeyPatch) -> None:
    asked = []

    def reply(error_code: int, *rest: Any) -> SyncReply:
        asked.append(rest)
        return SyncReply(error_code, *rest[:2], *(b"%d" % len(asked) for _ in rest[2:]))

    patch.setattr(coordinator.classic.membership, "SyncReply", reply)


def followers_are_told_another_leader(patch: pytest.MonkeyPatch) -> None:
    real = coordinator.classic.rebalance.join_reply

    def join_reply(group: Any, member_id: str) -> JoinReply:
        reply = real(group, member_id)
        if not reply.members:
            reply.leader = member_id
        return reply

    patch.setattr(coordinator.classic.rebalance, "join_reply", join_reply)


def offsets_expire_in_groups_with_members(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(coordinator.retention, "rule_for", lambda _: ExpiryRule(0, ()))


def offsets_expire_in_half_their_time(patch: pytest.MonkeyPatch) -> None:
    real = offsets.cache.expires_at

    def expires_at(rule: Any, commit_ms: int, expire_ms: int, *, retention_ms: int) -> int:
        return real(rule, commit_ms, expire_ms, retention_ms=retention_ms // 2)

    patch.setattr(offsets.cache, "expires_at", expires_at)


def generations_stand_still(patch: pytest.MonkeyPatch) -> None:
    real = Group.next_generation

    def next_generation(self: Group) -> None:
        real(self)
        self.generation_id = 1

    patch.setattr(Group, "next_generation", next_generation)


def a_generation_is_stored_twice(patch: pytest.MonkeyPatch) -> None:
    """Plants a fault: if the leader repeats SyncGroup before all members have synced, the group
    gets other assignments in the same generation."""
    real = coordinator.classic.membership._assign

    def assign(step: Step, group: Group, call: Any) -> None:
        real(step, group, call)
        for member in group.members.values():
            member.assignment = b"another"
        if group.state is State.STABLE:
            step.records.append(group.run())

    patch.setattr(coordinator.classic.membership, "_assign", assign)


def the_leaders_bytes_are_changed(patch: pytest.MonkeyPatch) -> None:
    def reply(error_code: int, *rest: Any) -> SyncReply:
        return SyncReply(error_code, *rest[:2], *(each[::-1] for each in rest[2:]))

    patch.setattr(coordinator.classic.membership, "SyncReply", reply)


def a_member_that_left_still_leads(patch: pytest.MonkeyPatch) -> None:
    real = Group.remove

    def remove(self: Group, member: Any) -> None:
        leader_id = self.leader_id
        real(self, member)
        self.leader_id = leader_id

    patch.setattr(Group, "remove", remove)


def an_aborted_transaction_is_committed(patch: pytest.MonkeyPatch) -> None:
    real = OffsetCache._end

    def end(self: OffsetCache, marker: MarkerRun) -> None:
        real(self, replace(marker, committed=True))

    patch.setattr(OffsetCache, "_end", end)


def a_marker_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PendingOffsets, "end", lambda *_: ())


def the_end_of_a_transaction_decides_which_offset_is_younger(patch: pytest.MonkeyPatch) -> None:
    def take_newer(self: TopicColumns, other: TopicColumns) -> int:
        before = self.count
        for partition in other.partitions():
            entry = other.get(partition)
            assert entry is not None
            offset, epoch, text, commit_ms, expire_ms, at = entry
            texts = [text] if text else None
            one = OffsetRun("", "", [partition], [offset], [epoch], texts, commit_ms, expire_ms)
            self.store(one, at)
        return self.count - before

    patch.setattr(TopicColumns, "take_newer", take_newer)


def a_deletion_leaves_what_is_pending(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PendingOffsets, "remove", nothing)


def a_pending_offset_is_read_as_stable(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OffsetCache, "stable_only", lambda self, group_id, fetched: fetched)


def offsets_expire_in_transactions(patch: pytest.MonkeyPatch) -> None:
    def due(self: OffsetCache, *args: Any) -> Any:
        pending, self.pending = self.pending, PendingOffsets()
        try:
            return list(real(self, *args))
        finally:
            self.pending = pending

    real = OffsetCache.due
    patch.setattr(OffsetCache, "due", due)


FAULTS: dict[str, list[Plant]] = {
    "1 acknowledged commits are there after a crash": [
        the_last_partition_of_a_commit_is_lost,
        replies_leave_before_the_append,
        a_flush_is_not_waited_for,
        the_log_is_cleaned_before_it_is_flushed,
        a_start_cuts_off_a_whole_batch,
    ],
    "2 fencing": [
        commits_of_old_generations_are_taken,
        a_fenced_instance_goes_on,
        commits_are_taken_while_completing,
    ],
    "3 one protocol, leader and assignment in a generation": [
        an_assignment_changes_when_asked_again,
        followers_are_told_another_leader,
        the_leaders_bytes_are_changed,
    ],
    "4 generations ascend, and each is stored once": [
        generations_stand_still,
        a_generation_is_stored_twice,
    ],
    "5 progress, and one answer for each request": [
        a_displaced_join_is_forgotten,
        a_rebalance_leaves_somebody_waiting,
        a_join_is_answered_twice,
        the_join_phase_has_no_deadline,
        the_end_of_a_join_phase_is_not_noticed,
    ],
    "6 counters and timers are what recounting gives": [
        sessions_are_not_armed,
        sessions_are_twice_as_long,
        a_refused_commit_keeps_its_session,
        support_is_not_counted_down,
        a_member_that_left_still_leads,
    ],
    "7 what is loaded is what was live, cleaned or not, with or without a snapshot": [
        metadata_is_not_kept,
        tombstones_are_ignored,
        a_log_offset_is_off_by_one,
        the_record_forgets("state_timestamp_ms", -1),
        the_record_forgets("leader", None),
        the_record_forgets("generation_id", 1),
        the_record_forgets("members", []),
        a_deleted_group_keeps_its_record,
        a_cleaned_batch_is_read_as_a_whole_one,
        a_snapshot_leaves_a_group_out,
        a_snapshot_leaves_out_what_is_pending,
        a_snapshot_ahead_of_the_log_is_believed,
        the_cleaner_takes_tombstones_that_a_snapshot_needs,
    ],
    "9 expiry": [
        offsets_expire_in_transactions,
        offsets_expire_in_groups_with_members,
        offsets_expire_in_half_their_time,
    ],
    "10 the last commit counts, transactional or plain": [
        an_aborted_transaction_is_committed,
        a_marker_is_forgotten,
        the_end_of_a_transaction_decides_which_offset_is_younger,
        a_deletion_leaves_what_is_pending,
        a_pending_offset_is_read_as_stable,
    ],
}


PLANTS = [plant for plants in FAULTS.values() for plant in plants]
FOUND_SOON = set(PLANTS) - {
    a_snapshot_ahead_of_the_log_is_believed,
    replies_leave_before_the_append,
    offsets_expire_in_half_their_time,
    the_log_is_cleaned_before_it_is_flushed,
    the_cleaner_takes_tombstones_that_a_snapshot_needs,
    a_flush_is_not_waited_for,
}
"""Planted faults that are detected in less than a second. The other planted faults are tested only
by `make campaign`."""


@pytest.mark.planted("simulated shard")
@pytest.mark.parametrize("plant", sampled(PLANTS, FOUND_SOON), ids=lambda plant: plant.__name__)
@pytest.mark.timeout(PLAYED_S_MAX)
def test_simulation_detects_each_fault_planted_into_the_group_core_or_the_disk(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in range(MOST_SEEDS):
        try:
            world = World(seed)
            for _ in range(STEPS):
                world.step()
            world.calm()
        except AssertionError:
            return
    pytest.fail(f"{MOST_SEEDS} worlds of {STEPS} steps found nothing wrong")
