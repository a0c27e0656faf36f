"""The work for a large consumer group does not grow with the square of its members or topics."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from coordinator import topics_image
from coordinator.calls import LeaveGroup, Leaver
from coordinator.consumer import group_view
from coordinator.consumer.changes import Changes
from coordinator.consumer.classic_members import LEAVERS_PER_PIECE
from coordinator.consumer.events import EpochBumped
from coordinator.consumer.group import ConsumerGroup, ConsumerMember
from coordinator.consumer.states import ConsumerGroupState
from coordinator.events import Event
from coordinator.outcome import LeaveReply
from coordinator.topics_image import Topic, TopicsImage
from offsets.consumer_records import (
    ConsumerGroupRun,
    ConsumerRecord,
    CurrentAssignment,
    CurrentRecord,
    EpochRecord,
    GroupEpoch,
    MemberMetadata,
    MemberRecord,
    TargetEpoch,
    TargetEpochRecord,
    TargetRecord,
)
from protocol.errors import NONE, NOT_COORDINATOR, UNKNOWN_MEMBER_ID
from tests.coordinator.consumer.groups import GROUP, WALL_MS, Groups, T
from tests.instructions import instructions


def stable(members: int) -> Groups:
    """Returns a stable group whose members each own one partition. The records are written
    directly, without heartbeats."""
    groups = Groups(interval_ms=1_000)
    groups.topics(t=members)
    names = [f"m{number:04}" for number in range(members)]
    metadata = MemberMetadata(None, None, "client", "/127.0.0.1", ("t",), "", 300_000)
    records: list[ConsumerRecord] = [MemberRecord(name, metadata) for name in names]
    records.append(EpochRecord(GroupEpoch(2, groups.image.metadata_hash(["t"]))))
    records += [TargetRecord(name, {T: (number,)}) for number, name in enumerate(names)]
    records.append(TargetEpochRecord(TargetEpoch(2, WALL_MS + groups.now_ms)))
    for number, name in enumerate(names):
        current = CurrentAssignment(2, 2, 0, {T: {number: 2}}, {})
        records.append(CurrentRecord(name, current))
    groups.shard.replay(ConsumerGroupRun(GROUP, records), 0)
    groups.group.refresh_wanted = False
    groups.group.behind()  # found once after a load
    return groups


def leaves_by_heartbeat(groups: Groups) -> None:
    groups.send("m0003", -1)


def heartbeats(groups: Groups) -> None:
    groups.send("m0003", 2, owned={T: [3]})


def loses_its_session(groups: Groups) -> None:
    member = groups.group.members["m0003"]
    groups.shard.do(lambda step: step.arm(member.session, 0), groups.now)
    groups.take(groups.shard.expire(groups.now, 100))
    assert "m0003" not in groups.group.members


def joins_while_the_target_is_kept(groups: Groups) -> None:
    assert groups.join("z").member_epoch == 2


@pytest.mark.parametrize(
    "work", [leaves_by_heartbeat, loses_its_session, heartbeats, joins_while_the_target_is_kept]
)
def test_work_for_one_member_does_not_grow_with_the_size_of_the_group(
    work: Callable[[Groups], None],
) -> None:
    small, large = stable(150), stable(600)  # an event names at most 100 members
    few = instructions(lambda: work(small))
    assert instructions(lambda: work(large)) < few * 1.1


def test_lookup_of_one_member_in_a_group_view_creates_no_views_of_other_members(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    groups = Groups()
    for name in "abc":
        groups.join(name)
    made = []

    class Counted(group_view.ConsumerMemberView):
        def __init__(self, *parts: object) -> None:
            made.append(parts)
            super().__init__(*parts)  # type: ignore[arg-type]

    monkeypatch.setattr(group_view, "ConsumerMemberView", Counted)
    members = groups.shard.view.groups[GROUP].members
    assert len(members) == 3
    assert "z" not in members
    assert members["b"].member_id == "b"
    assert len(made) == 1


def test_metadata_hash_of_a_topic_is_computed_once_until_the_topic_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hashed = []
    real = topics_image._hash

    def counted(topic: Topic) -> int:
        hashed.append(topic.name)
        return real(topic)

    monkeypatch.setattr(topics_image, "_hash", counted)
    image = TopicsImage([Topic(b"t" * 16, "t", 1), Topic(b"u" * 16, "u", 1)])
    before = image.metadata_hash(["t", "u"])
    assert image.metadata_hash(["t", "u"]) == before
    assert hashed == ["t", "u"]
    image.put(Topic(b"t" * 16, "t", 2))
    grown = image.metadata_hash(["t", "u"])
    assert grown != before
    assert hashed == ["t", "u", "t"]
    fresh = TopicsImage(image.by_name.values())
    assert fresh.metadata_hash(["t", "u"]) == grown


def leaves(*names: str) -> LeaveGroup:
    return LeaveGroup("l", GROUP, [Leaver(name, None, None) for name in names])


def test_leave_group_with_many_members_is_handled_in_slices() -> None:
    groups = stable(500)
    names = list(groups.group.members)
    outcome = groups.take(groups.shard.handle(leaves(*names[:450], names[0]), groups.now))
    sizes = [len(groups.written)]
    while not outcome.replies:
        assert groups.shard.next_deadline() == 0
        outcome = groups.take(groups.shard.expire(groups.now, 1_000))
        sizes.append(len(groups.written))
    assert sizes == [3 * LEAVERS_PER_PIECE + 1, 3 * LEAVERS_PER_PIECE + 1, 3 * 50 + 1]
    [(ticket, reply)] = outcome.replies
    assert isinstance(reply, LeaveReply)
    codes = [code for _, _, code in reply.members]
    assert (ticket, codes) == ("l", [NONE] * 450 + [UNKNOWN_MEMBER_ID])
    assert list(groups.group.members) == names[450:]
    assert groups.shard.next_deadline() != 0


def test_leave_group_with_many_members_is_answered_when_the_shard_is_unloaded() -> None:
    groups = stable(LEAVERS_PER_PIECE + 1)
    groups.take(groups.shard.handle(leaves(*groups.group.members), groups.now))
    outcome = groups.shard.unload(NOT_COORDINATOR)
    assert outcome.replies == [("l", LeaveReply(NOT_COORDINATOR))]


def test_join_reads_all_members_only_when_it_computes_a_new_target(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads = []
    real = Changes.members

    def counted(self: Changes) -> dict[str, MemberMetadata]:
        reads.append(self.epoch.epoch)
        return real(self)

    monkeypatch.setattr(Changes, "members", counted)
    groups = Groups(interval_ms=1000)
    for name in "abcd":
        groups.join(name)
    assert groups.group.epoch.epoch == 5
    assert reads == [2, 2], "the first target, and the event that its only member is stable"


def test_event_about_a_new_group_epoch_names_at_most_100_awaited_members() -> None:
    bumped: list[EpochBumped] = []

    class Noted(Groups):
        def note(self, events: Sequence[Event]) -> None:
            bumped.extend(each for each in events if isinstance(each, EpochBumped))

    groups = Noted(interval_ms=1000)
    for number in range(103):
        groups.join(f"m{number:03}")
    groups.send("m001", -1)

    assert [len(each.awaited) for each in bumped] == [*range(101), 100, 100, 100]
    assert bumped[2].awaited == ("m000", "m001")
    assert bumped[-1].awaited[:2] == ("m000", "m002")


def test_shard_searches_once_per_target_assignment_for_members_that_do_not_have_it_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    groups = Groups(interval_ms=1000)
    groups.topics(t=100)
    names = [f"m{number:03}" for number in range(100)]
    for name in names:
        groups.join(name)
    groups.pass_ms(1000)
    checked = []
    real = ConsumerGroup._is_behind

    def counted(self: ConsumerGroup, member: ConsumerMember) -> bool:
        checked.append(member.member_id)
        return real(self, member)

    monkeypatch.setattr(ConsumerGroup, "_is_behind", counted)
    epoch = groups.send(names[0], 2).member_epoch
    assert epoch == 2, "the first member must give up 99 partitions"
    own = {
        topic: tuple(epochs)
        for topic, epochs in groups.group.members[names[0]].current.assigned.items()
    }
    epoch = groups.send(names[0], epoch, owned=own).member_epoch
    for name in names[1:]:
        assert groups.send(name, 2).member_epoch == epoch
    assert groups.group.state() is ConsumerGroupState.STABLE
    assert len(checked) <= 3 * len(names)
