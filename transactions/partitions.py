"""Sorts the partitions of a transaction as they are in Kafka's records.

Kafka stores the partitions in a Java ``HashSet`` and groups them by topic in a ``HashMap``.
Partitions and topics are therefore ordered by slot. The number of slots depends on the number of
partitions or topics. Partitions in the same slot are in the order in which they were added. Topics
in the same slot are in the reverse order, because ``computeIfAbsent`` inserts a topic at the head.
Source: Kafka 4.3.1 ``TransactionLog``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from protocol.java_hash import java_hash
from transactions.calls import Partitions

Ordered = tuple[tuple[str, tuple[int, ...]], ...]
"""The type of the partitions in a `TransactionValue`."""

_SLOTS_AT_LEAST = 16
_FEW = 8
"""If a request adds at most this number of partitions to a topic, each is inserted at its place in
the sorted list. If it adds more, the whole list is sorted again."""


def missing(there: Partitions, wanted: Partitions) -> dict[str, list[int]]:
    """Returns the partitions of ``wanted`` that are not in ``there``. Each partition occurs once,
    in the order of ``wanted``."""
    known = {topic: set(ids) for topic, ids in there}
    added: dict[str, list[int]] = {}
    for topic, ids in wanted:
        seen = known.setdefault(topic, set())
        for partition in ids:
            if partition not in seen:
                seen.add(partition)
                added.setdefault(topic, []).append(partition)
    return added


def joined(there: Partitions, added: dict[str, list[int]]) -> Ordered:
    """Returns the partitions of ``there`` and ``added`` in Kafka's order. ``there`` must be in
    Kafka's order and must contain no partition of ``added``."""
    count_before = sum(len(ids) for _, ids in there)
    count = count_before + sum(map(len, added.values()))
    slots = _slots(count)
    regrown = slots != _slots(count_before)
    topics: dict[str, list[int]] = {topic: list(ids) for topic, ids in there}
    changed = {**topics, **added} if regrown else added
    for topic in added:
        topics.setdefault(topic, [])
    has_order = len(topics) > 1
    hashes = {topic: java_hash(topic) for topic in (topics if has_order else changed)}
    slots_of = {topic: _partition_slot(hashed, slots) for topic, hashed in hashes.items()}
    for topic in changed:
        ids, new = topics[topic], added.get(topic, [])
        slot_of = slots_of[topic]
        if regrown or len(new) > _FEW:
            ids += new
            ids.sort(key=slot_of)
        else:
            for partition in new:
                ids.insert(bisect_right(ids, slot_of(partition), key=slot_of), partition)
    names = _topics_in_order(topics, hashes, slots_of, len(there)) if has_order else topics
    return tuple((topic, tuple(topics[topic])) for topic in names)


_SlotOf = Callable[[int], int]
"""A function that returns the slot of a partition of one topic."""


def _topics_in_order(
    topics: dict[str, list[int]], hashes: dict[str, int], slots_of: dict[str, _SlotOf], older: int
) -> list[str]:
    """Returns the topics in the order in which Kafka iterates over its ``HashMap`` of them. The
    first ``older`` topics were in the map before this request.

    The order depends on the number of slots of the map. After an insertion, the map gets more slots
    only when Kafka next looks up a topic. Kafka does no further lookup if the last inserted topic
    has a single partition; the map then keeps its smaller number of slots.
    """
    last = max(topics, key=lambda topic: slots_of[topic](topics[topic][-1]))
    mask = _slots(len(topics) - (len(topics[last]) == 1)) - 1
    rank = {topic: index if index < older else -index for index, topic in enumerate(topics)}

    def place(topic: str) -> tuple[int, int, int]:
        slot = _spread(hashes[topic]) & mask
        return slot, -slots_of[topic](topics[topic][0]), rank[topic]

    return sorted(topics, key=place)


def _slots(entries: int) -> int:
    """Returns the number of slots of a Java hash table that grew entry by entry. It is a power of
    two, and the table is at most 3/4 full."""
    slots = _SLOTS_AT_LEAST
    while 4 * entries > 3 * slots:
        slots *= 2
    return slots


def _partition_slot(topic_hash: int, slots: int) -> _SlotOf:
    """Returns a function that returns the slot of a partition of this topic, according to Java's
    ``TopicPartition.hashCode``."""
    of_topic, mask = 31 * 31 + topic_hash, slots - 1

    def slot_of(partition: int) -> int:
        hashed = (31 * partition + of_topic) & 0xFFFFFFFF
        return (hashed ^ (hashed >> 16)) & mask  # like `_spread`, without a call for each partition

    return slot_of


def _spread(hashed: int) -> int:
    hashed &= 0xFFFFFFFF
    return hashed ^ (hashed >> 16)
