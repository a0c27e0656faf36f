"""The assignor "uniform", the default: balanced over all topics, and sticky. Source: Kafka 4.3.1
``UniformAssignor`` with its homogeneous and heterogeneous builders.

This assignor iterates over members, topics and partitions in ascending order, Kafka in the order of
its hash maps. The result is as balanced and as sticky as Kafka's. If both orders are equal, the
results are equal.
"""

from __future__ import annotations

from coordinator.assignors.heterogeneous import assign_heterogeneous
from coordinator.assignors.subscriptions import GroupSubscriptions
from offsets.consumer_records import Assignment

NAME = "uniform"


def assign(group: GroupSubscriptions) -> dict[str, Assignment]:
    if not group.members:
        return {}
    if group.homogeneous:
        return _assign_homogeneous(group)
    return assign_heterogeneous(group)


def _assign_homogeneous(group: GroupSubscriptions) -> dict[str, Assignment]:
    """Returns the target assignment if all members subscribe to the same topics. Each member keeps
    partitions of its previous target up to its quota. The other partitions are assigned to the
    members below their quota. Quotas differ by at most one partition."""
    members = sorted(group.members)
    topics = sorted(topic for topic in members[0].topics if topic in group.partitions)
    free = _not_in_target(group, topics)
    quota, extra = divmod(sum(group.partitions[topic] for topic in topics), len(members))
    targets: dict[str, dict[bytes, tuple[int, ...]]] = {}
    unfilled: list[tuple[str, int]] = []
    for i, member in enumerate(members):
        has_extra = extra > 0
        room = quota + has_extra
        kept: dict[bytes, tuple[int, ...]] = {}
        old = group.target.get(member.member_id, {})
        for topic in topics:
            partitions = old.get(topic)
            if not partitions:
                continue
            if len(partitions) > room:
                free += [(topic, partition) for partition in partitions[room:]]
                partitions = partitions[:room]
            if partitions:
                kept[topic] = partitions
                room -= len(partitions)
        if room > 0 and has_extra and len(members) - i > extra:
            room -= 1  # enough members follow that fill their extra partition
            has_extra = False
        if room > 0:
            unfilled.append((member.member_id, room))
        if has_extra:
            extra -= 1
        targets[member.member_id] = kept
    _fill(targets, unfilled, free)
    return dict(targets)


def _not_in_target(group: GroupSubscriptions, topics: list[bytes]) -> list[tuple[bytes, int]]:
    """Returns the partitions that are in no member's target, ordered by topic id and number."""
    owned = {topic: bytearray(group.partitions[topic]) for topic in topics}
    for member in group.members:
        for topic, partitions in group.target.get(member.member_id, {}).items():
            flags = owned.get(topic)
            if flags is not None:
                for partition in partitions:
                    flags[partition] = 1
    return [
        (topic, partition)
        for topic, flags in owned.items()
        for partition, flag in enumerate(flags)
        if not flag
    ]


def _fill(
    targets: dict[str, dict[bytes, tuple[int, ...]]],
    unfilled: list[tuple[str, int]],
    free: list[tuple[bytes, int]],
) -> None:
    """Assigns the free partitions to the members below their quota, both in the given order."""
    first = 0
    for member_id, room in unfilled:
        given: dict[bytes, list[int]] = {}
        for topic, partition in free[first : first + room]:
            given.setdefault(topic, []).append(partition)
        first += room
        target = targets[member_id]
        for topic, partitions in given.items():
            target[topic] = tuple(sorted((*target.get(topic, ()), *partitions)))
    assert first == len(free), "quotas add up to the number of partitions"
