"""The target of a large streams group is computed in short pieces, with the same result as in one
piece."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from coordinator.calls import DeleteGroup
from coordinator.config import StreamsSettings
from coordinator.consumer.events import EpochBumped, EpochCause, TargetComputed
from coordinator.journal import Journal
from coordinator.outcome import Outcome
from coordinator.streams import computed_target, target
from coordinator.streams.states import StreamsGroupState
from coordinator.streams.target import PIECE_COST
from offsets.record_codec import run_records
from offsets.runs import OwnBatch, Run
from offsets.streams_records import (
    StreamsGroupRun,
    StreamsTargetEpochRecord,
    StreamsTargetRecord,
    Subtopology,
    TaskRoles,
    Topology,
)
from protocol.errors import GROUP_MAX_SIZE_REACHED, NOT_COORDINATOR
from protocol.now import Now
from tests.coordinator.streams.groups import GROUP, STATEFUL, STORE, SUB, TOPOLOGY, StreamsGroups
from tests.coordinator.streams.lives import live
from tests.instructions import instructions

COMPUTING = "Assignment delayed until the target assignment of the large group is computed."


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> StreamsGroups:
    """Returns streams groups in a shard that treats each group with a member as large. The
    computation of the target of such a group is split into steps of one member each."""
    monkeypatch.setattr(target, "AT_ONCE", 1)
    monkeypatch.setattr(computed_target, "_TASKS_PER_STEP", 1)
    return StreamsGroups()


def piece(groups: StreamsGroups) -> Outcome:
    """Executes one step of the shard's deferred work."""
    return groups.take(groups.shard.expire(groups.now, 1))


def pieces(groups: StreamsGroups) -> int:
    """Executes all remaining steps of the shard's sweep. Returns the number of these steps."""
    done = 0
    while groups.shard.is_sweeping:
        piece(groups)
        done += 1
    return done


def test_members_keep_their_tasks_until_the_target_of_a_large_group_is_computed(
    groups: StreamsGroups,
) -> None:
    assert groups.join("a").status == ((5, COMPUTING),)
    pieces(groups)
    assert groups.send("a", 1).assignment == TaskRoles({SUB: (0, 1)})
    reply = groups.join("b")
    assert (reply.status, reply.member_epoch, reply.assignment) == (
        ((5, COMPUTING),),
        2,
        TaskRoles(),
    )
    assert groups.kinds() == "19 17 22"
    reply = groups.send("a", 2)
    assert (reply.status, reply.member_epoch) == (((5, COMPUTING),), 2)
    assert groups.group.state() is StreamsGroupState.ASSIGNING
    assert groups.shard.next_deadline() == 0
    assert pieces(groups) > 3
    assert groups.kinds() == "21 21 20"
    [computed] = groups.events
    assert isinstance(computed, TargetComputed)
    assert (computed.epoch, computed.members, computed.changed) == (3, 2, 2)
    assert computed.moved == "0_1 from a to b"
    assert groups.group.state() is StreamsGroupState.RECONCILING
    assert groups.owning("a", 2, active={SUB: (0,)}).member_epoch == 3
    assert groups.send("b", 2).assignment == TaskRoles({SUB: (1,)})
    groups.check_loaded()


@pytest.mark.parametrize("seed", range(4))
def test_random_streams_group_is_consistent_when_targets_are_computed_in_slices(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, "AT_ONCE", 1)
    live(seed)


def test_target_assignment_has_the_same_records_when_it_is_computed_in_slices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def written(at_once: int) -> list[object]:
        monkeypatch.setattr(target, "AT_ONCE", at_once)
        groups = StreamsGroups(standby=1, delay_ms=3_000)
        groups.topics(t=40)
        groups.topic(STORE.name, 40)
        for number in range(7):
            groups.join(f"m{number}", topology=STATEFUL, process_id=f"p{number % 3}")
        groups.pass_ms(3_000)
        for _ in range(3):
            groups.settle()
            groups.pass_ms(0)
        groups.send("m3", -1)
        groups.settle()
        groups.pass_ms(0)
        return list(targets_in(groups.log))

    in_sweeps = written(1)
    assert len(in_sweeps) > 10
    assert in_sweeps == written(100_000)


def targets_in(
    log: list[Run | OwnBatch],
) -> Iterator[StreamsTargetRecord | StreamsTargetEpochRecord]:
    for run in log:
        for record in run.records if isinstance(run, StreamsGroupRun) else ():
            if isinstance(record, StreamsTargetRecord | StreamsTargetEpochRecord):
                yield record


