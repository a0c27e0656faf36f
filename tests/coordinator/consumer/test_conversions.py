"""Online migration between classic and consumer groups has the results that a running Kafka 4.3.1
returned."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from coordinator.calls import (
    ConsumerHeartbeat,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    Leaver,
    OffsetCommit,
    SyncGroup,
    TopicOffsets,
    TxnOffsetCommit,
)
from coordinator.classic.group import Group
from coordinator.classic.states import State
from coordinator.config import BIDIRECTIONAL, DISABLED, DOWNGRADE, UPGRADE
from coordinator.consumer.states import ConsumerGroupState
from coordinator.outcome import JoinReply, Outcome, SyncReply
from offsets.runs import GroupRun
from protocol.consumer_protocol import (
    assigned_partitions,
    encode_assignment,
    encode_subscription,
)
from protocol.errors import (
    FENCED_INSTANCE_ID,
    GROUP_ID_NOT_FOUND,
    GROUP_MAX_SIZE_REACHED,
    ILLEGAL_GENERATION,
    INCONSISTENT_GROUP_PROTOCOL,
    MEMBER_ID_REQUIRED,
    NONE,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
)
from tests.coordinator.consumer.groups import GROUP, Groups, T, batches_of, load

SESSION_MS, REBALANCE_MS = 10_000, 60_000


class Mixed(Groups):
    """A consumer group with classic members, and methods for the requests of classic members."""

    def __init__(self, policy: str = BIDIRECTIONAL, **settings: Any) -> None:
        super().__init__(initial_rebalance_delay_ms=0, consumer_migration_policy=policy, **settings)

    def handle(self, call: Any) -> Outcome:
        return self.take(self.shard.handle(call, self.now))

    def ask(self, call: Any) -> Any:
        [(_, reply)] = self.handle(call).replies
        return reply

    def joins(self, member_id: str, *, ticket: str = "j", **more: Any) -> JoinGroup:
        fields: dict[str, Any] = {
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": [("range", encode_subscription(["t"]))],
            "member_id_required": False,
            "fresh_id": "fresh",
            "session_timeout_ms": SESSION_MS,
            **more,
        }
        return JoinGroup(
            ticket=ticket,
            group_id=GROUP,
            member_id=member_id,
            client_id="classic",
            client_host="/h",
            rebalance_timeout_ms=REBALANCE_MS,
            reason=None,
            supports_skip_assignment=False,
            **fields,
        )

    def syncs(self, member_id: str, generation: int, assignment: bytes | None = None) -> SyncGroup:
        given = [] if assignment is None else [(member_id, assignment)]
        return SyncGroup("s", GROUP, generation, member_id, None, None, None, given)

    @property
    def classic_group(self) -> Group:
        return self.shard.view.groups[GROUP]

    def reload(self) -> None:
        """Replaces the shard by one that is loaded from the log, as after a crash."""
        self.shard = load(batches_of(self.log), self.config, self.now, self.image)

    def beats(self, member_id: str, generation: int) -> int:
        code: int = self.ask(Heartbeat("h", GROUP, generation, member_id, None))
        return code

    def replies_at_the_upgrade(self) -> list[tuple[str, int]]:
        """Lets a consumer member join. Returns ticket and error code of each reply that this
        upgrade sends."""
        call = ConsumerHeartbeat(
            "c", GROUP, "a", 0, None, None, REBALANCE_MS, ["t"], None, None, {}, "c", "/h"
        )
        return [(ticket, reply.error_code) for ticket, reply in self.handle(call).replies]

    def one_classic_member(self, **more: Any) -> str:
        """Creates a stable classic group with one member that owns t-0 and t-1. Returns its member
        id."""
        reply = self.ask(self.joins("", **more))
        assert reply.error_code == NONE
        synced = self.ask(self.syncs(reply.member_id, 1, encode_assignment({"t": [0, 1]})))
        assert synced.error_code == NONE
        member_id: str = reply.member_id
        return member_id


def test_consumer_member_upgrades_a_classic_group_in_one_batch() -> None:
    groups = Mixed()
    classic = groups.one_classic_member()
    reply = groups.join("a")
    assert (reply.error_code, reply.member_epoch, reply.assignment) == (NONE, 2, {})
    assert groups.log[-2] == GroupRun(GROUP, None)
    assert groups.kinds() == "5 3 7 6 8 5 3 7 7 6 8"
    member = groups.group.members[classic]
    assert (member.current.epoch, member.current.assigned) == (1, {T: {0: 1, 1: 1}})
    assert member.metadata.classic is not None
    groups.check_loaded()


def test_classic_member_commits_with_its_generation_in_any_request_version() -> None:
    groups = Mixed()
    classic = groups.one_classic_member()
    groups.join("a")
    offsets = [TopicOffsets("t", [0], [5], [-1], None, None)]
    call = OffsetCommit("c", GROUP, 1, classic, None, -1, offsets)
    for knows_member_epochs in (False, True):
        call = replace(call, knows_member_epochs=knows_member_epochs)
        assert groups.ask(call).errors == NONE
        assert groups.ask(replace(call, generation_id=2)).errors == ILLEGAL_GENERATION
    transactional = TxnOffsetCommit("c", GROUP, 1, 0, 2, classic, None, offsets)
    transactional = replace(transactional, knows_member_epochs=True)
    assert groups.ask(transactional).errors == ILLEGAL_GENERATION


def test_classic_member_revokes_partitions_when_it_rejoins() -> None:
    groups = Mixed()
    classic = groups.one_classic_member()
    groups.join("a")
    assert groups.beats(classic, 1) == REBALANCE_IN_PROGRESS
    joined = groups.ask(groups.joins(classic))
    expected = JoinReply(NONE, classic, 2, "consumer", "range")
    assert joined == expected  # leader "", no members: it runs no assignor
    synced = groups.ask(groups.syncs(classic, 2))
    assert synced.error_code == NONE
    assert len(assigned_partitions(synced.assignment)["t"]) == 1
    assert groups.beats(classic, 2) == NONE
    reply = groups.send("a", 2)
    assert reply.assignment is not None
    assert sum(map(len, reply.assignment.values())) == 1
    groups.check_loaded()


def test_parked_join_group_gets_one_response_when_the_group_is_upgraded() -> None:
    groups = Mixed()
    classic = groups.one_classic_member()
    assert groups.handle(groups.joins("", ticket="parked", fresh_id="two")).replies == []
    assert ("parked", REBALANCE_IN_PROGRESS) in groups.replies_at_the_upgrade()
    assert groups.shard.view.parked() == set()
    assert classic in groups.group.members


def test_parked_sync_group_gets_its_response_when_the_group_is_upgraded() -> None:
    groups = Mixed()
    first = groups.ask(groups.joins("", ticket="1", fresh_id="one"))
    groups.ask(groups.syncs(first.member_id, 1, encode_assignment({"t": [0, 1]})))
    groups.handle(groups.joins("", ticket="2", fresh_id="two"))
    outcome = groups.handle(groups.joins(first.member_id, ticket="3"))
    follower = next(r.member_id for _, r in outcome.replies if r.member_id != first.member_id)
    assert groups.handle(groups.syncs(follower, 2)).replies == []
    assert ("s", REBALANCE_IN_PROGRESS) in groups.replies_at_the_upgrade()


@pytest.mark.parametrize("policy", [DISABLED, DOWNGRADE])
def test_upgrade_is_refused_when_the_migration_policy_forbids_upgrades(policy: str) -> None:
    groups = Mixed(policy)
    classic = groups.one_classic_member()
    reply = groups.join("a")
    assert reply.error_code == GROUP_ID_NOT_FOUND
    assert "group.consumer.migration.policy" in (reply.error_message or "")
    assert groups.beats(classic, 1) == NONE


@pytest.mark.parametrize(
    ("assignor", "error"), [("cooperative-sticky", NONE), ("mine", GROUP_ID_NOT_FOUND)]
)
def test_upgrade_is_refused_when_the_assignment_has_user_data_of_a_custom_assignor(
    assignor: str, error: int
) -> None:
    groups = Mixed()
    protocols = [(assignor, encode_subscription(["t"]))]
    reply = groups.ask(groups.joins("", protocols=protocols))
    with_data = encode_assignment({"t": [0]})[:-4] + b"\x00\x00\x00\x01x"
    groups.ask(groups.syncs(reply.member_id, 1, with_data))
    assert groups.join("a").error_code == error


def test_group_of_another_protocol_type_is_not_upgraded() -> None:
    groups = Mixed()
    groups.ask(groups.joins("", protocol_type="connect", protocols=[("x", b"")]))
    refused = groups.join("a")
    assert refused.error_code == GROUP_ID_NOT_FOUND
    assert "protocol type is connect" in (refused.error_message or "")


def test_static_classic_member_is_replaced_immediately() -> None:
    groups = Mixed()
    classic = groups.one_classic_member(group_instance_id="i")
    reply = groups.join("a", instance_id="i")
    assert (reply.error_code, reply.assignment) == (NONE, {T: (0, 1)})
    assert classic not in groups.group.members
    groups.check_loaded()


@pytest.mark.parametrize("policy", [BIDIRECTIONAL, DOWNGRADE])
def test_group_is_downgraded_when_its_last_consumer_member_leaves(policy: str) -> None:
    groups = Mixed()
    classic = groups.one_classic_member()
    groups.join("a")
    groups.ask(groups.joins(classic))
    groups.ask(groups.syncs(classic, 2))
    groups.shard.configure(Mixed(policy).config)
    groups.send("a", -1)
    assert groups.kinds() == "8T 8T 7T 7T 6T 5T 5T 4T 3T"
    assert isinstance(groups.log[-1], GroupRun)
    group = groups.shard.view.groups[GROUP]
    assert (group.state, group.generation_id) == (State.PREPARING_REBALANCE, 2)
    assert groups.beats(classic, 2) == REBALANCE_IN_PROGRESS
    rejoined = groups.ask(groups.joins(classic))
    assert (rejoined.generation_id, rejoined.leader) == (3, classic)
    groups.check_loaded()


def test_downgraded_group_rebalances_when_it_is_loaded_before_its_members_rejoin() -> None:
    groups = Mixed()
    classic = groups.one_classic_member()
    groups.join("a")
    groups.ask(groups.joins(classic))
    groups.send("a", -1)
    groups.reload()  # without a rebalance, the other partition would have no owner
    assert groups.classic_group.awaited().members == (classic,)
    assert groups.beats(classic, 2) == REBALANCE_IN_PROGRESS
    rejoined = groups.ask(groups.joins(classic))
    assert (rejoined.generation_id, rejoined.leader) == (3, classic)
    groups.ask(groups.syncs(classic, 3, encode_assignment({"t": [0, 1]})))
    groups.reload()
    assert groups.classic_group.state is State.STABLE


def mixed_and_stable(**of_consumer: Any) -> tuple[Mixed, str]:
    """Returns a stable group with a classic member and the consumer member "a", and the id of the
    classic member. Each member owns one partition."""
    groups = Mixed()
    classic = groups.one_classic_member()
    groups.join("a", **of_consumer)
    groups.ask(groups.joins(classic))
    groups.ask(groups.joins(classic))
    groups.send("a", 2)
    assert groups.group.state() is ConsumerGroupState.STABLE
    return groups, classic


@pytest.mark.parametrize("is_away", [False, True])
def test_group_is_downgraded_when_a_classic_join_replaces_its_last_consumer_member(
    is_away: bool,
) -> None:
    groups, classic = mixed_and_stable(instance_id="i")
    if is_away:
        groups.send("a", -2, instance_id="i")
    joined = groups.ask(groups.joins("", group_instance_id="i"))
    assert (joined.error_code, joined.generation_id, joined.leader) == (NONE, 2, classic)
    assert groups.classic_group.state is State.STABLE
    assert groups.beats(classic, 2) == NONE
    held = [
        assigned_partitions(groups.ask(groups.syncs(member_id, 2)).assignment)["t"]
        for member_id in (classic, joined.member_id)
    ]
    assert sorted(map(list, held)) == [[0], [1]]
    groups.check_loaded()
    groups.reload()
    assert groups.beats(joined.member_id, 2) == NONE


@pytest.mark.parametrize("instance_id", ["i", None])
def test_group_is_downgraded_when_its_last_consumer_member_sends_join_group(
    instance_id: str | None,
) -> None:
    groups, classic = mixed_and_stable(instance_id=instance_id)
    joined = groups.ask(groups.joins("a", group_instance_id=instance_id))
    assert (joined.error_code, joined.generation_id, joined.member_id) == (NONE, 2, "a")
    assert list(groups.classic_group.members) == [classic, "a"]
    assert groups.beats("a", 2) == NONE


def test_group_downgrade_causes_a_rebalance_when_the_last_join_changes_a_subscription() -> None:
    groups, classic = mixed_and_stable(instance_id="i")
    protocols = [("range", encode_subscription(["t", "u"]))]
    assert not groups.handle(groups.joins("", group_instance_id="i", protocols=protocols)).replies
    assert groups.beats(classic, 2) == REBALANCE_IN_PROGRESS
    outcome = groups.handle(groups.joins(classic, ticket="k"))
    assert [reply.generation_id for _, reply in outcome.replies] == [3, 3]


def test_downgraded_group_rebalances_when_a_partition_of_the_target_has_another_owner() -> None:
    groups = Mixed()
    classic = groups.one_classic_member()
    groups.join("a", instance_id="i")
    assert groups.handle(groups.joins("", group_instance_id="i")).replies == []
    assert groups.classic_group.awaited().members == (classic,)
    groups.reload()
    assert groups.classic_group.state is State.PREPARING_REBALANCE
    assert groups.beats(classic, 2) == REBALANCE_IN_PROGRESS


def test_group_is_not_downgraded_when_a_join_replaces_one_of_two_consumer_members() -> None:
    groups, classic = mixed_and_stable(instance_id="i")
    groups.join("b")
    joined = groups.ask(groups.joins("", group_instance_id="i"))
    assert (joined.error_code, joined.leader) == (NONE, "")
    assert groups.group.members.keys() == {classic, "b", joined.member_id}


def test_group_is_not_downgraded_when_its_classic_record_does_not_fit_a_batch() -> None:
    groups, classic = mixed_and_stable()
    config = groups.config
    for max_record_bytes in range(400, 100, -20):
        groups.config = replace(config, max_record_bytes=max_record_bytes)
        groups.reload()
        groups.send("a", -1)
        if GROUP in groups.shard.view.consumer_groups:
            break
        groups.log.pop()
        groups.log.pop()
    assert list(groups.group.members) == [classic]
    assert groups.beats(classic, 2) == NONE


def test_member_keeps_unrevoked_partitions_when_a_downgraded_group_is_upgraded() -> None:
    groups = Mixed()
    classic = groups.one_classic_member()
    assert groups.join("a").assignment == {}  # its target is t-1, which the classic member owns
    groups.send("a", -1)
    assert groups.shard.view.groups[GROUP].state is State.PREPARING_REBALANCE
    assert groups.join("b").assignment == {}
    assert groups.group.members[classic].current.assigned.keys() == {T}
    assert groups.group.holders == {(T, 0): classic, (T, 1): classic}


@pytest.mark.parametrize("policy", [DISABLED, UPGRADE])
def test_group_is_not_downgraded_when_the_policy_forbids_downgrades(policy: str) -> None:
    groups = Mixed()
    classic = groups.one_classic_member()
    groups.join("a")
    groups.shard.configure(Mixed(policy).config)
    groups.send("a", -1)
    assert classic in groups.group.members


def test_classic_join_is_refused_when_the_migration_policy_is_disabled() -> None:
    groups = Mixed(DISABLED)
    groups.join("a")
    assert groups.ask(groups.joins("")).error_code == INCONSISTENT_GROUP_PROTOCOL


def test_classic_join_without_a_member_id_is_answered_with_a_new_member_id() -> None:
    groups = Mixed()
    groups.join("a")
    reply = groups.ask(groups.joins("", member_id_required=True))
    assert (reply.error_code, reply.member_id) == (MEMBER_ID_REQUIRED, "fresh")
    assert groups.ask(groups.joins("fresh", member_id_required=True)).error_code == NONE


def test_classic_join_of_another_protocol_type_is_refused_and_gets_no_member_id() -> None:
    groups = Mixed()
    groups.join("a")
    reply = groups.ask(groups.joins("x", protocol_type="connect"))
    assert (reply.error_code, reply.member_id) == (INCONSISTENT_GROUP_PROTOCOL, "")


def test_classic_join_into_a_full_consumer_group_is_refused() -> None:
    groups = Mixed(consumer_max_size=1)
    groups.join("a")
    assert groups.ask(groups.joins("")).error_code == GROUP_MAX_SIZE_REACHED


def test_classic_join_with_the_instance_id_of_another_member_is_fenced() -> None:
    groups = Mixed()
    groups.join("a", instance_id="i")
    assert groups.ask(groups.joins("x", group_instance_id="i")).error_code == FENCED_INSTANCE_ID
    assert groups.ask(groups.joins("x", group_instance_id="j")).error_code == UNKNOWN_MEMBER_ID


def test_classic_requests_of_a_consumer_member_are_refused() -> None:
    groups = Mixed()
    groups.join("a")
    assert groups.beats("a", 2) == UNKNOWN_MEMBER_ID
    assert groups.ask(groups.syncs("a", 2)).error_code == UNKNOWN_MEMBER_ID


def test_sync_group_with_another_generation_or_protocol_is_refused() -> None:
    groups = Mixed()
    classic = groups.one_classic_member()
    groups.join("a")
    groups.ask(groups.joins(classic))
    assert groups.ask(groups.syncs(classic, 1)).error_code == ILLEGAL_GENERATION
    other = SyncGroup("s", GROUP, 2, classic, None, "consumer", "roundrobin", [])
    assert groups.ask(other) == SyncReply(INCONSISTENT_GROUP_PROTOCOL)


def test_classic_member_is_removed_when_its_rebalance_timeout_ends() -> None:
    groups = Mixed()
    classic = groups.one_classic_member()
    groups.join("a")
    for _ in range(12):
        assert groups.beats(classic, 1) == REBALANCE_IN_PROGRESS
        groups.send("a", 2)
        groups.pass_ms(REBALANCE_MS // 12)
    assert classic not in groups.group.members


def test_classic_member_is_removed_when_its_own_session_timeout_expires() -> None:
    groups = Mixed()
    classic = groups.one_classic_member()
    groups.join("a")
    groups.pass_ms(SESSION_MS - 1)
    assert classic in groups.group.members
    groups.pass_ms(1)
    assert classic not in groups.group.members


def test_group_is_downgraded_when_all_consumer_sessions_expire_together() -> None:
    groups = Mixed()
    classic = groups.one_classic_member(session_timeout_ms=100_000)
    groups.join("a")
    groups.join("b")
    groups.pass_ms(45_000)
    assert GROUP not in groups.shard.view.consumer_groups
    assert list(groups.shard.view.groups[GROUP].members) == [classic]


def test_leave_group_with_only_an_instance_id_removes_a_consumer_member() -> None:
    groups = Mixed()
    groups.join("a", instance_id="i")
    groups.join("b")
    reply = groups.ask(LeaveGroup("l", GROUP, [Leaver("", "i", None), Leaver("x", None, None)]))
    assert [code for _, _, code in reply.members] == [NONE, UNKNOWN_MEMBER_ID]
    assert list(groups.group.members) == ["b"]


def test_members_that_leave_in_one_request_raise_the_group_epoch_once() -> None:
    groups = Mixed()
    for name in ("a", "b", "c"):
        groups.join(name)
    epoch = groups.group.epoch.epoch
    groups.ask(LeaveGroup("l", GROUP, [Leaver("a", None, None), Leaver("b", None, None)]))
    assert groups.group.epoch.epoch == epoch + 1
    assert groups.kinds() == "8T 7T 5T 8T 7T 5T 3"
