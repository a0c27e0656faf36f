"""Tests the responses of a streams group to requests other than heartbeats, such as
StreamsGroupDescribe and DeleteGroups."""

from __future__ import annotations

from dataclasses import replace
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
    ShareHeartbeat,
    SyncGroup,
    TopicOffsets,
    TxnOffsetCommit,
)
from coordinator.events import CommitRejected
from coordinator.outcome import (
    CommitReply,
    ConsumerDescribeReply,
    ConsumerHeartbeatReply,
    DescribedStreamsMember,
    DescribeReply,
    FetchReply,
    JoinReply,
    LeaveReply,
    ListedGroup,
    ListReply,
    OffsetDeleteReply,
    Reply,
    ShareDescribeReply,
    StreamsDescribeReply,
    StreamsHeartbeatReply,
    SyncReply,
)
from coordinator.refusal import failed, loading_error, refusal
from coordinator.streams.calls import StreamsGroupDescribe, StreamsHeartbeat
from offsets.streams_records import TaskRoles, Topology
from protocol.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    GROUP_ID_NOT_FOUND,
    GROUP_SUBSCRIBED_TO_TOPIC,
    ILLEGAL_GENERATION,
    INCONSISTENT_GROUP_PROTOCOL,
    NON_EMPTY_GROUP,
    NONE,
    NOT_COORDINATOR,
    STALE_MEMBER_EPOCH,
    UNKNOWN_MEMBER_ID,
    UNSUPPORTED_VERSION,
)
from tests.coordinator.consumer.groups import batches_of, heartbeat_of, load
from tests.coordinator.streams.groups import (
    GROUP,
    STATEFUL,
    STORE,
    SUB,
    TOPOLOGY,
    StreamsGroups,
)

OFFSETS = [TopicOffsets("t", [0], [5], [-1], None, None)]
JOIN = JoinGroup(
    "k", GROUP, "", None, "c", "/h", 30_000, 30_000, "consumer", [("range", b"")], None, False,
    False, "x",
)  # fmt: skip
NOT_A_CONSUMER_GROUP = "Group g is not a consumer group."
ANSWERS: list[tuple[Call, Reply]] = [
    (JOIN, JoinReply(INCONSISTENT_GROUP_PROTOCOL, "")),
    (SyncGroup("k", GROUP, 1, "a", None, None, None, []), SyncReply(UNKNOWN_MEMBER_ID)),
    (Heartbeat("k", GROUP, 1, "a", None), UNKNOWN_MEMBER_ID),
    (
        LeaveGroup("k", GROUP, [Leaver("a", None, None)]),
        LeaveReply(NONE, [("a", None, UNKNOWN_MEMBER_ID)]),
    ),
    (DescribeGroup("k", GROUP), DescribeReply(NONE, GROUP, is_other_type=True)),
    (
        ConsumerGroupDescribe("k", GROUP),
        ConsumerDescribeReply(GROUP_ID_NOT_FOUND, GROUP, NOT_A_CONSUMER_GROUP),
    ),
    (
        ShareGroupDescribe("k", GROUP),
        ShareDescribeReply(GROUP_ID_NOT_FOUND, GROUP, "Group g is not a share group."),
    ),
    (heartbeat_of("z", 4), ConsumerHeartbeatReply(GROUP_ID_NOT_FOUND, NOT_A_CONSUMER_GROUP)),
    (heartbeat_of("a", -1), ConsumerHeartbeatReply(GROUP_ID_NOT_FOUND, NOT_A_CONSUMER_GROUP)),
    (DeleteGroup("k", GROUP), NON_EMPTY_GROUP),
    (OffsetCommit("k", GROUP, -1, "", None, -1, OFFSETS), CommitReply(UNKNOWN_MEMBER_ID)),
    (OffsetCommit("k", GROUP, 2, "z", None, -1, OFFSETS), CommitReply(UNKNOWN_MEMBER_ID)),
    (OffsetCommit("k", GROUP, 9, "a", None, -1, OFFSETS), CommitReply(STALE_MEMBER_EPOCH)),
    (
        OffsetCommit("k", GROUP, 2, "a", None, -1, OFFSETS, knows_member_epochs=False),
        CommitReply(UNSUPPORTED_VERSION),
    ),
    (
        TxnOffsetCommit("k", GROUP, 1, 0, 9, "a", None, OFFSETS),
        CommitReply(ILLEGAL_GENERATION),
    ),
    (
        TxnOffsetCommit("k", GROUP, 1, 0, 9, "a", None, OFFSETS, knows_member_epochs=True),
        CommitReply(STALE_MEMBER_EPOCH),
    ),
    (
        TxnOffsetCommit("k", GROUP, 1, 0, 2, "z", None, OFFSETS),
        CommitReply(UNKNOWN_MEMBER_ID),
    ),
    (
        OffsetFetch("k", GROUP, [("t", [0])], member_id="z", member_epoch=2),
        FetchReply(UNKNOWN_MEMBER_ID),
    ),
    (
        OffsetFetch("k", GROUP, [("t", [0])], member_id="a", member_epoch=1),
        FetchReply(STALE_MEMBER_EPOCH),
    ),
    (
        OffsetDelete("k", GROUP, [("t", [0])]),
        OffsetDeleteReply(NONE, [("t", [(0, GROUP_SUBSCRIBED_TO_TOPIC)])]),
    ),
]


