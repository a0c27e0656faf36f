"""The target assignment of a consumer group: the partitions that each member should have.

A target is computed for the members that the group will have when the records of the current
heartbeat are in the log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from coordinator.assignors.by_name import ASSIGNORS
from coordinator.assignors.subscriptions import GroupSubscriptions, Subscriber
from coordinator.consumer.group import ConsumerGroup
from coordinator.topics_image import Topic, TopicsImage
from offsets.consumer_records import Assignment, MemberMetadata

Members = Mapping[str, MemberMetadata]
"""The metadata of each member, by member id."""


def preferred_assignor(members: Members, assignors: Sequence[str]) -> str:
    """Returns the assignor that most members name; the first of ``group.consumer.assignors`` if no
    member names one.

    If several assignors are named equally often, the first of them in ``assignors`` wins; in Kafka
    the order of a hash map decides.
    """
    named = Counter(each.server_assignor for each in members.values() if each.server_assignor)
    return max(assignors, key=lambda name: (named[name], -assignors.index(name)))


def compute_target(
    group: ConsumerGroup,
    members: Members,
    targets: Mapping[str, Assignment],
    image: TopicsImage,
    assignor: str,
) -> dict[str, Assignment]:
    """Returns the target of each of these members, by member id; ``targets`` is the previous
    target."""
    topics: dict[str, Topic] = {}
    by_subscription: dict[tuple[tuple[str, ...], str], frozenset[bytes]] = {}
    subscribers = []
    for member_id, metadata in members.items():
        key = metadata.subscribed_topics, metadata.subscribed_regex or ""
        ids = by_subscription.get(key)
        if ids is None:
            found = group.topics_of(metadata, image)
            topics.update((topic.name, topic) for topic in found)
            ids = by_subscription[key] = frozenset(topic.topic_id for topic in found)
        subscribers.append(Subscriber(member_id, metadata.instance_id, ids))
    subscriptions = GroupSubscriptions(
        subscribers,
        {topic.topic_id: topic.partitions for topic in topics.values()},
        targets,
        is_homogeneous(members),
    )
    return ASSIGNORS[assignor](subscriptions)


def is_homogeneous(members: Members) -> bool:
    """Returns whether all members have the same subscription: the same names, or the same regex.

    Topics of the regex must not also be subscribed by another regex or by name. Source: Kafka 4.3.1
    ``ModernGroup.subscriptionType``.
    """
    names = {metadata.subscribed_topics for metadata in members.values()}
    regexes = {metadata.subscribed_regex or "" for metadata in members.values()}
    if regexes <= {""}:
        return len(names) <= 1
    return len(regexes) == 1 and names == {()}
