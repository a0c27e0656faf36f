"""Offsets of consumer groups expire by the rules of KIP-211. They are also removed when their topic
is deleted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordinator.calls import DeleteGroup, OffsetCommit, TopicOffsets
from coordinator.config import ConsumerSettings
from coordinator.events import Cause, GroupRemoved, OffsetsExpired
from coordinator.outcome import CommitReply, Outcome
from offsets.consumer_records import ConsumerGroupRun
from offsets.runs import OffsetRun, OffsetTombstones, TransactionalRun
from protocol.errors import NONE
from tests.coordinator.consumer.groups import GROUP, WALL_MS, Groups, batches_of, load

HOUR_MS = 3_600_000
RETENTION_MS = 3 * HOUR_MS
CHECK_MS = HOUR_MS // 60


@pytest.fixture
def groups() -> Groups:
    """Returns a shard with the topics t and u. Sessions last several weeks, so that no member
    expires."""
    groups = Groups(
        consumer=ConsumerSettings(session_timeout_ms=500 * HOUR_MS),
        offsets_retention_ms=RETENTION_MS,
        offsets_retention_check_interval_ms=CHECK_MS,
    )
    groups.topics(u=1)
    return groups


def commit(groups: Groups, member_id: str, epoch: int, *topics: str) -> None:
    offsets = [TopicOffsets(topic, [0], [5], [-1], None, None) for topic in topics]
    call = OffsetCommit("ticket", GROUP, epoch, member_id, None, -1, offsets)
    call = replace(call, knows_member_epochs=True)
    [(_, reply)] = groups.take(groups.shard.handle(call, groups.now)).replies
    assert isinstance(reply, CommitReply)
    assert reply.errors == NONE


def committed(groups: Groups) -> list[str]:
    return sorted(groups.shard.view.offsets.topics(GROUP))


def exists(groups: Groups) -> bool:
    return GROUP in groups.shard.view.consumer_groups


def test_offsets_of_subscribed_topics_do_not_expire_while_the_group_has_members(
    groups: Groups,
) -> None:
    groups.join("m", "t")
    commit(groups, "m", 2, "t", "u")
    groups.pass_ms(RETENTION_MS - CHECK_MS)
    assert committed(groups) == ["t", "u"]
    groups.pass_ms(2 * CHECK_MS)
    assert committed(groups) == ["t"]
    groups.pass_ms(10 * RETENTION_MS)
    assert committed(groups) == ["t"]


def test_expiry_of_offsets_of_an_unsubscribed_topic_is_predicted(groups: Groups) -> None:
    groups.join("m", "t")
    commit(groups, "m", 2, "t", "u")
    [found] = groups.shard.view.expiring(GROUP, groups.now.wall_ms + RETENTION_MS)
    assert (found.topic, found.expires_ms) == ("u", groups.now.wall_ms + RETENTION_MS)
    assert found.why == "no new commits, and no member subscribes to the topic"


def test_offsets_expire_when_the_last_member_unsubscribes_from_their_topic(
    groups: Groups,
) -> None:
    groups.join("m", "t", "u")
    commit(groups, "m", 2, "t", "u")
    groups.pass_ms(2 * RETENTION_MS)
    assert committed(groups) == ["t", "u"]
    groups.send("m", 2, subscribed_topics=("t",))
    groups.pass_ms(2 * CHECK_MS)
    assert committed(groups) == ["t"]


def test_offsets_do_not_expire_while_a_subscribed_regex_is_not_resolved(groups: Groups) -> None:
    groups.send("m", 0, subscribed_regex="t.*", owned={}, rebalance_timeout_ms=60_000)
    commit(groups, "m", groups.group.members["m"].current.epoch, "t", "u")
    groups.pass_ms(10 * RETENTION_MS)
    assert committed(groups) == ["t", "u"]


@pytest.mark.parametrize("is_loaded", [False, True])
def test_retention_of_offsets_begins_when_the_group_becomes_empty(
    groups: Groups, is_loaded: bool
) -> None:
    groups.join("m", "t")
    commit(groups, "m", 2, "t", "u")
    groups.pass_ms(RETENTION_MS // 2)
    groups.send("m", -1)
    left_ms = groups.now.wall_ms
    if is_loaded:
        groups.shard = _loaded_with_times(groups, left_ms).shard
    groups.pass_ms(RETENTION_MS - 2 * CHECK_MS)
    assert committed(groups) == ["t", "u"]
    [first, _] = groups.shard.view.expiring(GROUP, left_ms + RETENTION_MS)
    assert (first.expires_ms, first.why) == (left_ms + RETENTION_MS, "the group has no members")
    groups.pass_ms(3 * CHECK_MS)
    assert committed(groups) == []
    assert not exists(groups)


def _loaded_with_times(groups: Groups, newest_ms: int) -> Groups:
    """Loads the groups from the log. Asserts that the loaded group's epoch was written at
    ``newest_ms``."""
    groups.shard = load(batches_of(groups.log), groups.config, groups.now)
    assert groups.group.epoch_ms == newest_ms
    return groups


def test_group_without_members_and_offsets_is_removed_by_tombstones_of_all_its_records(
    groups: Groups,
) -> None:
    groups.join("m", "t")
    groups.send("m", -1)
    groups.take(groups.shard.expire(groups.now, 100))
    assert exists(groups)
    groups.now_ms += 2 * CHECK_MS
    outcome = groups.take(groups.shard.expire(groups.now, 100))
    assert groups.kinds() == "6T 4T 3T"
    assert GroupRemoved(GROUP, Cause.EXPIRED) in outcome.events
    assert not exists(groups)
    groups.check_loaded()


def test_group_with_members_and_no_offsets_is_not_removed(groups: Groups) -> None:
    groups.join("m", "t")
    groups.pass_ms(10 * RETENTION_MS)
    assert exists(groups)


def test_empty_group_with_pending_offsets_is_not_removed(groups: Groups) -> None:
    groups.join("m", "t")
    groups.send("m", -1)
    pending = TransactionalRun(7, 0, [OffsetRun(GROUP, "t", [0], [5], [-1], None, WALL_MS)])
    groups.shard.replay(pending, 100)
    groups.pass_ms(10 * RETENTION_MS)
    assert exists(groups)


def test_group_is_removed_in_the_check_that_removes_its_last_expired_offsets(
    groups: Groups,
) -> None:
    groups.join("m", "t")
    commit(groups, "m", 2, "t", "u")
    groups.send("m", -1)
    groups.now_ms += RETENTION_MS + CHECK_MS
    outcome = groups.take(groups.shard.expire(groups.now, 1000))
    assert OffsetsExpired(GROUP, 2, Cause.EXPIRED) in outcome.events
    kinds = [type(run) for run in outcome.records]
    assert kinds == [OffsetTombstones, OffsetTombstones, ConsumerGroupRun]
    assert not exists(groups)


def test_expiring_count_excludes_the_offsets_of_a_removed_group(groups: Groups) -> None:
    groups.join("m", "t")
    commit(groups, "m", 2, "t")
    groups.send("m", -1)
    groups.pass_ms(RETENTION_MS - HOUR_MS // 2)
    assert groups.shard.view.expiring_counts()[HOUR_MS] == 1
    groups.pass_ms(HOUR_MS)
    assert groups.shard.view.expiring_counts()[HOUR_MS] == 0


# ----------------------------------------------------------------------------- topics and groups


def test_offsets_of_a_deleted_topic_are_removed_before_the_group_epoch_rises(
    groups: Groups,
) -> None:
    groups.join("m", "t", "u")
    commit(groups, "m", 2, "t", "u")
    outcome = groups.take(groups.shard.topics_deleted({"u": 1 << 40}, groups.now, "done"))
    assert outcome.replies == [("done", NONE)]
    assert outcome.records == [OffsetTombstones(GROUP, [("u", 0)])]
    assert committed(groups) == ["t"]
    groups.topics(u=-1)
    assert groups.send("m", 2, owned={}).member_epoch == 3
    assert "3" in groups.kinds().split()
    assert committed(groups) == ["t"]


def test_commits_for_a_recreated_topic_are_kept(groups: Groups) -> None:
    groups.join("m", "t", "u")
    commit(groups, "m", 2, "u")
    end_offset = len(groups.log) + 1
    groups.log.append(groups.log[-1])  # another commit, behind the bound
    groups.shard.replay(groups.log[-1], end_offset)
    groups.take(groups.shard.topics_deleted({"u": end_offset}, groups.now))
    assert committed(groups) == ["u"]


def many_offsets(groups: Groups) -> None:
    columns = list(range(2000))
    run = OffsetRun(GROUP, "t", columns, columns, [-1] * len(columns), None, WALL_MS)
    groups.take(Outcome([run], (), ()))


def test_deletion_of_a_group_in_slices_keeps_a_later_group_with_the_same_id(groups: Groups) -> None:
    groups.join("m", "t")
    groups.send("m", -1)
    many_offsets(groups)
    for ticket in ("first", "second"):
        assert not groups.take(groups.shard.handle(DeleteGroup(ticket, GROUP), groups.now)).replies
    answered: list[object] = []
    while exists(groups):
        answered += groups.take(groups.shard.expire(groups.now, 100)).replies
    assert answered == [("first", NONE)]
    groups.join("n", "t")
    while groups.shard.is_sweeping:
        answered += groups.take(groups.shard.expire(groups.now, 100)).replies
    assert answered == [("first", NONE), ("second", NONE)]
    assert set(groups.group.members) == {"n"}
    assert groups.group.epoch.epoch == 2
