"""Requests of other APIs that a share group receives, and ShareGroupDescribe and DeleteGroups."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.calls import (
    Call,
    ConsumerGroupDescribe,
    DeleteGroup,
    DescribeGroup,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    Leaver,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    ShareGroupDescribe,
    SyncGroup,
    TopicOffsets,
    TxnOffsetCommit,
)
from coordinator.outcome import (
    CommitReply,
    ConsumerDescribeReply,
    ConsumerHeartbeatReply,
    DescribedShareMember,
    DescribeReply,
    FetchReply,
    JoinReply,
    LeaveReply,
    ListedGroup,
    ListReply,
    OffsetDeleteReply,
    Reply,
    ShareDescribeReply,
    SyncReply,
)
from coordinator.share.events import ShareStateDeletion
from offsets.share_records import StatePartitions, StatePartitionsRecord
from protocol.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    GROUP_ID_NOT_FOUND,
    INCONSISTENT_GROUP_PROTOCOL,
    NON_EMPTY_GROUP,
    NONE,
    NOT_COORDINATOR,
    UNKNOWN_MEMBER_ID,
)
from tests.coordinator.consumer.groups import batches_of, heartbeat_of, load
from tests.coordinator.share.groups import GROUP, ShareGroups, T

OFFSETS = [TopicOffsets("t", [0], [5], [-1], None, None)]
JOIN = JoinGroup(
    "k", GROUP, "", None, "c", "/h", 30_000, 30_000, "consumer", [("range", b"")], None, False,
    False, "x",
)  # fmt: skip
ANSWERS: list[tuple[Call, Reply]] = [
    (JOIN, JoinReply(INCONSISTENT_GROUP_PROTOCOL, "")),
    (SyncGroup("k", GROUP, 1, "a", None, None, None, []), SyncReply(UNKNOWN_MEMBER_ID)),
    (Heartbeat("k", GROUP, 1, "a", None), UNKNOWN_MEMBER_ID),
    (
        LeaveGroup("k", GROUP, [Leaver("a", None, None)]),
        LeaveReply(NONE, [("a", None, UNKNOWN_MEMBER_ID)]),
    ),
    (OffsetCommit("k", GROUP, -1, "", None, -1, OFFSETS), CommitReply(GROUP_ID_NOT_FOUND)),
    (OffsetCommit("k", GROUP, 3, "a", None, -1, OFFSETS), CommitReply(GROUP_ID_NOT_FOUND)),
    (
        TxnOffsetCommit("k", GROUP, 1, 0, -1, "", None, OFFSETS),
        CommitReply(GROUP_ID_NOT_FOUND),
    ),
    (OffsetDelete("k", GROUP, [("t", [0])]), OffsetDeleteReply(GROUP_ID_NOT_FOUND)),
    (DescribeGroup("k", GROUP), DescribeReply(NONE, GROUP, is_other_type=True)),
    (
        ConsumerGroupDescribe("k", GROUP),
        ConsumerDescribeReply(GROUP_ID_NOT_FOUND, GROUP, "Group g is not a consumer group."),
    ),
    (
        heartbeat_of("z", 4),
        ConsumerHeartbeatReply(GROUP_ID_NOT_FOUND, "Group g is not a consumer group."),
    ),
    (
        heartbeat_of("a", -1),
        ConsumerHeartbeatReply(GROUP_ID_NOT_FOUND, "Group g is not a consumer group."),
    ),
    (DeleteGroup("k", GROUP), NON_EMPTY_GROUP),
]


@pytest.mark.parametrize(("call", "reply"), ANSWERS, ids=lambda each: type(each).__name__)
def test_request_of_another_api_to_a_share_group_gets_the_error_of_kafka(
    call: Call, reply: Reply
) -> None:
    groups = ShareGroups()
    groups.stable("a")
    assert groups.ask(call) == reply
    assert groups.written == []
    assert not groups.shard.view.groups[GROUP].is_empty


def test_consumer_group_heartbeat_does_not_join_an_empty_share_group() -> None:
    groups = ShareGroups()
    groups.stable("a")
    groups.send("a", -1)
    call = heartbeat_of("z", 0)
    call.rebalance_timeout_ms, call.owned, call.subscribed_topics = 1_000, {}, ["t"]
    reply = groups.ask(call)
    assert isinstance(reply, ConsumerHeartbeatReply)
    assert reply.error_code == GROUP_ID_NOT_FOUND
    assert groups.ask(JOIN) == JoinReply(INCONSISTENT_GROUP_PROTOCOL, "")


def test_offset_fetch_of_a_share_group_returns_no_offsets() -> None:
    groups = ShareGroups()
    groups.stable("a")
    reply = groups.ask(OffsetFetch("k", GROUP, [("t", [0, 1])]))
    assert isinstance(reply, FetchReply)
    assert (reply.error_code, list(reply.topics[0].offsets)) == (NONE, [-1, -1])
    assert groups.ask(OffsetFetch("k", GROUP, None)) == FetchReply(NONE, ())


@pytest.mark.parametrize(
    ("states", "types", "is_listed"),
    [
        ((), (), True),
        (("stable",), ("share",), True),
        (("stable",), ("Share", "classic"), True),
        (("empty",), (), False),
        ((), ("consumer", "classic"), False),
    ],
)
def test_list_groups_filters_share_groups_by_state_and_type(
    states: tuple[str, ...], types: tuple[str, ...], is_listed: bool
) -> None:
    groups = ShareGroups()
    groups.stable("a")
    reply = groups.ask(ListGroups("k", frozenset(states), frozenset(types)))
    listed = [ListedGroup(GROUP, "share", "Stable", "share")]
    assert reply == ListReply(NONE, listed if is_listed else [])


def test_share_group_describe_returns_epochs_and_members() -> None:
    groups = ShareGroups()
    groups.stable("a")
    groups.join("b")
    reply = groups.ask(ShareGroupDescribe("k", GROUP))
    client = "client", "/127.0.0.1", ("t",)
    members = (
        DescribedShareMember("a", None, 3, *client, {T: (0, 1)}),
        DescribedShareMember("b", None, 4, *client, {T: (0,)}),
    )
    assert reply == ShareDescribeReply(NONE, GROUP, None, "Stable", 4, 4, "simple", members)


@pytest.mark.parametrize(
    ("group_id", "text"), [("no", "not found"), ("old", "is not a share group")]
)
def test_share_group_describe_refuses_groups_of_other_types(group_id: str, text: str) -> None:
    groups = ShareGroups()
    groups.ask(OffsetCommit("k", "old", -1, "", None, -1, OFFSETS))
    reply = groups.ask(ShareGroupDescribe("k", group_id))
    assert reply == ShareDescribeReply(GROUP_ID_NOT_FOUND, group_id, f"Group {group_id} {text}.")


# --------------------------------------------------------------------------------------- deletion


@pytest.fixture
def empty() -> ShareGroups:
    """Returns an empty share group that still has stored share-partition states."""
    groups = ShareGroups()
    groups.stable("a")
    groups.send("a", -1)
    return groups


def begin_deletion(groups: ShareGroups, ticket: str = "d") -> None:
    assert groups.take(groups.shard.handle(DeleteGroup(ticket, GROUP), groups.now)).replies == []


def deleted(groups: ShareGroups, error_code: int = NONE) -> Any:
    outcome = groups.shard.share_state_deleted(GROUP, [T], groups.now, error_code)
    return groups.take(outcome).replies


def test_delete_group_deletes_share_partition_states_before_the_group(empty: ShareGroups) -> None:
    begin_deletion(empty)
    assert empty.written == [StatePartitionsRecord(StatePartitions(deleting={T: "t"}))]
    assert empty.deletion() == ShareStateDeletion(GROUP, {T: (0, 1)})
    assert "d" in empty.shard.view.parked()
    empty.check_loaded()
    assert deleted(empty) == [("d", NONE)]
    assert empty.kinds() == "12T 15T 11T"
    assert not empty.shard.view.share_groups
    assert not empty.shard.view.parked()
    empty.check_loaded()


def test_share_group_without_share_partition_states_is_deleted_immediately() -> None:
    groups = ShareGroups()
    groups.join("a", "missing")
    groups.send("a", -1)
    assert groups.ask(DeleteGroup("d", GROUP)) == NONE
    assert groups.kinds() == "12T 15T 11T"


def test_failed_deletion_of_a_share_group_returns_the_error_and_can_be_repeated(
    empty: ShareGroups,
) -> None:
    begin_deletion(empty)
    assert deleted(empty, NOT_COORDINATOR) == [("d", NOT_COORDINATOR)]
    assert empty.group.stored.deleting == {T: "t"}
    begin_deletion(empty, "again")
    assert empty.deletion() == ShareStateDeletion(GROUP, {T: (0, 1)})
    assert deleted(empty) == [("again", NONE)]


def test_member_that_joins_during_a_deletion_of_the_group_cancels_the_deletion(
    empty: ShareGroups,
) -> None:
    begin_deletion(empty)
    empty.join("b")
    assert empty.group.stored == StatePartitions({T: ("t", (0, 1))})
    assert deleted(empty) == [("d", NON_EMPTY_GROUP)]
    assert empty.group.members.keys() == {"b"}


def test_two_delete_requests_for_a_share_group_are_answered_together(empty: ShareGroups) -> None:
    begin_deletion(empty, "d")
    begin_deletion(empty, "e")
    assert deleted(empty) == [("d", NONE), ("e", NONE)]
    assert deleted(empty) == []


def test_unload_of_the_shard_answers_a_parked_delete_group(empty: ShareGroups) -> None:
    begin_deletion(empty)
    assert empty.shard.unload(COORDINATOR_LOAD_IN_PROGRESS).replies == [
        ("d", COORDINATOR_LOAD_IN_PROGRESS)
    ]


# --------------------------------------------------------------------------------- deleted topics


def test_deleted_topic_and_its_share_partition_states_are_removed_from_the_group() -> None:
    groups = ShareGroups()
    groups.topics(u=1)
    groups.join("a", "t", "u")
    groups.initialize()
    groups.topics(t=-1)
    groups.pass_ms(0)
    assert groups.written == [StatePartitionsRecord(StatePartitions({}, {b"u" * 16: ("u", (0,))}))]
    assert groups.deletion() == ShareStateDeletion(GROUP, {T: (0, 1)})
    assert deleted(groups) == []
    assert groups.written == []
    assert groups.send("a", 2).assignment == {b"u" * 16: (0,)}
    groups.check_loaded()


def test_loaded_share_group_removes_a_topic_that_was_deleted_before_the_load() -> None:
    groups = ShareGroups()
    groups.stable("a")
    groups.image.remove("t")
    groups.shard = load(batches_of(groups.log), groups.config, groups.now, groups.image)
    groups.pass_ms(0)
    assert groups.group.stored == StatePartitions()


def test_deleted_topics_are_removed_from_many_share_groups_in_several_steps() -> None:
    groups = ShareGroups()
    for number in range(250):
        groups.send("a", 0, group_id=f"g{number}", subscribed_topics=["t"])
    groups.topics(t=-1)
    sizes = []
    while groups.shard.next_deadline() == groups.now_ms or not sizes:
        sizes.append(len(groups.take(groups.shard.expire(groups.now, 100)).records))
        if sizes[-1] == 0 or len(sizes) > 9:
            break
    assert sizes[:3] == [100, 100, 50]
    assert all(each.stored == StatePartitions() for each in groups.shard.view.share_groups.values())


def test_empty_share_group_never_expires(empty: ShareGroups) -> None:
    empty.pass_ms(30 * 24 * 3_600_000)
    assert empty.group.stored == StatePartitions({}, {T: ("t", (0, 1))})
