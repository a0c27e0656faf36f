"""The assignor "range", which assigns consecutive partitions of each topic to each member. Source:
Kafka 4.3.1 ``RangeAssignor``. The result equals Kafka's. It does not depend on the previous target;
static members keep their position in the order of members."""

from __future__ import annotations

from coordinator.assignors.subscriptions import GroupSubscriptions, Subscriber
from offsets.consumer_records import Assignment

NAME = "range"


def assign(group: GroupSubscriptions) -> dict[str, Assignment]:
    """Returns the target assignment of each member, by member id.

    The static members come first in the order, by instance id; then the other members, by member
    id. Each of the m subscribers of a topic with n partitions gets n // m consecutive partitions.
    The first n % m subscribers get one more.
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
    """Returns the sort key of a member. Ids are compared by UTF-16 code units, as in Java."""
    instance_id = member.group_instance_id
    name = member.member_id if instance_id is None else instance_id
    return instance_id is None, name.encode("utf-16-be")
