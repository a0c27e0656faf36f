"""Requests of other APIs that a consumer group receives: commits, fetches, descriptions, deletions
and classic joins."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from coordinator.calls import (
    ConsumerGroupDescribe,
    DeleteGroup,
    DescribeGroup,
    Heartbeat,
    JoinGroup,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    TopicOffsets,
    TxnOffsetCommit,
)
from protocol.errors import (
    GROUP_ID_NOT_FOUND,
    GROUP_SUBSCRIBED_TO_TOPIC,
    ILLEGAL_GENERATION,
    INCONSISTENT_GROUP_PROTOCOL,
    NON_EMPTY_GROUP,
    NONE,
    STALE_MEMBER_EPOCH,
    UNKNOWN_MEMBER_ID,
    UNSUPPORTED_VERSION,
)
from tests.coordinator.consumer.groups import GROUP, Groups, T


def ask(groups: Groups, call: Any) -> Any:
    [(_, reply)] = groups.take(groups.shard.handle(call, groups.now)).replies
    return reply


def offsets(*partitions: int) -> list[TopicOffsets]:
    count = len(partitions)
    return [TopicOffsets("t", partitions, [5] * count, [-1] * count, None, None)]


def commit(groups: Groups, member_id: str, epoch: int, *partitions: int, **fields: Any) -> int:
    call = OffsetCommit("ticket", GROUP, epoch, member_id, None, -1, offsets(*partitions))
    errors = ask(groups, replace(call, **fields)).errors
    assert isinstance(errors, int)
    return errors


@pytest.fixture
def moved() -> Groups:
    """Returns a group with two members. Member a is at epoch 4 and has owned partition 0 since
    epoch 2. Member b has owned partition 1 since epoch 3."""
    groups = Groups()
    groups.join("a")
    groups.join("b")
    groups.send("a", 2, owned={T: [0]})
    groups.send("b", 3)
    groups.topics(t=2, u=1)
    groups.send("a", 3, subscribed_topics=("t", "u"))
    assert groups.group.members["a"].current.assigned == {T: {0: 2}, b"u" * 16: {0: 4}}
    return groups


def test_commit_with_the_current_member_epoch_is_accepted(moved: Groups) -> None:
    assert commit(moved, "a", 4, 0, 1) == NONE
    assert commit(moved, "a", 5, 0) == STALE_MEMBER_EPOCH


def test_commit_with_an_older_epoch_is_accepted_for_partitions_owned_in_that_epoch(
    moved: Groups,
) -> None:
    assert commit(moved, "a", 3, 0) == NONE
    assert commit(moved, "a", 2, 0) == NONE
    assert commit(moved, "a", 1, 0) == STALE_MEMBER_EPOCH
    assert commit(moved, "a", 3, 0, 1) == STALE_MEMBER_EPOCH  # one partition fails the request


def test_commit_for_a_revoking_partition_is_accepted() -> None:
    groups = Groups()
    groups.join("a")
    groups.join("b")
    groups.send("a", 2)
    assert groups.group.members["a"].current.revoking == {T: {1: 2}}
    assert commit(groups, "a", 2, 1) == NONE


def test_commit_without_a_member_id_is_refused_when_the_group_has_members(moved: Groups) -> None:
    assert commit(moved, "", -1, 0) == UNKNOWN_MEMBER_ID
    moved.send("a", -1)
    moved.send("b", -1)
    assert commit(moved, "", -1, 0) == NONE
    assert GROUP in moved.shard.view.consumer_groups


def test_commit_with_an_old_request_version_is_refused(moved: Groups) -> None:
    assert commit(moved, "a", 4, 0, knows_member_epochs=False) == UNSUPPORTED_VERSION


def test_commit_does_not_renew_the_session_of_the_member() -> None:
    groups = Groups()
    groups.join("a")
    groups.pass_ms(40_000)
    assert commit(groups, "a", 2, 0) == NONE
    groups.pass_ms(6_000)
    assert commit(groups, "a", 2, 0) == UNKNOWN_MEMBER_ID


def test_transactional_commit_gets_the_same_error_codes_as_in_classic_groups(moved: Groups) -> None:
    call = TxnOffsetCommit("ticket", GROUP, 1, 0, 4, "a", None, offsets(0))
    assert ask(moved, call).errors == NONE
    assert ask(moved, replace(call, generation_id=1)).errors == ILLEGAL_GENERATION
    assert ask(moved, replace(call, member_id="x")).errors == UNKNOWN_MEMBER_ID
    assert ask(moved, replace(call, member_id="", generation_id=-1)).errors == NONE


def test_offset_fetch_with_a_member_id_needs_the_current_member_epoch(moved: Groups) -> None:
    commit(moved, "a", 4, 0)
    call = OffsetFetch("ticket", GROUP, [("t", [0])])
    assert ask(moved, call).topics[0].offsets[0] == 5
    assert ask(moved, replace(call, topics=None)).topics[0].offsets[0] == 5
    assert ask(moved, replace(call, member_id="a", member_epoch=4)).error_code == NONE
    assert ask(moved, replace(call, member_id="a", member_epoch=3)).error_code == STALE_MEMBER_EPOCH
    assert ask(moved, replace(call, member_id="a")).error_code == STALE_MEMBER_EPOCH
    assert ask(moved, replace(call, member_id="")).error_code == UNKNOWN_MEMBER_ID


def test_description_of_a_consumer_group_has_the_partitions_of_each_member() -> None:
    groups = Groups()
    groups.join("a", instance_id="i", rack_id="r")
    groups.join("b")
    groups.send("a", 2)
    reply = ask(groups, ConsumerGroupDescribe("ticket", GROUP))
    assert (reply.state, reply.epoch, reply.target_epoch) == ("Reconciling", 3, 3)
    assert reply.assignor == "uniform"
    a, b = reply.members
    assert (a.member_id, a.instance_id, a.rack_id, a.epoch) == ("a", "i", "r", 2)
    assert a.assignment == {T: (0, 1)}  # partition 1 is still to be revoked
    assert (a.target, b.assignment, b.target) == ({T: (0,)}, {}, {T: (1,)})


def test_consumer_group_describe_refuses_groups_of_other_types() -> None:
    groups = Groups()
    reply = ask(groups, ConsumerGroupDescribe("ticket", "x"))
    assert (reply.error_code, reply.error_message) == (GROUP_ID_NOT_FOUND, "Group x not found.")
    ask(groups, OffsetCommit("ticket", "x", -1, "", None, -1, offsets(0)))
    reply = ask(groups, ConsumerGroupDescribe("ticket", "x"))
    assert reply.error_message == "Group x is not a consumer group."


def test_describe_groups_returns_state_dead_for_a_consumer_group(moved: Groups) -> None:
    assert ask(moved, DescribeGroup("ticket", GROUP)).state == "Dead"


@pytest.mark.parametrize(
    ("states", "types", "listed"),
    [
        (set(), set(), True),
        ({"reconciling", "stable"}, {"Consumer"}, True),
        ({"empty"}, set(), False),
        (set(), {"classic"}, False),
        (set(), {"share"}, False),
    ],
)
def test_consumer_group_is_listed_by_state_and_type(
    moved: Groups, states: set[str], types: set[str], listed: bool
) -> None:
    reply = ask(moved, ListGroups("ticket", frozenset(states), frozenset(types)))
    assert [group.group_id for group in reply.groups] == [GROUP] * listed
    assert [group.group_type for group in reply.groups] == ["consumer"] * listed


def test_consumer_group_with_members_is_not_deleted(moved: Groups) -> None:
    assert ask(moved, DeleteGroup("ticket", GROUP)) == NON_EMPTY_GROUP


def test_deleted_group_has_tombstones_in_the_order_that_kafka_can_load(moved: Groups) -> None:
    commit(moved, "a", 4, 0)
    moved.send("a", -1)
    moved.send("b", -1)
    assert ask(moved, DeleteGroup("ticket", GROUP)) == NONE
    assert moved.kinds() == "6T 4T 3T"
    assert moved.shard.view.consumer_groups == {}
    assert ask(moved, OffsetFetch("ticket", GROUP, [("t", [0])])).topics[0].offsets[0] == -1
    moved.check_loaded()


def test_offsets_of_subscribed_topics_are_not_deleted(moved: Groups) -> None:
    commit(moved, "a", 4, 0)
    reply = ask(moved, OffsetDelete("ticket", GROUP, [("t", [0]), ("x", [0])]))
    assert reply.topics == [("t", [(0, GROUP_SUBSCRIBED_TO_TOPIC)]), ("x", [(0, NONE)])]


def classic_join(group_id: str = GROUP) -> JoinGroup:
    return JoinGroup(
        "ticket", group_id, "", None, "c", "/h", 10_000, 60_000, "consumer", [("range", b"")],
        None, False, False, "fresh",
    )  # fmt: skip


def test_classic_member_is_refused_by_a_group_with_consumer_members(moved: Groups) -> None:
    assert ask(moved, classic_join()).error_code == INCONSISTENT_GROUP_PROTOCOL
    assert ask(moved, Heartbeat("ticket", GROUP, 4, "a", None)) == UNKNOWN_MEMBER_ID


def test_classic_member_turns_an_empty_consumer_group_into_a_classic_group(moved: Groups) -> None:
    moved.send("a", -1)
    moved.send("b", -1)
    outcome = moved.take(moved.shard.handle(classic_join(), moved.now))
    assert outcome.replies == []  # parked
    assert moved.kinds() == "6T 4T 3T"
    assert moved.shard.view.consumer_groups == {}
    assert GROUP in moved.shard.view.groups


def test_consumer_member_turns_an_empty_classic_group_into_a_consumer_group() -> None:
    groups = Groups()
    ask(groups, OffsetCommit("ticket", GROUP, -1, "", None, -1, offsets(0)))
    assert GROUP in groups.shard.view.groups
    assert groups.join("a").error_code == NONE
    assert GROUP in groups.shard.view.consumer_groups
    assert ask(groups, OffsetFetch("ticket", GROUP, [("t", [0])])).topics[0].offsets[0] == 5
