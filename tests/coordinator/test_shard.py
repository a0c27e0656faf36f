"""Tests of a shard that tests/golden does not contain: rejected calls, budgets, sizes and loads."""

from __future__ import annotations

import typing
from typing import Any

import pytest

from coordinator import calls
from coordinator.calls import (
    ConsumerGroupDescribe,
    ConsumerHeartbeat,
    DeleteGroup,
    DescribeGroup,
    Heartbeat,
    ListGroups,
    OffsetDelete,
    OffsetFetch,
    ShareGroupDescribe,
    ShareHeartbeat,
    ShareOffsetsAlter,
    ShareOffsetsDelete,
    ShareOffsetsDescribe,
    SyncGroup,
    TopicOffsets,
)
from coordinator.classic import joining
from coordinator.classic.states import State
from coordinator.config import GroupConfig
from coordinator.outcome import JoinReply, SyncReply
from coordinator.refusal import loading_error, refusal
from coordinator.shard import GroupShard
from coordinator.streams.calls import StreamsGroupDescribe, StreamsHeartbeat
from offsets.record_codec import run_records
from offsets.runs import OffsetRun, OffsetTombstones
from protocol.errors import MEMBER_ID_REQUIRED, UNKNOWN_MEMBER_ID
from protocol.now import Now
from tests.coordinator.calls_for_tests import (
    Driver,
    commit,
    end,
    heartbeat,
    join,
    leave,
    sync,
    txn_commit,
)
from tests.coordinator.invariants import check_shard

EVERY_CALL: list[Any] = [
    join("t", "m"),
    sync("t", "m"),
    heartbeat("t", "m"),
    leave("t", "m"),
    commit("t"),
    OffsetFetch("t", "g", None),
    DescribeGroup("t", "g"),
    ListGroups("t", frozenset(), frozenset()),
    DeleteGroup("t", "g"),
    OffsetDelete("t", "g", []),
    txn_commit("t"),
    end("t", committed=True),
    ConsumerGroupDescribe("t", "g"),
    ShareGroupDescribe("t", "g"),
    ShareOffsetsDescribe("t", "g"),
    ShareOffsetsAlter("t", "g", {}),
    ShareOffsetsDelete("t", "g", []),
    ShareHeartbeat("t", "g", "m", 1, None, None, "c", "/h"),
    StreamsGroupDescribe("t", "g"),
    StreamsHeartbeat("t", "g", "m", 1, "c", "/h"),
    ConsumerHeartbeat("t", "g", "m", 1, None, None, -1, None, None, None, None, "c", "/h"),
]


def test_list_of_test_calls_contains_every_type_of_call() -> None:
    assert {type(call) for call in EVERY_CALL} == set(typing.get_args(calls.Call))


@pytest.mark.parametrize("call", EVERY_CALL, ids=lambda call: type(call).__name__)
def test_reply_to_a_refused_call_has_the_type_of_the_normal_reply(call: Any) -> None:
    shard = GroupShard(GroupConfig())
    shard.loaded(Now(0, 0))
    ((_, answer),) = shard.handle(call, Now(0, 0)).replies
    refused = refusal(call, 16)
    assert type(refused) is type(answer)
    code = refused if isinstance(refused, int) else getattr(refused, "error_code", None)
    assert (refused.errors if code is None else code) == 16


@pytest.mark.parametrize("call", EVERY_CALL, ids=lambda call: type(call).__name__)
def test_each_call_gets_the_error_of_kafka_while_the_shard_loads(call: Any) -> None:
    expected = {Heartbeat: 0, SyncGroup: 27}.get(type(call), 14)
    assert loading_error(call) == expected


# ----------------------------------------------------------------------------------- parked


def test_parked_request_gets_rebalance_in_progress_when_the_member_sends_a_new_request() -> None:
    driver = Driver()
    a, b = driver.form("a", "b", settle=False)
    driver.handle(sync("first", b, 2))
    outcome = driver.handle(sync("second", b, 2))
    assert outcome.replies == [("first", SyncReply(27))]
    driver.handle(leave("bye", a))
    driver.handle(join("wait", fresh_id="c"))
    outcome = driver.handle(join("again", "c-c"))
    assert outcome.replies == [("wait", JoinReply(27, "c-c"))]
    assert set(driver.shard.view.parked()) == {"again"}


