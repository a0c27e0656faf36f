"""ShareGroupHeartbeat: the order of the checks, the written records, and the replies."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator import on_command
from coordinator.calls import JoinGroup, OffsetCommit, TopicOffsets
from coordinator.consumer.events import EpochBumped, EpochCause, GroupReconciled, TargetComputed
from coordinator.outcome import ShareHeartbeatReply
from coordinator.share.events import ShareMemberRemoved, ShareStateWanted
from coordinator.topics_image import Topic
from offsets.share_records import (
    ShareCurrentAssignment,
    ShareCurrentRecord,
    ShareEpochRecord,
    ShareGroupEpoch,
    ShareMemberMetadata,
    ShareMemberRecord,
    ShareTargetEpoch,
    ShareTargetEpochRecord,
    ShareTargetRecord,
    StatePartitions,
    StatePartitionsRecord,
)
from protocol.errors import (
    FENCED_MEMBER_EPOCH,
    GROUP_ID_NOT_FOUND,
    GROUP_MAX_SIZE_REACHED,
    INVALID_REQUEST,
    NONE,
    UNKNOWN_MEMBER_ID,
)
from tests.coordinator.consumer.groups import WALL_MS
from tests.coordinator.share.groups import GROUP, ShareGroups, T, U

HOST = "/127.0.0.1"


@pytest.fixture
def groups() -> ShareGroups:
    return ShareGroups()


# ------------------------------------------------------------------------------------- the checks


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        (
            {"member_id": " ", "group_id": "", "epoch": 5},
            INVALID_REQUEST,
            "MemberId can't be empty.",
        ),
        ({"group_id": " ", "rack_id": ""}, INVALID_REQUEST, "GroupId can't be empty."),
        ({"rack_id": " ", "epoch": 0}, INVALID_REQUEST, "RackId can't be empty."),
        ({"epoch": 0}, INVALID_REQUEST, "SubscribedTopicNames must be set in first request."),
        (
            {"epoch": 0, "subscribed_topics": []},
            INVALID_REQUEST,
            "SubscribedTopicNames must be set in first request.",
        ),
        ({"epoch": -2, "group_id": "new"}, INVALID_REQUEST, "MemberEpoch is invalid."),
        ({"epoch": -1, "group_id": "new"}, GROUP_ID_NOT_FOUND, "Group new not found."),
        ({"epoch": 1, "group_id": "new"}, GROUP_ID_NOT_FOUND, "Share group new not found."),
        ({"epoch": -1, "group_id": "old"}, GROUP_ID_NOT_FOUND, "Group old is not a share group."),
        ({"epoch": 7, "group_id": "old"}, GROUP_ID_NOT_FOUND, "Group old is not a share group."),
        (
            {"epoch": 0, "group_id": "old", "subscribed_topics": ["t"]},
            GROUP_ID_NOT_FOUND,
            "Group old is not a share group.",
        ),
        (
            {"epoch": -1, "member_id": "z"},
            UNKNOWN_MEMBER_ID,
            "Member z is not a member of group g.",
        ),
        (
            {"epoch": 1, "member_id": "z"},
            GROUP_MAX_SIZE_REACHED,
            "The share group has reached its maximum capacity of 2 members.",
        ),
        (
            {"epoch": 9},
            FENCED_MEMBER_EPOCH,
            "The share group member has a greater member epoch (9) than the one known by the group"
            " coordinator (4). The member must abandon all its partitions and rejoin.",
        ),
        (
            {"epoch": 2},
            FENCED_MEMBER_EPOCH,
            "The share group member has a smaller member epoch (2) than the one known by the group"
            " coordinator (4), and it does not match the previous member epoch (3). The member must"
            " abandon all its partitions and rejoin.",
        ),
        ({"epoch": 3}, NONE, None),
        ({"epoch": 4}, NONE, None),
        ({"epoch": 0, "subscribed_topics": ["t"]}, NONE, None),
        ({"epoch": -1}, NONE, None),
    ],
)
def test_first_failing_check_of_a_share_heartbeat_determines_the_error(
    fields: dict[str, Any], error: int, text: str | None
) -> None:
    groups = ShareGroups(share_max_size=2)
    commit = [TopicOffsets("t", [0], [1], [-1], None, None)]
    groups.ask(OffsetCommit("k", "old", -1, "", None, -1, commit))
    assert groups.stable("a", "b") == 4
    reply = groups.send(fields.pop("member_id", "a"), fields.pop("epoch", 4), **fields)
    assert (reply.error_code, reply.error_message) == (error, text)
    if error:
        assert reply == ShareHeartbeatReply(error, text)
        assert groups.written == []


def test_heartbeat_of_an_unknown_member_is_refused_with_unknown_member_id(
    groups: ShareGroups,
) -> None:
    groups.join("a")
    reply = groups.send("z", 2)
    assert reply == ShareHeartbeatReply(UNKNOWN_MEMBER_ID, "Member z is not a member of group g.")


@pytest.mark.parametrize("is_empty", [True, False])
def test_share_heartbeat_for_a_classic_group_is_refused(
    groups: ShareGroups, is_empty: bool
) -> None:
    if not is_empty:
        call = JoinGroup(
            "k", GROUP, "", None, "c", HOST, 30_000, 30_000, "consumer", [("range", b"")], None,
            False, False, "x",
        )  # fmt: skip
        groups.take(groups.shard.handle(call, groups.now))
    else:
        commit = [TopicOffsets("t", [0], [1], [-1], None, None)]
        groups.ask(OffsetCommit("k", GROUP, -1, "", None, -1, commit))
    assert groups.join("a").error_code == GROUP_ID_NOT_FOUND


# ----------------------------------------------------------------------- records, as in Kafka 4.3.1


def test_share_group_writes_the_records_of_kafka_from_creation_to_deletion(
    groups: ShareGroups,
) -> None:
    """Kafka 4.3.1 wrote the expected records, in this order, for the same requests."""
    reply = groups.join("a")
    assert reply == ShareHeartbeatReply(NONE, None, "a", 2, 5_000, {})
    metadata_hash = groups.image.metadata_hash(["t"])
    at_ms = WALL_MS + groups.now_ms
    assert groups.written == [
        ShareMemberRecord("a", ShareMemberMetadata(None, "client", HOST, ("t",))),
        ShareEpochRecord(ShareGroupEpoch(2, metadata_hash)),
        ShareTargetRecord("a", {}),
        ShareTargetEpochRecord(ShareTargetEpoch(2, at_ms)),
        ShareCurrentRecord("a", ShareCurrentAssignment(2, 0, 0, {})),
        StatePartitionsRecord(StatePartitions({T: ("t", (0, 1))})),
    ]
    assert groups.wanted() == ShareStateWanted(GROUP, {T: (0, 1)}, 2)

    groups.initialize()
    assert groups.written == [StatePartitionsRecord(StatePartitions({}, {T: ("t", (0, 1))}))]

    reply = groups.send("a", 2)
    assert reply == ShareHeartbeatReply(NONE, None, "a", 3, 5_000, {T: (0, 1)})
    assert groups.written == [
        ShareEpochRecord(ShareGroupEpoch(3, metadata_hash)),
        ShareTargetRecord("a", {T: (0, 1)}),
        ShareTargetEpochRecord(ShareTargetEpoch(3, at_ms)),
        ShareCurrentRecord("a", ShareCurrentAssignment(3, 2, 0, {T: (0, 1)})),
    ]
    assert groups.wanted() is None

    reply = groups.send("a", -1)
    assert reply == ShareHeartbeatReply(NONE, None, "a", -1)
    assert groups.written == [
        ShareCurrentRecord("a", None),
        ShareTargetRecord("a", None),
        ShareMemberRecord("a", None),
        ShareEpochRecord(ShareGroupEpoch(4, 0)),
    ]
    groups.check_loaded()


def test_heartbeat_without_a_change_writes_no_record_and_returns_no_assignment(
    groups: ShareGroups,
) -> None:
    epoch = groups.stable("a")
    for _ in range(3):
        reply = groups.send("a", epoch)
        assert reply == ShareHeartbeatReply(NONE, None, "a", epoch, 5_000, None)
        assert groups.written == []
    assert groups.send("a", epoch) is groups.send("a", epoch)
    assert groups.send("a", epoch, subscribed_topics=["t"]).assignment == {T: (0, 1)}
    assert groups.written == []


def test_partition_is_assigned_to_several_members_if_members_exceed_partitions(
    groups: ShareGroups,
) -> None:
    groups.stable("a", "b", "c")
    held = [each.current.assigned[T] for each in groups.group.members.values()]
    assert sorted(n for numbers in held for n in numbers) == [0, 0, 1, 1]
    groups.check_loaded()


def test_existing_member_gets_its_new_target_at_its_next_heartbeat(groups: ShareGroups) -> None:
    groups.stable("a")
    assert groups.join("b").assignment == {T: (0,)}
    assert groups.kinds() == "10 11 13 13 12 14"
    assert groups.group.members["a"].current.assigned == {T: (0, 1)}
    reply = groups.send("a", 3)
    assert (reply.member_epoch, reply.assignment) == (4, {T: (1,)})
    assert groups.kinds() == "14"


def test_changed_client_host_changes_the_member_record_but_not_the_group_epoch(
    groups: ShareGroups,
) -> None:
    epoch = groups.stable("a")
    assert groups.send("a", epoch, client_host="/10.0.0.9").member_epoch == epoch
    assert groups.kinds() == "10"
    assert groups.send("a", epoch, rack_id="r").member_epoch == epoch
    assert groups.kinds() == "10"


def test_changed_subscription_changes_the_assignment_immediately(groups: ShareGroups) -> None:
    groups.topics(u=1)
    epoch = groups.stable("a")
    reply = groups.send("a", epoch, subscribed_topics=["u"])
    assert (reply.member_epoch, reply.assignment) == (epoch + 1, {})
    assert groups.kinds() == "10 11 13 12 14 15"
    assert groups.group.stored == StatePartitions({U: ("u", (0,))}, {T: ("t", (0, 1))})
    groups.initialize()
    assert groups.send("a", epoch + 1).assignment == {U: (0,)}
    groups.check_loaded()


def test_unsubscribed_topic_is_unassigned_before_the_assignment_interval_ends() -> None:
    groups = ShareGroups(interval_ms=1_000)
    groups.topics(u=1)
    groups.join("a")
    groups.initialize()
    groups.now_ms += 1_000
    assert groups.send("a", 2).assignment == {T: (0, 1)}
    reply = groups.send("a", 3, subscribed_topics=["u"])
    assert (reply.member_epoch, reply.assignment) == (3, {})
    assert groups.kinds() == "10 11 14 15"
    groups.initialize()
    groups.now_ms += 1_000
    reply = groups.send("a", 3)
    assert (reply.member_epoch, reply.assignment) == (4, {U: (0,)})
    groups.check_loaded()


def test_new_partitions_are_initialized_and_then_assigned(groups: ShareGroups) -> None:
    epoch = groups.stable("a")
    groups.topics(t=3)
    groups.send("a", epoch)
    assert groups.kinds() == "11 12 14 15"
    assert groups.wanted() == ShareStateWanted(GROUP, {T: (2,)}, epoch + 1)
    groups.initialize()
    assert groups.send("a", epoch + 1).assignment == {T: (0, 1, 2)}


def test_subscribed_topic_that_does_not_exist_is_assigned_after_its_creation(
    groups: ShareGroups,
) -> None:
    assert groups.join("a", "u").assignment == {}
    assert groups.kinds() == "10 11 13 12 14"
    assert groups.group.epoch == ShareGroupEpoch(2, 0)
    groups.send("a", 2)
    assert groups.written == []
    groups.image.put(Topic(U, "u", 1))
    groups.shard.topic_changed("u")
    groups.send("a", 2)
    assert groups.kinds() == "11 12 14 15"
    groups.initialize()
    assert groups.send("a", 3).assignment == {U: (0,)}


# ------------------------------------------------------------------------------ initialization


def test_initialization_of_share_partitions_is_requested_again_after_30_s(
    groups: ShareGroups,
) -> None:
    groups.join("a")
    groups.now_ms += 29_999
    groups.send("a", 2)
    assert (groups.kinds(), groups.wanted()) == ("", None)
    groups.now_ms += 1
    groups.send("a", 2)
    assert groups.kinds() == "15"
    assert groups.wanted() == ShareStateWanted(GROUP, {T: (0, 1)}, 2)


def test_failed_initialization_of_share_partitions_is_repeated_at_next_heartbeat(
    groups: ShareGroups,
) -> None:
    groups.join("a")
    groups.take(groups.shard.share_state_initialized(GROUP, {T: (0, 1)}, groups.now, 15))
    assert groups.written == [StatePartitionsRecord(StatePartitions())]
    groups.send("a", 2)
    assert groups.wanted() == ShareStateWanted(GROUP, {T: (0, 1)}, 2)
    groups.initialize()
    assert groups.send("a", 2).assignment == {T: (0, 1)}


def test_only_initialized_partitions_of_a_topic_are_assigned(groups: ShareGroups) -> None:
    groups.join("a")
    groups.take(groups.shard.share_state_initialized(GROUP, {T: (1,)}, groups.now))
    assert groups.group.stored == StatePartitions({T: ("t", (0,))}, {T: ("t", (1,))})
    assert groups.send("a", 2).assignment == {T: (1,)}
    groups.take(groups.shard.share_state_initialized(GROUP, {T: (0,)}, groups.now))
    assert groups.send("a", 3).assignment == {T: (0, 1)}


def test_initialization_for_a_removed_share_group_has_no_effect(groups: ShareGroups) -> None:
    groups.take(groups.shard.share_state_initialized(GROUP, {T: (0, 1)}, groups.now))
    assert groups.written == []
    assert not groups.shard.view.share_groups


# --------------------------------------------------------------------------- sessions and events


def test_silent_member_is_removed_when_its_session_expires(groups: ShareGroups) -> None:
    groups.stable("a", "b")
    groups.pass_ms(30_000)
    groups.send("a", groups.group.members["a"].current.epoch)
    groups.pass_ms(15_000)
    assert groups.kinds() == "14T 13T 10T 11"
    assert ShareMemberRemoved(GROUP, "b") in groups.events
    assert groups.group.members.keys() == {"a"}
    assert groups.send("a", groups.group.members["a"].current.epoch).assignment == {T: (0, 1)}
    groups.check_loaded()


def test_refused_heartbeat_does_not_extend_the_session(groups: ShareGroups) -> None:
    groups.stable("a")
    groups.pass_ms(40_000)
    assert groups.send("a", 99).error_code == FENCED_MEMBER_EPOCH
    groups.pass_ms(5_000)
    assert not groups.group.members


def test_events_of_a_share_group_report_cause_target_and_end_of_a_rebalance(
    groups: ShareGroups,
) -> None:
    groups.stable("a")
    groups.join("b")
    bumped, computed = [
        each for each in groups.events if isinstance(each, EpochBumped | TargetComputed)
    ]
    detail = "client (b) from 127.0.0.1 joined"
    assert bumped == EpochBumped(GROUP, 4, EpochCause.MEMBER_JOINED, "b", detail, ("a",), "share")
    assert computed == TargetComputed(GROUP, 4, "simple", 2, 2, "t-0 to b")
    groups.send("a", 3)
    assert GroupReconciled(GROUP, 4, 2) in groups.events
    groups.send("b", -1)
    [bumped] = [each for each in groups.events if isinstance(each, EpochBumped)]
    detail = "client (b) from 127.0.0.1 left"
    assert bumped == EpochBumped(GROUP, 5, EpochCause.MEMBER_LEFT, "b", detail, ("a",), "share")


def test_share_heartbeat_is_refused_when_the_new_assignment_is_too_large_for_a_batch() -> None:
    groups = ShareGroups(max_record_bytes=400)
    reply = groups.send("a", 0, subscribed_topics=[f"topic-{n}" for n in range(100)])
    assert reply.error_code == GROUP_MAX_SIZE_REACHED
    assert groups.written == []
    assert not groups.shard.view.share_groups


# ---------------------------------------------------------------------------------- test commands


def test_rebalance_command_of_test_mode_raises_the_epoch_and_moves_no_partition(
    groups: ShareGroups,
) -> None:
    epoch = groups.stable("a")
    groups.take(groups.shard.do(lambda step: on_command.rebalance(step, GROUP), groups.now))
    assert groups.kinds() == "11"
    reply = groups.send("a", epoch)
    assert (reply.member_epoch, reply.assignment) == (epoch + 1, None)
    assert groups.kinds() == "12 14"
    groups.check_loaded()


def test_expire_command_of_test_mode_removes_the_share_member(groups: ShareGroups) -> None:
    groups.stable("a", "b")
    groups.take(groups.shard.do(lambda step: on_command.expire(step, GROUP, "b"), groups.now))
    assert ShareMemberRemoved(GROUP, "b") in groups.events
    assert groups.group.members.keys() == {"a"}