@pytest.mark.parametrize(("call", "reply"), ANSWERS, ids=lambda each: type(each).__name__)
def test_request_of_another_api_to_a_streams_group_gets_the_error_of_kafka(
    call: Call, reply: Reply
) -> None:
    groups = StreamsGroups()
    groups.stable("a")
    assert groups.ask(call) == reply
    assert groups.written == []
    assert not groups.shard.view.groups[GROUP].is_empty


@pytest.mark.parametrize("kind", ["consumer", "share"])
def test_heartbeat_of_another_group_type_does_not_join_an_empty_streams_group(kind: str) -> None:
    groups = StreamsGroups()
    groups.stable("a")
    groups.send("a", -1)
    if kind == "consumer":
        call = heartbeat_of("z", 0)
        call.rebalance_timeout_ms, call.owned, call.subscribed_topics = 1_000, {}, ["t"]
        reply: Any = groups.ask(call)
        assert reply.error_message == NOT_A_CONSUMER_GROUP
    else:
        reply = groups.ask(ShareHeartbeat("k", GROUP, "z", 0, None, ["t"], "c", "/h"))
    assert reply.error_code == GROUP_ID_NOT_FOUND


def test_classic_member_replaces_an_empty_streams_group() -> None:
    groups = StreamsGroups()
    groups.stable("a")
    groups.send("a", -1)
    groups.take(groups.shard.handle(JOIN, groups.now))
    assert groups.kinds() == "20T 17T 23T"
    assert groups.shard.view.groups[GROUP].type == "classic"


def test_join_of_a_streams_member_converts_an_empty_classic_group_and_keeps_the_offsets() -> None:
    groups = StreamsGroups()
    groups.ask(OffsetCommit("k", GROUP, -1, "", None, -1, OFFSETS))
    assert groups.shard.view.groups[GROUP].type == "classic"
    assert groups.join("a").error_code == NONE
    assert groups.shard.view.groups[GROUP].type == "streams"
    reply = groups.ask(OffsetFetch("k", GROUP, [("t", [0])]))
    assert isinstance(reply, FetchReply)
    assert list(reply.topics[0].offsets) == [5]
    groups.check_loaded()


def test_streams_member_does_not_join_a_classic_group_with_members() -> None:
    groups = StreamsGroups()
    groups.take(groups.shard.handle(JOIN, groups.now))
    reply = groups.join("a")
    assert (reply.error_code, reply.error_message) == (
        GROUP_ID_NOT_FOUND,
        "Group g is not a streams group.",
    )


# -------------------------------------------------------------------------------------- offsets


def test_streams_members_commit_and_fetch_offsets_with_their_member_epoch() -> None:
    groups = StreamsGroups()
    groups.stable("a")
    assert groups.ask(OffsetCommit("k", GROUP, 2, "a", None, -1, OFFSETS)) == CommitReply(NONE)
    reply = groups.ask(OffsetFetch("k", GROUP, [("t", [0])], member_id="a", member_epoch=2))
    assert isinstance(reply, FetchReply)
    assert list(reply.topics[0].offsets) == [5]
    txn = TxnOffsetCommit("k", GROUP, 1, 0, 2, "a", None, OFFSETS)
    assert groups.ask(txn) == CommitReply(NONE)
    nobody = TxnOffsetCommit("k", GROUP, 1, 0, -1, "", None, OFFSETS)
    assert groups.ask(nobody) == CommitReply(NONE)


