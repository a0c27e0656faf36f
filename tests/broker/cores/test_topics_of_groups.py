"""Tests which topics of the cluster the coordinators of consumer groups see."""

from __future__ import annotations

from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.topics.cluster_registry import ClusterRegistry
from broker.cores.groups.runtime import TopicsOfGroups
from tests.broker.cluster.told import deleted, tell, topic

ID, OTHER_ID = bytes(range(16)), bytes(range(1, 17))


class NoGroups:
    hosted_shards = ()


def test_topic_ids_for_groups_change_when_topics_get_ids_or_are_deleted() -> None:
    """Topics have no id until inter.broker.protocol.version is 2.8 or later."""
    cache = MetadataCache(1)
    registry = ClusterRegistry(1, "cluster", cache)
    topics = TopicsOfGroups(registry)
    topics.follow(NoGroups())  # type: ignore[arg-type]
    registry.learnt(tell(cache, *[topic(name, [1]) for name in "abcd"]))
    assert topics.image.names == {}
    registry.learnt(tell(cache, topic("a", [1], ID), topic("b", [1], OTHER_ID)))
    assert topics.image.names == {ID: "a", OTHER_ID: "b"}
    registry.learnt(tell(cache, deleted("c", 1), deleted("d", 1)))
    assert topics.image.names == {ID: "a", OTHER_ID: "b"}