def test_target_computation_begins_again_when_a_member_joins(groups: StreamsGroups) -> None:
    groups.join("a")
    piece(groups)
    groups.join("b")
    pieces(groups)
    assert groups.group.target_epoch.epoch == groups.group.epoch.epoch == 3
    assert sorted(groups.group.targets.values(), key=str) == [
        TaskRoles({SUB: (0,)}),
        TaskRoles({SUB: (1,)}),
    ]


def test_target_assignment_of_a_constantly_changing_group_omits_removed_members(
    groups: StreamsGroups,
) -> None:
    groups.topics(t=6)
    groups.join("a")
    groups.join("gone")
    groups.join("back")
    for number in range(3):
        piece(groups)
        groups.join("a", process_id=f"new-{number}")
    piece(groups)
    groups.send("gone", -1)
    groups.send("back", -1)
    groups.join("back")
    changed = 0
    while groups.shard.is_sweeping:
        piece(groups)
        if groups.shard.is_sweeping:
            groups.join("a", process_id=f"newest-{changed}")
        changed += 1
    group = groups.group
    assert changed > 3
    assert 1 < group.target_epoch.epoch < group.epoch.epoch
    assert group.targets == {"a": TaskRoles({SUB: (0, 3)})}
    assert groups.kinds() == "21 20"
    groups.check_loaded()
    groups.settle()
    pieces(groups)
    assert group.target_epoch.epoch == group.epoch.epoch


@pytest.mark.parametrize("done", range(20))
def test_member_may_leave_between_any_two_slices_of_a_target_computation(
    groups: StreamsGroups, done: int
) -> None:
    members = ("a", "b", "c", "d")
    for name in members:
        groups.join(name)
        pieces(groups)
    for number in range(2):  # the last computation does not begin again
        groups.join("a", process_id=f"new-{number}")
        piece(groups)
    groups.join("a", process_id="newest")
    for _ in range(done):
        piece(groups)
    groups.send("b", -1)
    pieces(groups)
    groups.check_loaded()
    groups.settle()
    pieces(groups)
    assert sorted(groups.group.targets) == ["a", "c", "d"]
    assert groups.group.target_epoch.epoch == groups.group.epoch.epoch


def test_shard_writes_the_records_of_a_target_in_a_separate_step_after_the_computation(
    groups: StreamsGroups,
) -> None:
    groups.join("a")
    assert not groups.take(groups.shard.expire(groups.now, 1_000_000)).records
    assert groups.take(groups.shard.expire(groups.now, 1)).records


def test_target_computation_ends_when_its_group_has_no_members(groups: StreamsGroups) -> None:
    groups.join("a")
    piece(groups)
    groups.send("a", -1)
    assert not piece(groups).records
    assert not groups.shard.is_sweeping


def test_target_computation_ends_when_its_group_is_deleted_and_created_again(
    groups: StreamsGroups,
) -> None:
    groups.join("a")
    piece(groups)
    groups.send("a", -1)
    groups.take(groups.shard.handle(DeleteGroup("ticket", GROUP), groups.now))
    groups.join("a")
    pieces(groups)
    assert groups.group.target_epoch.epoch == 2


def test_target_computation_ends_when_its_shard_is_unloaded(groups: StreamsGroups) -> None:
    groups.join("a")
    piece(groups)
    assert groups.shard.unload(NOT_COORDINATOR) == Outcome([], [], [])
    assert not groups.shard.is_sweeping