def test_close_of_an_unknown_connection_changes_no_state() -> None:
    driver = Driver()
    (a,) = driver.form("a")
    before = driver.shard.view.groups["g"].members[a].session.due_ms
    driver.mono_ms += 5
    outcome = driver.shard.connection_closed("unknown", driver.now)
    assert not any(outcome)
    assert driver.shard.view.groups["g"].members[a].session.due_ms == before


def test_second_unload_of_a_shard_returns_no_reply() -> None:
    driver = Driver()
    driver.form("a")
    driver.handle(join("b", fresh_id="b"))
    assert [ticket for ticket, _ in driver.shard.unload(16).replies] == ["b"]
    assert driver.shard.unload(16).replies == []
    assert driver.shard.view.groups["g"].state is State.DEAD


# ----------------------------------------------------------------------------------- expire


def test_one_expire_call_handles_no_more_groups_than_its_budget() -> None:
    driver = Driver(initial_rebalance_delay_ms=3000)
    for i in range(10):
        driver.handle(join(i, group_id=f"g{i}"))
    driver.mono_ms = 3000
    joined = 0
    for slices in range(1, 11):
        outcome = driver.take(driver.shard.expire(driver.now, 1))
        joined += len(outcome.replies)
        assert joined == slices
        next_ms = driver.shard.next_deadline()
        assert next_ms is not None
        assert (next_ms <= driver.mono_ms) == (slices < 10)


def test_one_slice_of_the_retention_check_reads_no_more_groups_than_its_budget() -> None:
    driver = Driver(offsets_retention_ms=1000, offsets_retention_check_interval_ms=5000)
    for i in range(10):
        driver.handle(commit(i, group_id=f"g{i}"))
    driver.mono_ms = 5000
    records = []
    for _ in range(3):  # the first slice spends one item of its budget on the start of the check
        next_ms = driver.shard.next_deadline()
        assert next_ms is not None
        assert next_ms <= driver.mono_ms
        records.append(len(driver.take(driver.shard.expire(driver.now, 4)).records))
    assert records == [3, 4, 3]
    assert driver.shard.next_deadline() == 10_000
    assert not driver.shard.view.groups


def test_jump_of_the_wall_clock_does_not_change_session_deadlines() -> None:
    driver = Driver()
    (a,) = driver.form("a")
    shard = driver.shard
    assert not shard.expire(Now(9_999, 10**12), 100).events
    assert shard.handle(heartbeat("h", a), Now(9_999, -(10**12))).replies == (("h", 0),)
    assert not shard.expire(Now(19_998, 10**12), 100).events
    assert shard.expire(Now(19_999, 0), 100).events


# ------------------------------------------------------------------------------------ sizes


def test_offset_tombstones_are_split_into_runs_that_fit_a_batch() -> None:
    driver = Driver(max_record_bytes=2000)
    for i in range(0, 200, 20):
        columns = (range(i, i + 20), [5] * 20, [-1] * 20)
        driver.handle(commit(i, topics=[TopicOffsets("t", *columns, None, None)]))
    outcome = driver.handle(DeleteGroup("d", "g"))
    runs = [run for run in outcome.records if isinstance(run, OffsetTombstones)]
    assert sum(len(run) for run in runs) == 200
    assert len(runs) > 1
    assert all(61 + len(run_records(run, 0)) <= 2000 for run in runs)
    assert not driver.shard.view.offsets.has_offsets("g")


def test_commit_at_the_size_limit_is_accepted_and_a_larger_commit_is_refused() -> None:
    probe = Driver()
    columns = (range(12), [5] * 12, [-1] * 12)
    call = commit("c", topics=[TopicOffsets("t", *columns, None, None)])
    size = 61 + sum(len(run_records(run, 0)) for run in probe.handle(call).records)
    assert Driver(max_record_bytes=size).answer(call).errors == 0
    assert Driver(max_record_bytes=size - 1).answer(call).errors == 28


