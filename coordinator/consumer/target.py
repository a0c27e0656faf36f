"""The target assignment of a consumer group: the partitions that each member should own. A target
is computed for the members that the group has after the current heartbeat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from coordinator.assignors.by_name import ASSIGNORS
from coordinator.assignors.subscriptions import GroupSubscriptions, Subscriber
from coordinator.consumer.group import ConsumerGroup
from coordinator.topics_image import Topic, TopicsImage
from offsets.consumer_records import Assignment, MemberMetadata

Members = Mapping[str, MemberMetadata]


def preferred_assignor(members: Members, assignors: Sequence[str]) -> str:
    """Returns the assignor that most members name. If no member names one, returns the first of
    ``group.consumer.assignors``.

    If several assignors are named equally often, the first of them in ``assignors`` wins. In Kafka
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
    """Returns the target of each of ``members``, by member id. ``targets`` is the previous
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
    """Returns whether all members have the same subscription: either the same names and no regex,
    or the same regex and no names. Source: Kafka 4.3.1 ``ModernGroup.subscriptionType``."""
    names = {metadata.subscribed_topics for metadata in members.values()}
    regexes = {metadata.subscribed_regex or "" for metadata in members.values()}
    if regexes <= {""}:
        return len(names) <= 1
    return len(regexes) == 1 and names == {()}