def test_target_computation_in_slices_does_not_replace_a_target_that_a_heartbeat_computed(
    groups: StreamsGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups.join("a")
    piece(groups)
    monkeypatch.setattr(target, "AT_ONCE", 100)
    groups.send("a", 1)
    assert groups.kinds() == "21 20 22"
    assert not piece(groups).records
    assert not groups.shard.is_sweeping


def test_target_computation_with_an_older_epoch_does_not_replace_a_newer_target(
    groups: StreamsGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups.join("a")
    for number in range(3):
        piece(groups)
        groups.send("a", 1, process_id=f"new-{number}")
    monkeypatch.setattr(target, "AT_ONCE", 100)
    groups.send("a", 1)
    assert groups.kinds() == "21 20 22"
    monkeypatch.setattr(target, "AT_ONCE", 1)
    groups.join("b")
    assert not piece(groups).records
    assert not groups.shard.is_sweeping


def test_target_computation_waits_for_a_new_initial_delay(groups: StreamsGroups) -> None:
    groups.join("a")
    piece(groups)
    groups.shard.configure(
        replace(groups.config, streams=StreamsSettings(initial_rebalance_delay_ms=3_000))
    )
    groups.send("a", -1)
    groups.join("b")
    assert not piece(groups).records
    assert not groups.shard.is_sweeping
    groups.pass_ms(3_000)
    assert groups.group.targets == {"b": TaskRoles({SUB: (0, 1)})}


def test_target_assignment_does_not_wait_for_the_end_of_the_expired_offsets_check(
    groups: StreamsGroups,
) -> None:
    groups.now_ms += groups.config.offsets_retention_check_interval_ms
    groups.shard.expire(groups.now, 1)
    assert groups.shard.is_sweeping
    groups.join("a")
    while not piece(groups).records:
        pass
    assert groups.shard.is_sweeping


def test_each_slice_that_computes_a_large_target_assignment_is_short() -> None:
    groups = StreamsGroups(standby=1, delay_ms=3_000)
    groups.topics(t=2_000)
    groups.topic(STORE.name, 2_000)
    for number in range(200):
        groups.join(f"m{number}", topology=STATEFUL)
    groups.now_ms += 3_000
    works = [instructions(lambda: groups.take(groups.shard.expire(groups.now, 1)))]
    while groups.shard.is_sweeping:
        works.append(instructions(lambda: groups.take(groups.shard.expire(groups.now, PIECE_COST))))
    assert groups.group.target_epoch.epoch == groups.group.epoch.epoch
    assert max(works) < 0.2 * sum(works)


def test_member_whose_join_could_make_the_target_assignment_too_large_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(target, "AT_ONCE", 1)
    groups = StreamsGroups(max_record_bytes=600)
    groups.topics(t=80)
    groups.join("a")
    pieces(groups)
    groups.settle()
    reply = groups.join("b")
    assert reply.error_code == GROUP_MAX_SIZE_REACHED
    assert "target assignment does not fit into a batch" in str(reply.error_message)
    assert list(groups.group.members) == ["a"]
    assert not groups.shard.is_sweeping


def test_target_assignment_that_is_larger_than_a_batch_is_not_written(
    groups: StreamsGroups,
) -> None:
    groups.topics(t=80)
    groups.join("a")
    groups.shard.configure(replace(groups.config, max_record_bytes=300))
    pieces(groups)
    assert groups.group.target_epoch.epoch == 1
    assert groups.send("a", 1).error_code == GROUP_MAX_SIZE_REACHED


@pytest.mark.parametrize("replicas", [0, 1, 2])
@pytest.mark.parametrize("members", [1, 3, 40])
def test_size_bound_of_a_target_assignment_is_above_its_actual_size(
    members: int, replicas: int
) -> None:
    groups = StreamsGroups(standby=replicas, delay_ms=3_000)
    groups.topic("t", 300)
    groups.topic(STORE.name, 300)
    other = Subtopology("subtopology-of-some-length", ("t",))
    topology = Topology(0, (*STATEFUL.subtopologies, other))
    for number in range(members):
        groups.join(f"m{number}-ä", topology=topology, process_id=f"p{number}")
    groups.pass_ms(3_000)
    configured = groups.group.configured
    assert configured is not None
    bound = computed_target.bytes_at_most(GROUP, groups.group.members, configured, replicas)
    run = StreamsGroupRun(GROUP, list(targets_in(groups.log)))
    size = len(run_records(run, 0))
    assert size <= bound < 2 * size + 200


def test_number_of_members_and_tasks_determines_whether_a_target_is_computed_in_slices() -> None:
    groups = StreamsGroups()
    groups.topics(t=target.AT_ONCE - 2)
    assert groups.join("a", topology=TOPOLOGY).status == ()
    assert groups.join("b", topology=TOPOLOGY).status == ((5, COMPUTING),)
    pieces(groups)
    groups.topics(t=-1)
    status = dict(groups.send("a", 2).status)
    assert status[5] == COMPUTING


def test_journal_entry_of_a_rebalance_ignores_a_target_assignment_of_an_older_epoch() -> None:
    journal = Journal()
    bumped = EpochBumped(GROUP, 4, EpochCause.MEMBER_JOINED, "b", "b joined")
    journal.observe(bumped, Now(1, 1))
    journal.observe(TargetComputed(GROUP, 3, "sticky", 1, 1, "0_0 to a"), Now(2, 2))
    assert rebalances(journal) == [("assign", "")]
    journal.observe(TargetComputed(GROUP, 4, "sticky", 2, 1, "0_0 to b"), Now(3, 3))
    assert rebalances(journal) == [("revoke", "0_0 to b")]


def rebalances(journal: Journal) -> list[tuple[str, str]]:
    """Returns the fields `phase` and `moved` of each rebalance in the journal. `moved` is the text
    about tasks that change their member."""
    entry = journal.get(GROUP)
    assert entry is not None
    return [(each.phase, each.moved) for each in entry.rebalances]
