"""The uniform assignor returns the results of Kafka 4.3.1 for examples, and its targets are valid,
balanced and sticky for random groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from coordinator.assignors import uniform
from coordinator.assignors.subscriptions import GroupSubscriptions, Subscriber
from offsets.consumer_records import Assignment

T, A, B, C = (bytes(15) + bytes([i]) for i in range(1, 5))
TOPICS = {"t": T, "a": A, "b": B, "c": C}


class Rounds:
    """A group whose members join and leave. Each round starts with the target of the previous
    round."""

    def __init__(self, partitions: Mapping[bytes, int], *, homogeneous: bool) -> None:
        self.partitions = dict(partitions)
        self.homogeneous = homogeneous
        self.members: dict[str, tuple[bytes, ...]] = {}
        self.target: dict[str, Assignment] = {}

    def join(self, member_id: str, *topics: bytes) -> Rounds:
        self.members[member_id] = topics
        return self

    def leave(self, *member_ids: str) -> Rounds:
        for member_id in member_ids:
            del self.members[member_id]
            self.target.pop(member_id, None)
        return self

    def assigned(self) -> dict[str, str]:
        members = [Subscriber(name, None, topics) for name, topics in self.members.items()]
        subscribed = {topic for topics in self.members.values() for topic in topics}
        counts = {t: count for t, count in self.partitions.items() if t in subscribed}
        self.target = uniform.assign(
            GroupSubscriptions(members, counts, self.target, self.homogeneous)
        )
        names = {topic: name for name, topic in TOPICS.items()}
        return {
            member_id: " ".join(
                names[topic] + "".join(map(str, partitions))
                for topic, partitions in sorted(assignment.items())
            )
            for member_id, assignment in sorted(self.target.items())
        }


def test_target_for_equal_subscriptions_equals_that_of_kafka() -> None:
    group = Rounds({T: 8}, homogeneous=True)
    assert group.join("m1", T).assigned() == {"m1": "t01234567"}
    assert group.join("m2", T).assigned() == {"m1": "t0123", "m2": "t4567"}
    assert group.join("m3", T).assigned() == {"m1": "t012", "m2": "t456", "m3": "t37"}
    assert group.leave("m2").assigned() == {"m1": "t0124", "m3": "t3567"}
    assert group.join("m2", T).assigned() == {"m1": "t012", "m2": "t47", "m3": "t356"}
    group.join("m4", T).join("m5", T)
    assert group.assigned() == {"m1": "t01", "m2": "t47", "m3": "t35", "m4": "t2", "m5": "t6"}
    group.leave("m1", "m3").join("m6", T)
    assert group.assigned() == {"m2": "t47", "m4": "t02", "m5": "t16", "m6": "t35"}


def test_target_for_different_subscriptions_equals_that_of_kafka() -> None:
    group = Rounds({A: 7, B: 2, C: 9}, homogeneous=False)
    group.join("m1", A).assigned()
    group.join("m2", A, B)
    assert group.assigned() == {"m1": "a01234", "m2": "a56 b01"}
    assert group.join("m3", C).assigned()["m3"] == "c012345678"
    seen = group.join("m4", A, C).assigned()
    assert (seen["m3"], seen["m4"]) == ("c01234", "c5678")
    assert group.join("m5", A, B, C).assigned() == {
        "m1": "a0123", "m2": "a56 b01", "m3": "c012", "m4": "a4 c567", "m5": "c348",
    }  # fmt: skip
    seen = group.leave("m3").join("m6", B, C).assigned()
    assert seen["m6"] == "c012"
    assert group.leave("m4").join("m7", A, C).assigned() == {
        "m1": "a0123", "m2": "a56 b01", "m5": "a4 c348", "m6": "c012", "m7": "c567",
    }  # fmt: skip


def test_consumer_group_without_members_gets_an_empty_target() -> None:
    assert uniform.assign(GroupSubscriptions([], {}, {}, True)) == {}


counts = st.dictionaries(st.sampled_from([T, A, B, C]), st.integers(0, 12), min_size=1)
names = st.lists(st.sampled_from([f"m{i}" for i in range(8)]), min_size=1, unique=True)


@st.composite
def groups(draw: st.DrawFn, homogeneous: bool) -> GroupSubscriptions:
    """Draws a group with a valid previous target that was computed for other members and topics."""
    partitions = draw(counts)
    topics = sorted(partitions)
    subsets = st.lists(st.sampled_from(topics), min_size=1, unique=True).map(tuple)
    members = [
        Subscriber(name, None, tuple(topics) if homogeneous else draw(subsets))
        for name in draw(names)
    ]
    olds = draw(names)
    target: dict[str, dict[bytes, tuple[int, ...]]] = {}
    for topic, count in partitions.items():
        for partition in range(count):
            owner = draw(st.sampled_from([None, *olds]))
            if owner is not None:
                old = target.setdefault(owner, {})
                old[topic] = (*old.get(topic, ()), partition)
    living = {member.member_id for member in members}
    target = {name: old for name, old in target.items() if name in living}
    return GroupSubscriptions(members, partitions, target, homogeneous)


def check_valid(group: GroupSubscriptions, target: Mapping[str, Assignment]) -> None:
    """Checks that each partition with a subscriber has exactly one owner, and that the owner
    subscribes to the topic."""
    topics = {member.member_id: set(member.topics) for member in group.members}
    assert set(target) == set(topics)
    owners = Counter(_pairs(target))
    subscribed = set().union(*topics.values())
    expected = {
        (topic, partition)
        for topic, count in group.partitions.items()
        if topic in subscribed
        for partition in range(count)
    }
    assert set(owners) == expected
    assert set(owners.values()) <= {1}
    for member_id, assignment in target.items():
        assert set(assignment) <= topics[member_id]
        for partitions in assignment.values():
            assert partitions
            assert list(partitions) == sorted(partitions)


def _pairs(target: Mapping[str, Assignment]) -> Iterable[tuple[bytes, int]]:
    for assignment in target.values():
        for topic, partitions in assignment.items():
            yield from ((topic, partition) for partition in partitions)


@given(groups(homogeneous=True))
def test_target_for_equal_subscriptions_is_balanced_and_sticky(group: GroupSubscriptions) -> None:
    target = uniform.assign(group)
    check_valid(group, target)
    sizes = {name: sum(map(len, assignment.values())) for name, assignment in target.items()}
    assert max(sizes.values()) - min(sizes.values()) <= 1
    for name, old in group.target.items():
        kept = sum(len(set(old[t]) & set(target[name].get(t, ()))) for t in old)
        assert kept == min(sum(map(len, old.values())), sizes[name])  # moves only what it must
    again = group._replace(target=target)
    assert uniform.assign(again) == target


@given(groups(homogeneous=False))
def test_target_for_different_subscriptions_is_valid_and_sticky(group: GroupSubscriptions) -> None:
    target = uniform.assign(group)
    check_valid(group, target)
    topics = {member.member_id: set(member.topics) for member in group.members}
    sizes = {name: sum(map(len, assignment.values())) for name, assignment in target.items()}
    for name, assignment in target.items():  # no move of one partition would help
        for topic in assignment:
            lighter = [n for n in target if topic in topics[n] and sizes[n] < sizes[name] - 1]
            assert not lighter
    assert uniform.assign(group._replace(target=target)) == target


@given(groups(homogeneous=False), st.randoms(use_true_random=False))
def test_uniform_target_does_not_depend_on_the_order_of_the_input(
    group: GroupSubscriptions, random: Random
) -> None:
    expected = uniform.assign(group)
    members = list(group.members)
    random.shuffle(members)
    topics = list(group.partitions.items())
    random.shuffle(topics)
    assert uniform.assign(group._replace(members=members, partitions=dict(topics))) == expected