def test_commit_with_an_older_epoch_is_accepted_for_tasks_owned_in_that_epoch() -> None:
    groups = StreamsGroups()
    groups.stable("a")
    groups.join("b")
    groups.settle()
    groups.send("b", -1)
    groups.owning("a", 3, active={SUB: (0,)})  # gets task 1 at epoch 4, has task 0 since epoch 2
    assert groups.group.members["a"].current.active == {SUB: {0: 2, 1: 4}}

    def commit(partition: int, topic: str = "t") -> Reply:
        offsets = [TopicOffsets(topic, [partition], [5], [-1], None, None)]
        return groups.ask(OffsetCommit("k", GROUP, 3, "a", None, -1, offsets))

    assert commit(0) == CommitReply(NONE)
    assert commit(1) == CommitReply(STALE_MEMBER_EPOCH)
    [event] = [each for each in groups.events if isinstance(each, CommitRejected)]
    assert event.detail == ("t-1 was assigned to the member in epoch 4, but the commit has epoch 3")
    assert commit(0, "unknown") == CommitReply(STALE_MEMBER_EPOCH)


def test_commit_for_a_revoking_task_is_accepted() -> None:
    groups = StreamsGroups()
    groups.stable("a")
    groups.join("b")
    groups.owning("a", 2, active={SUB: (0, 1)})
    offsets = [TopicOffsets("t", [1], [5], [-1], None, None)]
    assert groups.ask(OffsetCommit("k", GROUP, 2, "a", None, -1, offsets)) == CommitReply(NONE)


def test_admin_client_commits_and_deletes_offsets_of_an_empty_streams_group() -> None:
    groups = StreamsGroups()
    groups.stable("a")
    groups.send("a", -1)
    assert groups.ask(OffsetCommit("k", GROUP, -1, "", None, -1, OFFSETS)) == CommitReply(NONE)
    reply = groups.ask(OffsetDelete("k", GROUP, [("t", [0])]))
    assert reply == OffsetDeleteReply(NONE, [("t", [(0, NONE)])])


def test_empty_streams_group_without_offsets_is_removed_by_the_retention_check() -> None:
    groups = StreamsGroups()
    groups.stable("a")
    groups.send("a", -1)
    groups.pass_ms(groups.config.offsets_retention_check_interval_ms + 1_000)
    assert GROUP not in groups.shard.view.streams_groups
    assert groups.kinds() == "20T 17T 23T"
    groups.check_loaded()


def test_offsets_of_an_empty_streams_group_expire_after_their_retention() -> None:
    times = {"offsets_retention_ms": 60_000, "offsets_retention_check_interval_ms": 10_000}
    groups = StreamsGroups(**times)
    groups.stable("a")
    groups.ask(OffsetCommit("k", GROUP, 2, "a", None, -1, OFFSETS))
    for _ in range(6):
        groups.pass_ms(20_000)
        groups.send("a", 2)
    assert groups.shard.view.offsets.has_offsets(GROUP)  # its member still reads the topic
    groups.send("a", -1)
    groups.pass_ms(50_000)
    assert groups.shard.view.offsets.has_offsets(GROUP)
    groups.pass_ms(30_000)
    assert not groups.shard.view.offsets.has_offsets(GROUP)
    assert GROUP not in groups.shard.view.streams_groups


# ------------------------------------------------------------------------------- list and describe


@pytest.mark.parametrize(
    ("states", "types", "is_listed"),
    [
        ((), (), True),
        (("notready",), ("streams",), True),
        (("not_ready",), ("Streams", "classic"), True),
        (("stable",), (), False),
        ((), ("consumer", "classic", "share"), False),
    ],
)
def test_streams_group_is_listed_by_state_and_type(
    states: tuple[str, ...], types: tuple[str, ...], is_listed: bool
) -> None:
    groups = StreamsGroups()
    groups.join("a", topology=STATEFUL)
    reply = groups.ask(ListGroups("k", frozenset(states), frozenset(types)))
    listed = [ListedGroup(GROUP, "streams", "NotReady", "streams")]
    assert reply == ListReply(NONE, listed if is_listed else [])


def test_streams_group_describe_returns_topology_members_and_tasks() -> None:
    groups = StreamsGroups()
    groups.topic(STORE.name, 2)
    groups.stable("a", "b", topology=STATEFUL)
    reply = groups.ask(StreamsGroupDescribe("k", GROUP))
    assert isinstance(reply, StreamsDescribeReply)
    assert (reply.state, reply.epoch, reply.target_epoch) == ("Stable", 3, 3)
    subtopology = replace(
        STATEFUL.subtopologies[0], state_changelog_topics=(replace(STORE, partitions=2),)
    )
    assert reply.topology == Topology(0, (subtopology,))
    members = groups.group.members
    assert reply.members == (
        DescribedStreamsMember(
            "a", members["a"].metadata, 3, TaskRoles({SUB: (0,)}), TaskRoles({SUB: (0,)})
        ),
        DescribedStreamsMember(
            "b", members["b"].metadata, 3, TaskRoles({SUB: (1,)}), TaskRoles({SUB: (1,)})
        ),
    )