def test_commit_with_values_too_long_for_a_record_is_refused() -> None:
    driver = Driver(offset_metadata_max_bytes=10**6)
    assert driver.answer(commit(1, group_id="g" * 40_000)).errors == 28
    topics = [TopicOffsets("t", [0], [5], [-1], ["m" * 40_000], None)]
    assert driver.answer(commit(2, topics=topics)).errors == 28
    assert not driver.shard.view.groups


def test_member_id_created_from_a_long_client_id_fits_a_kafka_string() -> None:
    driver = Driver()
    reply = driver.answer(join(1, client_id="ü" * 32_000, fresh_id="x" * 36))
    assert len(reply.member_id.encode()) < 2**15
    assert reply.member_id.endswith("x" * 36)


def test_run_of_a_commit_without_metadata_shares_the_lists_of_the_call() -> None:
    driver = Driver()
    topic = TopicOffsets("t", (0, 1), (5, 6), (-1, 2), None, None)
    (run,) = driver.handle(commit("c", topics=[topic])).records
    assert isinstance(run, OffsetRun)
    assert run.partitions is topic.partitions
    assert run.offsets is topic.offsets
    assert run.leader_epochs is topic.leader_epochs
    assert run.metadata is None


# ---------------------------------------------------------------------------------- loading


def test_second_replay_of_the_same_group_record_changes_only_the_stored_record_offset() -> None:
    driver = Driver()
    driver.form("a", "b")
    group = driver.shard.view.groups["g"]
    before = group.run()
    base_offset, run = driver.log[-1]
    assert group.record_offset == base_offset
    driver.shard.replay(run, 77)
    assert driver.shard.view.groups["g"] is group
    assert group.run() == before
    assert group.record_offset == 77


def test_load_removes_a_deleted_group_and_restores_a_group_that_was_created_again() -> None:
    driver = Driver()
    (a,) = driver.form("a")
    driver.handle(leave("l", a))
    driver.handle(DeleteGroup("d", "g"))
    driver.form("b")
    shard = GroupShard(driver.config)
    counted = []
    for base_offset, run in driver.log:
        shard.replay(run, base_offset)
        counted.append(len(shard.view.groups))
    assert counted == [1, 1, 0, 1]
    shard.loaded(Now(500, 0))
    (member,) = shard.view.groups["g"].members.values()
    assert member.member_id.startswith("m-b")
    assert member.session.due_ms == 10_500, "sessions start in full when the load ends"


def test_load_completes_groups_in_slices_of_bounded_size() -> None:
    """The loader yields between two slices. The size of the slices does not change the result."""
    driver = Driver()
    driver.form("a")
    driver.handle(commit("s", group_id="simple"))
    driver.handle(commit("t", group_id="another"))
    shard = GroupShard(driver.config)
    for base_offset, run in driver.log:
        shard.replay(run, base_offset)
    assert [shard.wake(Now(500 + turn, 0), 2) for turn in range(3)] == [2, 1, 0]
    assert set(shard.view.groups) == {"g", "simple", "another"}
    (told,) = shard.loaded(Now(600, 0)).events
    assert told.groups == 3
    (member,) = shard.view.groups["g"].members.values()
    assert member.session.due_ms == 10_500
    check_shard(shard)


def test_groups_are_counted_by_the_state_names_of_kafka() -> None:
    driver = Driver()
    driver.form("a", "b")
    driver.handle(commit("s", group_id="simple"))
    driver.handle(join("w", group_id="h"))
    by_state, members = driver.shard.view.counts()
    assert members == 3
    assert by_state == {
        "Empty": 1,
        "PreparingRebalance": 0,
        "CompletingRebalance": 1,
        "Stable": 1,
        "Dead": 0,
        "Assigning": 0,
        "Reconciling": 0,
        "NotReady": 0,
    }


