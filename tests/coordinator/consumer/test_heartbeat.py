"""ConsumerGroupHeartbeat has the results that a running Kafka 4.3.1 returned."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.consumer.states import ConsumerGroupState
from offsets.consumer_records import GroupEpoch
from protocol.errors import (
    FENCED_INSTANCE_ID,
    FENCED_MEMBER_EPOCH,
    GROUP_ID_NOT_FOUND,
    GROUP_MAX_SIZE_REACHED,
    INVALID_REGULAR_EXPRESSION,
    INVALID_REQUEST,
    UNKNOWN_MEMBER_ID,
    UNRELEASED_INSTANCE_ID,
    UNSUPPORTED_ASSIGNOR,
)
from tests.coordinator.consumer.groups import Groups, T, U


def test_first_member_gets_epoch_2_and_all_partitions() -> None:
    groups = Groups()
    reply = groups.join("a")
    assert (reply.error_code, reply.member_id, reply.member_epoch) == (0, "a", 2)
    assert reply.assignment == {T: (0, 1)}
    assert reply.heartbeat_interval_ms == 5_000
    assert groups.kinds() == "5 3 7 6 8"
    assert groups.group.state() is ConsumerGroupState.STABLE
    groups.check_loaded()


def test_members_send_heartbeats_more_often_after_a_new_target() -> None:
    groups = Groups(consumer_rebalance_heartbeat_interval_ms=500)
    assert groups.join("a").heartbeat_interval_ms == 500
    assert groups.join("b").heartbeat_interval_ms == 500
    intervals = []
    for passed_ms in (300, 500, 1_200, 2_500, 4_000):
        groups.pass_ms(passed_ms)
        intervals.append(groups.send("b", 3).heartbeat_interval_ms)
    assert intervals == [500, 800, 2_000, 4_500, 5_000]


def test_member_without_changes_gets_a_short_heartbeat_interval_after_a_new_target() -> None:
    groups = Groups(consumer_rebalance_heartbeat_interval_ms=500)
    groups.join("a")
    groups.pass_ms(700)
    assert groups.send("a", 2).heartbeat_interval_ms == 700
    groups.pass_ms(4_300)
    assert groups.send("a", 2).heartbeat_interval_ms == 5_000


def test_partitions_move_between_two_members_step_by_step() -> None:
    groups = Groups()
    groups.join("a")
    reply = groups.join("b")
    assert (reply.member_epoch, reply.assignment) == (3, {})  # not None: it has no partitions
    assert groups.kinds() == "5 3 7 7 6 8"
    assert groups.group.state() is ConsumerGroupState.RECONCILING
    reply = groups.send("a", 2)
    assert (reply.member_epoch, reply.assignment) == (2, {T: (0,)})
    assert groups.kinds() == "8"
    reply = groups.send("b", 3)
    assert (reply.member_epoch, reply.assignment) == (3, None)
    reply = groups.send("a", 2, owned={T: [0]})
    assert (reply.member_epoch, reply.assignment) == (3, None)
    reply = groups.send("b", 3)
    assert (reply.member_epoch, reply.assignment) == (3, {T: (1,)})
    assert groups.group.state() is ConsumerGroupState.STABLE
    groups.check_loaded()


def test_heartbeat_without_a_change_writes_no_record() -> None:
    groups = Groups()
    groups.join("a")
    reply = groups.send("a", 2)
    assert (reply.error_code, reply.member_epoch, reply.assignment) == (0, 2, None)
    assert groups.written == []


def test_new_target_is_computed_only_after_the_assignment_interval() -> None:
    groups = Groups(interval_ms=1_000)
    groups.join("a")
    reply = groups.join("b")
    assert (reply.member_epoch, reply.assignment) == (2, {})
    assert groups.group.state() is ConsumerGroupState.ASSIGNING
    groups.pass_ms(1_000)
    assert groups.send("a", 2).assignment == {T: (0,)}


def test_rejoin_with_epoch_0_returns_the_assignment_and_keeps_the_epoch() -> None:
    groups = Groups()
    groups.join("a")
    epoch = groups.group.epoch
    reply = groups.join("a")
    assert (reply.member_epoch, reply.assignment) == (2, {T: (0, 1)})
    assert groups.group.epoch == epoch
    assert groups.written == []


def test_previous_member_epoch_is_accepted_if_member_owns_only_assigned_partitions() -> None:
    groups = Groups()
    groups.join("a")
    groups.join("b")
    groups.send("a", 2)
    groups.send("a", 2, owned={T: [0]})  # epoch 3; imagine that the response was lost
    assert groups.send("a", 2, owned={T: [0]}).error_code == 0
    assert groups.send("a", 2, owned={}).error_code == 0
    assert groups.send("a", 2).error_code == FENCED_MEMBER_EPOCH
    assert groups.send("a", 2, owned={T: [0, 1]}).error_code == FENCED_MEMBER_EPOCH
    assert groups.send("a", 4).error_code == FENCED_MEMBER_EPOCH


def test_refused_heartbeat_does_not_renew_the_session() -> None:
    groups = Groups()
    groups.join("a")
    groups.pass_ms(40_000)
    assert groups.send("a", 9).error_code == FENCED_MEMBER_EPOCH
    groups.pass_ms(6_000)
    assert groups.send("a", 2).error_code == UNKNOWN_MEMBER_ID


def test_session_expiry_removes_the_member_and_its_partitions_move() -> None:
    groups = Groups()
    groups.join("a")
    groups.join("b")
    groups.send("a", 2, owned={T: [0]})
    groups.send("b", 3)
    groups.pass_ms(30_000)
    groups.send("b", 3)
    groups.pass_ms(15_000)
    assert groups.kinds() == "8T 7T 5T 3"
    assert set(groups.group.members) == {"b"}
    assert groups.send("b", 3).assignment == {T: (0, 1)}
    assert groups.send("a", 3).error_code == UNKNOWN_MEMBER_ID
    groups.check_loaded()


def test_group_epoch_rises_for_each_of_several_members_that_expire_together() -> None:
    groups = Groups()
    groups.join("a")
    groups.join("b")
    groups.pass_ms(45_000)
    assert groups.group.members == {}
    assert groups.group.epoch == GroupEpoch(5)  # the last one leaves no topics
    assert groups.kinds() == "8T 7T 5T 3"
    groups.check_loaded()


def test_member_that_does_not_confirm_a_revocation_is_removed_at_its_timeout() -> None:
    groups = Groups()
    groups.send("a", 0, subscribed_topics=("t",), owned={}, rebalance_timeout_ms=20_000)
    groups.join("b")
    groups.send("a", 2)
    for _ in range(3):  # it heartbeats all the while
        groups.pass_ms(6_000)
        assert groups.send("a", 2).error_code == 0
        groups.send("b", 3)
    groups.pass_ms(2_000)
    assert set(groups.group.members) == {"b"}
    assert groups.send("b", 3).assignment == {T: (0, 1)}
    groups.check_loaded()


def test_member_that_leaves_is_removed_immediately() -> None:
    groups = Groups()
    groups.join("a")
    reply = groups.send("a", -1)
    assert (reply.error_code, reply.member_epoch, reply.heartbeat_interval_ms) == (0, -1, 0)
    assert groups.kinds() == "8T 7T 5T 3"
    assert groups.group.epoch.metadata_hash == 0
    assert groups.group.state() is ConsumerGroupState.EMPTY
    assert groups.shard.next_deadline() is not None  # the retention check alone
    groups.check_loaded()


def test_join_without_a_subscription_writes_only_the_records_of_the_member() -> None:
    groups = Groups()
    reply = groups.send("a", 0, subscribed_topics=(), owned={}, rebalance_timeout_ms=1)
    assert (reply.member_epoch, reply.assignment) == (1, {})
    assert groups.kinds() == "5 8"
    groups.check_loaded()


def test_topic_that_does_not_exist_is_assigned_when_it_is_created() -> None:
    groups = Groups()
    assert groups.join("a", "t", "u").assignment == {T: (0, 1)}
    groups.topics(u=1)
    assert groups.send("a", 2).assignment == {T: (0, 1), U: (0,)}
    assert groups.kinds() == "3 7 6 8"


def test_topic_with_added_partitions_is_assigned_again() -> None:
    groups = Groups()
    groups.join("a")
    groups.topics(t=3)
    assert groups.send("a", 2).assignment == {T: (0, 1, 2)}
    groups.topics(x=3)
    assert groups.send("a", 3).assignment is None
    assert groups.written == []


def test_unsubscribed_topic_is_revoked_before_a_new_target_is_computed() -> None:
    groups = Groups(interval_ms=60_000)
    groups.topics(u=1)
    groups.join("a", "t", "u")
    reply = groups.send("a", 2, subscribed_topics=("t",), owned={T: [0, 1]})
    assert (reply.member_epoch, reply.assignment) == (2, {T: (0, 1)})
    groups.check_loaded()


def test_member_record_is_written_again_when_the_client_id_changes() -> None:
    groups = Groups()
    groups.join("a")
    groups.send("a", 2, client_id="other")
    assert groups.kinds() == "5"
    assert groups.group.members["a"].metadata.client_id == "other"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"member_id": " "}, "MemberId"),
        ({"group": "\t"}, "GroupId"),
        ({"instance_id": ""}, "InstanceId"),
        ({"rack_id": " "}, "RackId"),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs"),
        ({"owned": None}, "TopicPartitions"),
        ({"owned": {T: [0]}}, "TopicPartitions"),
        ({"subscribed_topics": None}, "SubscribedTopicNames"),
        ({"epoch": -2}, "InstanceId"),
        ({"epoch": -3}, "MemberEpoch"),
    ],
)
def test_malformed_heartbeat_is_refused_with_an_error_message(
    fields: dict[str, Any], message: str
) -> None:
    groups = Groups()
    values: dict[str, Any] = {
        "member_id": "a", "epoch": 0, "rebalance_timeout_ms": 1, "owned": {},
        "subscribed_topics": ("t",), **fields,
    }  # fmt: skip
    reply = groups.send(**values)
    assert reply.error_code == INVALID_REQUEST
    assert message in (reply.error_message or "")
    assert groups.shard.view.consumer_groups == {}


def test_unknown_assignor_is_refused_before_the_group_is_checked() -> None:
    reply = Groups().send("a", 7, server_assignor="sticky")
    assert reply.error_code == UNSUPPORTED_ASSIGNOR
    assert "uniform, range" in (reply.error_message or "")


@pytest.mark.parametrize("epoch", [1, -1])
def test_heartbeat_of_an_unknown_group_is_refused(epoch: int) -> None:
    assert Groups().send("a", epoch).error_code == GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("epoch", [1, -1])
def test_heartbeat_of_an_unknown_member_is_refused(epoch: int) -> None:
    groups = Groups()
    groups.join("a")
    assert groups.send("b", epoch).error_code == UNKNOWN_MEMBER_ID


def test_full_consumer_group_refuses_only_new_members() -> None:
    groups = Groups(consumer_max_size=1)
    groups.join("a")
    assert groups.join("b").error_code == GROUP_MAX_SIZE_REACHED
    assert groups.join("a").error_code == 0


def test_invalid_regex_creates_neither_group_nor_member() -> None:
    groups = Groups()
    reply = groups.join("a", subscribed_regex="(", regex_error="missing )")
    assert (reply.error_code, reply.error_message) == (INVALID_REGULAR_EXPRESSION, "missing )")
    assert groups.shard.view.consumer_groups == {}


def test_heartbeat_is_refused_when_its_target_assignment_does_not_fit_a_batch() -> None:
    groups = Groups(max_record_bytes=300)
    groups.topics(t=1_000)
    assert groups.join("a").error_code == GROUP_MAX_SIZE_REACHED
    assert groups.shard.view.consumer_groups == {}


class TestStaticMembers:
    def test_join_with_the_instance_id_of_a_live_member_is_refused(self) -> None:
        groups = Groups()
        groups.join("a", instance_id="i")
        assert groups.join("b", instance_id="i").error_code == UNRELEASED_INSTANCE_ID
        assert groups.send("b", 2, instance_id="i").error_code == FENCED_INSTANCE_ID
        assert groups.send("b", -1, instance_id="i").error_code == FENCED_INSTANCE_ID
        assert groups.send("a", 2, instance_id="j").error_code == UNKNOWN_MEMBER_ID
        assert groups.join("a", instance_id="i").error_code == 0

    def test_static_member_that_leaves_temporarily_keeps_its_partitions(self) -> None:
        groups = Groups()
        groups.join("a", instance_id="i")
        reply = groups.send("a", -2, instance_id="i")
        assert (reply.error_code, reply.member_epoch) == (0, -2)
        assert groups.kinds() == "8"
        assert groups.send("a", 2).error_code == FENCED_MEMBER_EPOCH
        epoch = groups.group.epoch
        reply = groups.join("b", instance_id="i")
        assert (reply.member_epoch, reply.assignment) == (2, {T: (0, 1)})
        assert groups.kinds() == "8T 7T 5T 5 7 8 8"
        assert groups.group.epoch == epoch
        assert set(groups.group.members) == {"b"}
        groups.check_loaded()

    def test_static_member_that_does_not_return_is_removed_at_session_expiry(self) -> None:
        groups = Groups()
        groups.join("a", instance_id="i")
        groups.send("a", -2, instance_id="i")
        groups.pass_ms(45_000)
        assert groups.group.members == {}
        assert groups.group.static_members == {}
        groups.check_loaded()


def test_static_member_that_returns_with_its_member_id_keeps_its_session() -> None:
    groups = Groups()
    groups.join("a", instance_id="i")
    groups.send("a", -2, instance_id="i")
    reply = groups.join("a", instance_id="i")
    assert (reply.member_epoch, reply.assignment) == (2, {T: (0, 1)})
    assert groups.kinds() == "8T 7T 5T 5 7 8 8"
    groups.check_loaded()
    groups.pass_ms(44_999)
    assert "a" in groups.group.members
    groups.pass_ms(1)
    assert "a" not in groups.group.members