def test_description_of_a_streams_group_in_state_not_ready_has_the_topology_of_its_member() -> None:
    groups = StreamsGroups()
    groups.join("a", topology=STATEFUL)
    reply = groups.ask(StreamsGroupDescribe("k", GROUP))
    assert isinstance(reply, StreamsDescribeReply)
    assert (reply.state, reply.topology) == ("NotReady", STATEFUL)


@pytest.mark.parametrize(
    ("group_id", "text"),
    [("new", "Group new not found."), ("old", "Group old is not a streams group.")],
)
def test_streams_group_describe_of_another_group_type_gets_the_error_of_kafka(
    group_id: str, text: str
) -> None:
    groups = StreamsGroups()
    groups.ask(OffsetCommit("k", "old", -1, "", None, -1, OFFSETS))
    reply = groups.ask(StreamsGroupDescribe("k", group_id))
    assert reply == StreamsDescribeReply(GROUP_ID_NOT_FOUND, group_id, text)


def test_deletion_of_a_streams_group_writes_tombstones_in_the_order_of_kafka() -> None:
    groups = StreamsGroups()
    groups.stable("a")
    groups.ask(OffsetCommit("k", GROUP, 2, "a", None, -1, OFFSETS))
    groups.send("a", -1)
    groups.take(groups.shard.handle(DeleteGroup("k", GROUP), groups.now))
    while groups.shard.is_sweeping:
        groups.take(groups.shard.expire(groups.now, 100))
    assert groups.kinds() == "20T 17T 23T"
    assert GROUP not in groups.shard.view.groups
    assert not groups.shard.view.offsets.has_offsets(GROUP)
    groups.check_loaded()
    assert groups.join("a").member_epoch == 2


def test_view_of_a_streams_group_shows_owned_and_awaited_partitions_of_members() -> None:
    groups = StreamsGroups()
    groups.stable("a")
    groups.join("b")
    groups.owning("a", 2, active={SUB: (0, 1)})
    view = groups.shard.view.groups[GROUP]
    assert (view.type, view.protocol_type) == ("streams", "streams")
    assert view.state.value == "Reconciling"
    assert view.subscribed_topics == {"t"}
    first, second = view.members["a"].reconciliation, view.members["b"].reconciliation
    assert first is not None
    assert second is not None
    assert (first.state, first.target, first.revoking) == ("UNREVOKED", {"t": [0]}, {"t": [1]})
    assert first.revoke_until_ms == groups.now_ms + 60_000
    assert (second.state, second.waits_for) == ("UNRELEASED", [("t", 1, "a")])
    assert view.members["b"].subscription == ["t"]
    by_state, members = groups.shard.view.counts()
    assert (by_state["Reconciling"], members) == (1, 2)


# ------------------------------------------------------------------------------------ other replies


def test_streams_calls_get_the_error_of_a_loading_or_failed_shard() -> None:
    call = StreamsHeartbeat("k", GROUP, "a", 0, "c", "/h")
    assert loading_error(call) == COORDINATOR_LOAD_IN_PROGRESS
    assert refusal(call, NOT_COORDINATOR) == StreamsHeartbeatReply(NOT_COORDINATOR)
    reply = StreamsHeartbeatReply(NONE, None, "a", 2)
    assert failed(reply, NOT_COORDINATOR) == StreamsHeartbeatReply(NOT_COORDINATOR)
    described = StreamsDescribeReply(NONE, GROUP, state="Stable", topology=TOPOLOGY)
    assert failed(described, NOT_COORDINATOR) == StreamsDescribeReply(NOT_COORDINATOR, GROUP)


def test_streams_group_and_its_offsets_are_restored_by_a_load() -> None:
    groups = StreamsGroups()
    groups.stable("a")
    groups.ask(OffsetCommit("k", GROUP, 2, "a", None, -1, OFFSETS))
    shard = load(batches_of(groups.log), groups.config, groups.now, groups.image)
    assert shard.view.groups[GROUP].type == "streams"
    assert shard.view.offsets.has_offsets(GROUP)
