"""The target assignment of a consumer group: which partitions each member is to have.

A target is computed for the members as they will be once a heartbeat's records are in the log.
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
    """The assignor that most members name, else the first of ``group.consumer.assignors``.

    Of two that are named equally often the one that comes first there wins; in Kafka the order of a
    hash map decides.
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
    """The target of each of these members, by member id; ``targets`` is the target until now."""
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
    """Whether all members subscribe alike: to the same names, or by the same regex.

    The topics of a regex must not be subscribed by another regex or by name as well. Source: Kafka
    4.3.1 ``ModernGroup.subscriptionType``.
    """
    names = {metadata.subscribed_topics for metadata in members.values()}
    regexes = {metadata.subscribed_regex or "" for metadata in members.values()}
    if regexes <= {""}:
        return len(names) <= 1
    return len(regexes) == 1 and names == {()}
