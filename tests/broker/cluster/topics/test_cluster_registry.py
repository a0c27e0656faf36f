"""Tests that the topic registry in a cluster contains the topics of the controller's metadata, with
their settings."""

from __future__ import annotations

import pytest

from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.topics.cluster_registry import ClusterRegistry
from broker.topics.registry import NO_FEATURES, Topic
from protocol.schema import ZERO_UUID
from tests.broker.cluster.told import deleted, tell, topic

ID, OTHER_ID = bytes(range(16)), bytes(range(1, 17))


@pytest.fixture
def cache() -> MetadataCache:
    return MetadataCache(1)


@pytest.fixture
def registry(cache: MetadataCache) -> ClusterRegistry:
    return ClusterRegistry(1, "cluster-id", cache)


def test_registry_has_a_topic_after_the_controller_sent_its_metadata(
    cache: MetadataCache, registry: ClusterRegistry
) -> None:
    learnt = registry.learnt(tell(cache, topic("t", [1, 2], ID)))

    assert learnt.shown == (Topic("t", ID, 2),)
    assert learnt.gone == ()
    assert registry.topics == {"t": Topic("t", ID, 2)}
    assert registry.partition_counts == {"t": 2}
    assert registry.topic("t") == registry.topic_by_id(ID) == Topic("t", ID, 2)
    assert registry.topic_name(ID) == "t"
    assert registry.topic_id("t") == ID
    assert registry.features is NO_FEATURES


def test_repeated_topic_metadata_does_not_count_as_a_registry_change(
    cache: MetadataCache, registry: ClusterRegistry
) -> None:
    registry.learnt(tell(cache, topic("t", [1], ID)))

    assert registry.learnt(tell(cache, topic("t", [2], ID))) == ((), ())


def test_registry_reports_a_topic_with_added_partitions_as_changed(
    cache: MetadataCache, registry: ClusterRegistry
) -> None:
    registry.learnt(tell(cache, topic("t", [1], ID)))

    learnt = registry.learnt(tell(cache, topic("t", [1, 2, 3], ID)))

    assert learnt.shown == (Topic("t", ID, 3),)
    assert learnt.gone == ()


def test_topic_under_deletion_is_removed_from_the_registry(
    cache: MetadataCache, registry: ClusterRegistry
) -> None:
    registry.learnt(tell(cache, topic("t", [1, 2], ID)))

    learnt = registry.learnt(tell(cache, deleted("t", 2, ID)))

    assert learnt == ((), (Topic("t", ID, 2),))
    assert not registry.topics
    assert not registry.partition_counts
    assert registry.topic_by_id(ID) is None


def test_topic_with_another_id_replaces_the_topic_of_the_same_name(
    cache: MetadataCache, registry: ClusterRegistry
) -> None:
    registry.learnt(tell(cache, topic("t", [1, 2], ID)))
    registry.configured("t", {"retention.ms": "1"})

    learnt = registry.learnt(tell(cache, topic("t", [1, 2], OTHER_ID)))

    assert learnt.gone == (Topic("t", ID, 2, {"retention.ms": "1"}),)
    assert learnt.shown == (Topic("t", OTHER_ID, 2),)
    assert registry.topic_by_id(ID) is None


def test_topic_keeps_its_settings_when_its_id_is_added_later(
    cache: MetadataCache, registry: ClusterRegistry
) -> None:
    registry.learnt(tell(cache, topic("t", [1])))
    registry.configured("t", {"retention.ms": "1"})
    assert registry.topic_id("t") == ZERO_UUID
    assert registry.topic_by_id(ZERO_UUID) is None

    learnt = registry.learnt(tell(cache, topic("t", [1], ID)))

    assert learnt == ((Topic("t", ID, 1, {"retention.ms": "1"}),), ())


def test_topic_settings_that_arrive_before_the_topic_are_kept(
    cache: MetadataCache, registry: ClusterRegistry
) -> None:
    assert registry.configured("t", {"retention.ms": "1"}) is None

    registry.learnt(tell(cache, topic("t", [1], ID)))

    assert registry.topics["t"].configs == {"retention.ms": "1"}
    assert registry.configured("t", {}) == Topic("t", ID, 1)
    assert registry.topic_by_id(ID) == Topic("t", ID, 1)


def test_replaced_topic_has_no_partitions_of_the_previous_topic(
    cache: MetadataCache, registry: ClusterRegistry
) -> None:
    """The broker missed the topic deletion because it was disconnected."""
    registry.learnt(tell(cache, topic("t", [1, 2, 3], ID)))

    learnt = registry.learnt(tell(cache, topic("t", [2], OTHER_ID)))

    assert learnt.shown == (Topic("t", OTHER_ID, 1),)
    assert cache.partition("t", 1) is None