def test_group_of_a_thousand_members_forms_one_generation() -> None:
    driver = Driver(initial_rebalance_delay_ms=3000)
    for i in range(1000):
        driver.handle(join(i))
    driver.mono_ms = 3000
    driver.take(driver.shard.expire(driver.now, 10))
    driver.mono_ms = 6000
    outcome = driver.take(driver.shard.expire(driver.now, 10))
    assert len(outcome.replies) == 1000
    sizes = [len(reply.members) for _, reply in outcome.replies if isinstance(reply, JoinReply)]
    assert sorted(sizes)[-2:] == [0, 1000], "only the leader is told of everybody"
    leader = str(driver.shard.view.groups["g"].leader_id)
    names = list(driver.shard.view.groups["g"].members)
    given = [(name, name.encode()) for name in names]
    for name in names[1:]:
        driver.handle(sync(f"s{name}", name))
    outcome = driver.handle(sync("lead", leader, assignments=given))
    assert len(outcome.replies) == 1000
    assert len(outcome.records) == 1
    check_shard(driver.shard)


@pytest.mark.parametrize("group_id", ["g", "grüße" * 30, "🙂" * 8000])
@pytest.mark.parametrize("topic", ["t", "t" * 249])
def test_accepted_commit_fits_a_batch(group_id: str, topic: str) -> None:
    """The test checks the size estimate of coordinator/commits.py for names with arbitrary
    bytes."""
    refused = accepted = 0
    for limit in (300, 3000, 40_000, 10**6):
        driver = Driver(max_record_bytes=limit)
        for count in (1, 2, 5, 20, 64, 65, 200):
            columns = (range(10**6, 10**6 + count), [2**62] * count, [2**30] * count)
            topics = [TopicOffsets(topic, *columns, None, None)]
            outcome = driver.handle(commit(count, group_id=group_id, topics=topics))
            size = 61 + sum(len(run_records(run, 0)) for run in outcome.records)
            assert size <= limit
            accepted += bool(outcome.records)
            refused += not outcome.records
    assert accepted
    assert refused


def test_long_client_strings_are_truncated_in_events() -> None:
    driver = Driver()
    outcome = driver.handle(join(1, reason="r" * 30_000))
    assert max(len(repr(event)) for event in outcome.events) < 600
    members = driver.form("a", "b", "c", "d", "e")
    outcome = driver.handle(leave(2, *members, "c-1"))
    details = [event.detail for event in outcome.events if hasattr(event, "old_state")]
    assert details[0].endswith("; and 3 more")


def test_rejoin_of_a_static_member_is_refused_when_its_metadata_does_not_fit_a_record() -> None:
    driver = Driver(max_record_bytes=700)
    driver.handle(join(1, group_instance_id="i"))
    driver.handle(sync(2, "i-1", group_instance_id="i", assignments=[("i-1", b"A")]))
    reply = driver.answer(join(3, group_instance_id="i", client_id="long" * 150))
    assert reply.error_code == -1
    assert driver.error(heartbeat(4, "i-1", group_instance_id="i")) == 0, "the old one goes on"
    assert driver.error(join(5, group_instance_id="i")) == 0


def test_unreadable_subscriptions_of_a_static_member_are_compared_as_bytes() -> None:
    driver = Driver()
    one, other = [("range", b"?1")], [("range", b"?2")]
    driver.handle(join(1, group_instance_id="i", protocols=one))
    driver.handle(sync(2, "i-1", group_instance_id="i", assignments=[("i-1", b"A")]))
    assert driver.answer(join(3, group_instance_id="i", protocols=one)).generation_id == 1
    assert driver.answer(join(4, group_instance_id="i", protocols=other)).generation_id == 2


def test_number_of_unused_member_ids_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the limit, the shard withdraws the oldest unused id. A client that joins with a
    withdrawn id gets an error and requests a new id."""
    monkeypatch.setattr(joining, "PENDING_IDS_MAX", 100)
    driver = Driver()
    for number in range(1000):
        assert driver.error(join(f"t{number}", member_id_required=True)) == MEMBER_ID_REQUIRED
    group = driver.shard.view.groups["g"]
    assert list(group.pending) == [f"c-t{number}" for number in range(900, 1000)]
    check_shard(driver.shard)

    assert driver.error(join("late", "c-t0")) == UNKNOWN_MEMBER_ID
    again = driver.answer(join("again", member_id_required=True))
    assert isinstance(again, JoinReply)
    driver.handle(join("in", again.member_id))
    assert again.member_id in group.members
    driver.mono_ms += 60_000
    driver.take(driver.shard.expire(driver.now, 10_000))
    assert not group.pending
