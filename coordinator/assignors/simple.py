"""The assignor "simple" of share groups: several members may have the same partition (KIP-932).

With n members and t partitions, each partition gets ceil(n / t) members, and the members get nearly
equal numbers of partitions. Members keep the partitions of their previous target as far as these
numbers allow. If the members' subscriptions differ, each topic is assigned separately to its
subscribers.

Kafka iterates in the order of hashes. This module iterates in ascending order, so that the result
is deterministic.

Source: Kafka 4.3.1 ``SimpleAssignor``, ``SimpleHomogeneousAssignmentBuilder``,
``SimpleHeterogeneousAssignmentBuilder``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from offsets.consumer_records import Assignment

Key = tuple[bytes, int]
"""A partition as (topic id, partition number)."""


def assign(
    subscriptions: Mapping[str, frozenset[bytes]],
    assignable: Mapping[bytes, Sequence[int]],
    targets: Mapping[str, Assignment],
    *,
    is_homogeneous: bool,
) -> dict[str, Assignment]:
    """Returns the target assignment of each member, by member id.

    - ``subscriptions`` has the topic ids to which each member subscribes.
    - ``assignable`` has, for each of these topics, the partitions that may be assigned, in
      ascending order.
    - ``targets`` has the previous target assignments.
    - ``is_homogeneous`` is true if all members have the same subscription.
    """
    members = sorted(subscriptions)
    found: dict[str, list[Key]] = {member_id: [] for member_id in members}
    topics = sorted(assignable)
    if is_homogeneous:
        _deal(_keys(assignable, topics), members, targets, found)
    else:
        for topic_id in topics:
            subscribers = [each for each in members if topic_id in subscriptions[each]]
            _deal(_keys(assignable, [topic_id]), subscribers, targets, found)
    return {member_id: _by_topic(keys) for member_id, keys in found.items()}


def _keys(assignable: Mapping[bytes, Sequence[int]], topics: Iterable[bytes]) -> list[Key]:
    return [(topic_id, partition) for topic_id in topics for partition in assignable[topic_id]]


def _deal(
    keys: Sequence[Key],
    members: Sequence[str],
    targets: Mapping[str, Assignment],
    found: dict[str, list[Key]],
) -> None:
    """Assigns the partitions ``keys``, each to one or more members. Appends a partition to the list
    of each of its members in ``found``."""
    if not keys or not members:
        return
    sharing = -(-len(members) // len(keys))
    due = _due(sharing * len(keys), len(members))
    holders: dict[Key, set[int]] = {key: set() for key in keys}
    held: list[list[Key]] = []
    for number, member_id in enumerate(members):
        target = targets.get(member_id)
        own = [key for key in _ascending(target) if key in holders] if target else []
        own = own[max(0, len(own) - due[number]) :]
        held.append(own)
        for key in own:
            holders[key].add(number)
    for key, numbers in holders.items():
        if len(numbers) > sharing:
            for number in sorted(numbers)[: len(numbers) - sharing]:
                numbers.discard(number)
                held[number].remove(key)
    _deal_rest(holders, held, due, sharing)
    for number, member_id in enumerate(members):
        found[member_id] += held[number]


def _due(total: int, members: int) -> list[int]:
    """Returns the number of partitions for each member. The numbers differ by at most 1, and their
    sum is ``total``."""
    bounds = [-(-total * number // members) for number in range(members + 1)]
    return [bounds[number + 1] - bounds[number] for number in range(members)]


def _deal_rest(
    holders: Mapping[Key, set[int]], held: list[list[Key]], due: Sequence[int], sharing: int
) -> None:
    """Gives each partition further members, until it has ``sharing`` members. The members take
    turns. A member is skipped if it has the partition already, or if it has its number of
    partitions in ``due``. If all members are skipped, the partition keeps fewer members."""
    unfilled = [number for number, own in enumerate(held) if len(own) < due[number]]
    at = 0
    for key, numbers in holders.items():
        refused = 0
        while len(numbers) < sharing and refused < len(unfilled):
            at %= len(unfilled)
            number = unfilled[at]
            if number in numbers:
                refused += 1
                at += 1
                continue
            refused = 0
            numbers.add(number)
            held[number].append(key)
            if len(held[number]) >= due[number]:
                del unfilled[at]
            else:
                at += 1


def _ascending(target: Assignment) -> list[Key]:
    return [(topic_id, partition) for topic_id in sorted(target) for partition in target[topic_id]]


def _by_topic(keys: Iterable[Key]) -> Assignment:
    """Returns the partitions by topic id. Topic ids and partitions are in ascending order."""
    found: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(keys):
        found.setdefault(topic_id, []).append(partition)
    return {topic_id: tuple(partitions) for topic_id, partitions in found.items()}
