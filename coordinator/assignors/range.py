"""The assignor "range": consecutive partitions of each topic to each member.

Source: Kafka 4.3.1 ``RangeAssignor``. The result equals Kafka's. It does not depend on the target
until now, but static members keep their place in the order.
"""

from __future__ import annotations

from coordinator.assignors.subscriptions import GroupSubscriptions, Subscriber
from offsets.consumer_records import Assignment

NAME = "range"


def assign(group: GroupSubscriptions) -> dict[str, Assignment]:
    """A target for each member, by member id.

    Static members come first, by instance id, then the others by member id. Of n partitions and m
    subscribers each subscriber takes the next n // m, the first n % m subscribers one more.
    """
    subscribers: dict[bytes, list[str]] = {topic: [] for topic in group.partitions}
    for member in sorted(group.members, key=_order):
        for topic in member.topics:
            if topic in subscribers:
                subscribers[topic].append(member.member_id)
    targets: dict[str, dict[bytes, tuple[int, ...]]] = {m.member_id: {} for m in group.members}
    for topic, member_ids in sorted(subscribers.items()):
        if not member_ids:
            continue
        quota, extra = divmod(group.partitions[topic], len(member_ids))
        first = 0
        for i, member_id in enumerate(member_ids):
            end = first + quota + (i < extra)
            if end == first:
                break
            targets[member_id][topic] = tuple(range(first, end))
            first = end
    return dict(targets)


def _order(member: Subscriber) -> tuple[bool, bytes]:
    """By UTF-16 code units, as Java compares strings."""
    instance_id = member.group_instance_id
    name = member.member_id if instance_id is None else instance_id
    return instance_id is None, name.encode("utf-16-be")
