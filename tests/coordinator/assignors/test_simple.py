"""The assignor of share groups: how many partitions a member gets, and how many members get a
partition."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.assignors.simple import assign
from offsets.consumer_records import Assignment

T, U = b"t" * 16, b"u" * 16
Targets = dict[str, Assignment]


def homogeneous(
    members: int, partitions: dict[bytes, int], targets: Targets | None = None
) -> Targets:
    subscriptions = {f"m{n:03}": frozenset(partitions) for n in range(members)}
    assignable = {topic: tuple(range(count)) for topic, count in partitions.items()}
    return assign(subscriptions, assignable, targets or {}, is_homogeneous=True)


def counts(targets: Targets) -> list[int]:
    return [sum(map(len, target.values())) for target in targets.values()]


def sharing(targets: Targets) -> Counter[tuple[bytes, int]]:
    return Counter(
        (topic, partition)
        for target in targets.values()
        for topic, partitions in target.items()
        for partition in partitions
    )


@pytest.mark.parametrize(
    ("members", "partitions", "expected", "shared"),
    [
        (1, 4, [4], 1),
        (2, 4, [2, 2], 1),
        (3, 4, [2, 1, 1], 1),
        (4, 4, [1] * 4, 1),
        (3, 2, [2, 1, 1], 2),
        (4, 2, [1] * 4, 2),
        (5, 2, [2, 1, 1, 1, 1], 3),
        (3, 1, [1, 1, 1], 3),
        (200, 1, [1] * 200, 200),
        (2, 0, [0, 0], 0),
    ],
)
def test_share_assignor_balances_partitions_per_member_and_members_per_partition(
    members: int, partitions: int, expected: list[int], shared: int
) -> None:
    targets = homogeneous(members, {T: partitions})
    assert sorted(counts(targets), reverse=True) == expected
    assert set(sharing(targets).values()) == ({shared} if shared else set())
    assert len(sharing(targets)) == partitions


def test_share_group_members_keep_their_partitions_when_a_member_joins() -> None:
    two = homogeneous(2, {T: 4, U: 2})
    three = homogeneous(3, {T: 4, U: 2}, two)
    assert counts(three) == [2, 2, 2]
    for member_id in two:
        for topic, partitions in three[member_id].items():
            assert set(partitions) <= set(two[member_id].get(topic, ()))


def test_share_target_is_unchanged_when_members_and_topics_are_unchanged() -> None:
    targets = homogeneous(7, {T: 5, U: 4})
    assert homogeneous(7, {T: 5, U: 4}, targets) == targets


def test_partition_that_is_not_assignable_is_removed_from_target_assignments_of_share_groups() -> (
    None
):
    targets = homogeneous(2, {T: 4})
    subscriptions = dict.fromkeys(targets, frozenset({T}))
    after = assign(subscriptions, {T: (1, 3)}, targets, is_homogeneous=True)
    assert sharing(after) == {(T, 1): 1, (T, 3): 1}


def test_share_assignor_assigns_each_topic_only_to_its_subscribers() -> None:
    subscriptions = {"a": frozenset({T}), "b": frozenset({T, U}), "c": frozenset({U})}
    targets = assign(subscriptions, {T: (0, 1, 2, 3), U: (0,)}, {}, is_homogeneous=False)
    assert {name: {t: len(p) for t, p in each.items()} for name, each in targets.items()} == {
        "a": {T: 2},
        "b": {T: 2, U: 1},
        "c": {U: 1},
    }


def test_share_assignor_removes_an_unsubscribed_topic_from_the_target_of_a_member() -> None:
    subscriptions = {"a": frozenset({T}), "b": frozenset({U})}
    before = {"a": {T: (0,), U: (0,)}, "b": {U: (1,)}}
    targets = assign(subscriptions, {T: (0,), U: (0, 1)}, before, is_homogeneous=False)
    assert targets == {"a": {T: (0,)}, "b": {U: (0, 1)}}


_subscriptions = st.dictionaries(
    st.sampled_from([f"m{n}" for n in range(9)]),
    st.frozensets(st.sampled_from([T, U])),
    min_size=1,
)
_partitions = st.fixed_dictionaries({T: st.integers(0, 7), U: st.integers(0, 7)})


@given(_subscriptions, _subscriptions, _partitions, _partitions)
def test_every_partition_of_a_share_group_has_a_member_after_any_change(
    before: dict[str, frozenset[bytes]],
    after: dict[str, frozenset[bytes]],
    few: dict[bytes, int],
    many: dict[bytes, int],
) -> None:
    targets: Targets = {}
    for subscriptions, partitions in ((before, few), (after, many)):
        topics = frozenset().union(*subscriptions.values())
        assignable = {topic: tuple(range(partitions[topic])) for topic in topics}
        is_homogeneous = len(set(subscriptions.values())) == 1
        targets = assign(subscriptions, assignable, targets, is_homogeneous=is_homogeneous)
        assert targets.keys() == subscriptions.keys()
        found = sharing(targets)
        assert found.keys() == {(t, n) for t in topics for n in range(partitions[t])}
        for member_id, target in targets.items():
            assert target.keys() <= subscriptions[member_id]
        for topic in topics if not is_homogeneous else ():
            subscribers = sum(topic in each for each in subscriptions.values())
            most = -(-subscribers // partitions[topic]) if partitions[topic] else 0
            assert all(count <= most for (t, _), count in found.items() if t == topic)
