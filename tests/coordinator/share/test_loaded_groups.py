"""Tests that a shard that is loaded from a log, compacted or not, has the same share groups as the
shard that wrote the log."""

from __future__ import annotations

import random

import pytest

from coordinator.config import GroupConfig
from coordinator.events import Event
from coordinator.share.events import ShareStateWanted
from offsets.consumer_records import ConsumerGroupRun, EpochRecord, GroupEpoch
from offsets.runs import GroupRun, GroupValue, OffsetRun, Run
from offsets.share_records import (
    ShareCurrentAssignment,
    ShareCurrentRecord,
    ShareEpochRecord,
    ShareGroupEpoch,
    ShareGroupRun,
    ShareMemberMetadata,
    ShareMemberRecord,
    ShareRecord,
    ShareTargetRecord,
    StatePartitions,
    StatePartitionsRecord,
)
from protocol.now import Now
from tests.coordinator.consumer.groups import WALL_MS, batches_of, load
from tests.coordinator.share.groups import GROUP, ShareGroups, T, hard_state

NOW = Now(1_000, WALL_MS)
SUBSCRIBED = ShareMemberMetadata(None, "c", "/h", ("t",))
CLASSIC = GroupRun(GROUP, GroupValue("consumer", 3, "range", None, WALL_MS, []))
CONSUMER = ConsumerGroupRun(GROUP, [EpochRecord(GroupEpoch(9))])
COMMIT = OffsetRun(GROUP, "t", [0], [5], [-1], None, WALL_MS)


def of_group(*records: ShareRecord) -> ShareGroupRun:
    return ShareGroupRun(GROUP, list(records))


EPOCH = of_group(ShareEpochRecord(ShareGroupEpoch(4)))


def kinds(*runs: Run) -> tuple[list[str], list[str], list[str]]:
    shard = load(batches_of(runs), GroupConfig(), NOW)
    types = [each.type for each in shard.view.groups.values()]
    return types, list(shard.view.consumer_groups), list(shard.view.share_groups)


@pytest.mark.parametrize("seed", range(6))
def test_share_group_after_random_requests_is_the_same_after_a_load(seed: int) -> None:
    rng = random.Random(seed)
    groups = ShareGroups(interval_ms=rng.choice((0, 1_000)))
    waiting: list[ShareStateWanted] = []
    for _ in range(150):
        members = groups.shard.view.share_groups.get(GROUP)
        known = list(members.members) if members else []
        match rng.choice("jjbbbbblwtsi"):
            case "j":
                groups.join(f"m{rng.randrange(6)}", *rng.sample("tuv", rng.randint(1, 3)))
            case "b" if known and members:
                member_id = rng.choice(known)
                current = members.members[member_id].current
                groups.send(member_id, rng.choice((current.epoch, current.previous_epoch)))
            case "l" if known:
                groups.send(rng.choice(known), -1)
            case "w":
                groups.pass_ms(rng.choice((100, 1_000, 20_000)))
            case "t":
                groups.topics(**{rng.choice("tuv"): rng.choice((-1, 1, 2, 4))})
                groups.pass_ms(0)
            case "s" if known and members:
                member_id = rng.choice(known)
                epoch = members.members[member_id].current.epoch
                names = rng.sample("tuv", rng.randint(0, 2))
                groups.send(member_id, epoch, subscribed_topics=names)
            case "i" if waiting:
                event = waiting.pop(0)
                code = rng.choice((0, 0, 0, 15))
                outcome = groups.shard.share_state_initialized(
                    GROUP, event.topics, groups.now, code
                )
                groups.take(outcome)
        waiting += wanted(groups.events)
        groups.check_loaded()
    settle(groups, waiting)


def wanted(events: object) -> list[ShareStateWanted]:
    assert isinstance(events, list | tuple)
    found: list[Event] = list(events)
    return [each for each in found if isinstance(each, ShareStateWanted)]


def settle(groups: ShareGroups, waiting: list[ShareStateWanted]) -> None:
    """Lets all members send heartbeats. Checks that every member then owns its target assignment,
    and that every partition of a subscribed topic has a member."""
    group = groups.shard.view.share_groups.get(GROUP)
    if group is None:
        return
    for event in waiting:
        groups.take(groups.shard.share_state_initialized(GROUP, event.topics, groups.now))
    for _ in range(8):
        groups.now_ms += 4_000
        for member_id in list(group.members):
            groups.send(member_id, group.members[member_id].current.epoch)
            groups.initialize()
    for member in group.members.values():
        assert member.current.assigned == group.targets[member.member_id]
        assert member.current.epoch == group.epoch.epoch
    held = {
        (topic_id, number)
        for member in group.members.values()
        for topic_id, numbers in member.current.assigned.items()
        for number in numbers
    }
    topics = groups.image.existing(group.subscribed_names())
    assert held == {(topic.topic_id, n) for topic in topics for n in range(topic.partitions)}


def test_newest_record_in_the_log_determines_the_type_of_a_group() -> None:
    assert kinds(CLASSIC, EPOCH) == (["share"], [], [GROUP])
    assert kinds(COMMIT, EPOCH) == (["share"], [], [GROUP])
    assert kinds(CONSUMER, EPOCH) == (["share"], [], [GROUP])
    assert kinds(EPOCH, CONSUMER) == (["consumer"], [GROUP], [])
    assert kinds(EPOCH, CLASSIC) == (["classic"], [], [])


def test_load_creates_a_group_from_any_of_its_records_and_removes_it_at_the_epoch_tombstone() -> (
    None
):
    state = of_group(StatePartitionsRecord(StatePartitions({}, {T: ("t", (0,))})))
    assert kinds(state)[2] == [GROUP]
    assert kinds(state, of_group(StatePartitionsRecord(None)))[2] == [GROUP]
    assert kinds(state, of_group(StatePartitionsRecord(None), ShareEpochRecord(None)))[2] == []
    assert kinds(of_group(ShareEpochRecord(None), ShareMemberRecord("m", None)))[2] == []


def test_share_member_is_loaded_from_a_member_record_or_a_current_assignment_record() -> None:
    shard = load(
        batches_of(
            [
                of_group(
                    ShareMemberRecord("a", SUBSCRIBED),
                    ShareCurrentRecord("b", ShareCurrentAssignment(3, 2, 0, {T: (0,)})),
                    ShareTargetRecord("c", {T: (1,)}),
                )
            ]
        ),
        GroupConfig(),
        NOW,
    )
    group = shard.view.share_groups[GROUP]
    assert [member.current.epoch for member in group.members.values()] == [0, 3]
    assert group.subscribed_names() == {"t"}
    assert group.epoch == ShareGroupEpoch(1)


def test_load_restarts_member_sessions_and_requests_initialization_of_share_states_again() -> None:
    groups = ShareGroups()
    groups.join("a")
    shard = load(batches_of(groups.log), groups.config, groups.now, groups.image)
    assert hard_state(shard) == hard_state(groups.shard)
    member = shard.view.share_groups[GROUP].members["a"]
    assert member.session.due_ms == groups.now_ms + 45_000
    groups.shard = shard
    groups.send("a", 2)
    assert groups.wanted() == ShareStateWanted(GROUP, {T: (0, 1)}, 2)


def test_records_written_for_a_share_group_restore_the_same_group() -> None:
    groups = ShareGroups()
    groups.stable("a", "b", "c")
    records = list(groups.group.records())
    shard = load(batches_of([of_group(*records)]), groups.config, groups.now)
    assert hard_state(shard) == hard_state(groups.shard)
