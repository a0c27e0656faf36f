"""Assigns the replicas of new partitions to brokers, as Kafka does.

The brokers are in a list. The first replicas of the partitions are assigned to the brokers in turn,
so that each broker leads equally many partitions. The other replicas of a partition are placed at a
distance from the first replica. The distance grows by one with each pass over the list. Thus the
followers of one leader's partitions spread over all brokers. If all brokers have racks, the list
alternates between racks, and a rack gets a second replica of a partition only if every rack has
one. Source: KIP-36, Kafka 3.9 ``AdminUtils``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest

Replicas = tuple[int, ...]


def assign(
    racks: Mapping[int, str | None],
    partitions: int,
    factor: int,
    *,
    start: int,
    shift: int,
    first: int = 0,
) -> list[Replicas]:
    """Returns the replicas of each new partition. ``partitions`` is the number of new partitions,
    and ``first`` is the number of the first new partition.

    ``racks`` has the rack of every broker, or None. If any broker has no rack, all racks are
    ignored. ``factor``, the number of replicas, is at most the number of brokers. ``start`` is the
    index of the broker that has the first replica of partition 0. ``shift`` is the distance from
    this broker to the brokers of the other replicas.
    """
    known = {broker: rack for broker, rack in racks.items() if rack is not None}
    row = alternating(known) if len(known) == len(racks) else sorted(racks)
    found = []
    for index in range(first, first + partitions):
        if index > 0 and index % len(row) == 0:
            shift += 1
        leader = (index + start) % len(row)
        if len(known) == len(racks):
            found.append(_over_racks(row, known, leader, shift, factor))
        else:
            others = [_behind(leader, shift, each, len(row)) for each in range(factor - 1)]
            found.append((row[leader], *(row[each] for each in others)))
    return found


def start_of(racks: Mapping[int, str | None], broker: int) -> int:
    """Returns the index at which the assignment of replicas to new partitions of an existing topic
    starts. It is an index in the sorted ids of the live brokers, the keys of ``racks``.

    It is the index of ``broker``, which has the first replica of the topic's partition 0. If this
    broker is not alive, it is the index of the next higher id, or 0 if no id is higher. As in
    Kafka, racks do not change the order of the ids.
    """
    ids = sorted(racks)
    return next((place for place, each in enumerate(ids) if each >= broker), 0)


def alternating(racks: Mapping[int, str]) -> list[int]:
    """Returns the brokers in a list that alternates between the racks. Racks, and the brokers of a
    rack, are in ascending order."""
    by_rack: dict[str, list[int]] = {}
    for broker, rack in sorted(racks.items()):
        by_rack.setdefault(rack, []).append(broker)
    turns = zip_longest(*(by_rack[rack] for rack in sorted(by_rack)))
    return [each for each in chain.from_iterable(turns) if each is not None]


def _behind(leader: int, shift: int, number: int, brokers: int) -> int:
    """Returns the index of one follower in the list of brokers. ``leader`` is the index of the
    partition's leader, and ``number`` counts the partition's followers from 0."""
    return (leader + 1 + (shift + number) % (brokers - 1)) % brokers


def _over_racks(
    row: Sequence[int], racks: Mapping[int, str], leader: int, shift: int, factor: int
) -> Replicas:
    """Returns the brokers of one partition. A rack gets a second replica only if every rack has
    one."""
    all_racks = set(racks.values())
    found = [row[leader]]
    racks_used = {racks[row[leader]]}
    number = 0
    while len(found) < factor:
        broker = row[_behind(leader, shift * len(all_racks), number, len(row))]
        number += 1
        if broker not in found and (racks[broker] not in racks_used or racks_used == all_racks):
            found.append(broker)
            racks_used.add(racks[broker])
    return tuple(found)
