"""Which brokers get the replicas of new partitions, as Kafka spreads them.

Brokers stand in a row. The first replicas go round it, so that each leads as many partitions as the
others; the rest of a partition's replicas follow behind the first, at a distance that grows by one
with each round, so that the partitions which one broker leads have their followers everywhere. With
racks the row alternates between them, and a rack gets a second replica of a partition when all have
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
    """The brokers of ``partitions`` new partitions, of which ``first`` is the index of the first.

    ``racks`` has every broker, and its rack where it has one; ``factor`` is at most their number.
    ``start`` is where in the row the replicas of partition 0 begin, ``shift`` the first distance.
    Racks count where every broker has one.
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
    """The index in the list of brokers at which added partitions begin, for a topic that begins at
    ``broker``.

    If that broker is gone, the index of the next higher id, or 0 if none is higher. As in Kafka the
    list is in the order of ids, with racks too.
    """
    ids = sorted(racks)
    return next((place for place, each in enumerate(ids) if each >= broker), 0)


def alternating(racks: Mapping[int, str]) -> list[int]:
    """Brokers in a row that takes one of each rack in turn, racks and ids ascending."""
    by_rack: dict[str, list[int]] = {}
    for broker, rack in sorted(racks.items()):
        by_rack.setdefault(rack, []).append(broker)
    turns = zip_longest(*(by_rack[rack] for rack in sorted(by_rack)))
    return [each for each in chain.from_iterable(turns) if each is not None]


def _behind(leader: int, shift: int, number: int, brokers: int) -> int:
    """The place in the row of the replica with that number, counted from the second."""
    return (leader + 1 + (shift + number) % (brokers - 1)) % brokers


def _over_racks(
    row: Sequence[int], racks: Mapping[int, str], leader: int, shift: int, factor: int
) -> Replicas:
    """A rack gets its second replica when all have one."""
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
