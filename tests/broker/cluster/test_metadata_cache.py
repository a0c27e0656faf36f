"""Tests that the metadata cache contains the content of the controller's last requests."""

from __future__ import annotations

import asyncio

import pytest

from broker.cluster.metadata_cache import MetadataCache
from broker.topics.cluster_view import NO_LEADER
from broker.topics.registry import BrokerNode
from controller.requests import ShownPartition, ShownTopic
from tests.broker.cluster.told import LISTENER, brokers, deleted, tell, topic

ID, OTHER_ID = bytes(range(16)), bytes(range(1, 17))


@pytest.fixture
def cache() -> MetadataCache:
    return MetadataCache(1)


def test_metadata_cache_is_empty_before_the_first_update(cache: MetadataCache) -> None:
    assert cache.controller_id == -1
    assert cache.brokers(LISTENER) == []
    assert cache.node(1, LISTENER) is None
    assert cache.partition("t", 0) is None
    assert not cache.is_alive(1)


@pytest.mark.proves("clusters 10")
def test_metadata_cache_has_only_the_brokers_of_the_last_update(cache: MetadataCache) -> None:
    """A broker that the update omits has left the cluster."""
    tell(cache, alive=brokers((3, 1, 2), {1: "a"}), controller=2)
    assert cache.broker_ids == [1, 2, 3]
    assert cache.controller_id == 2
    assert cache.node(1, LISTENER) == BrokerNode(1, "h1", 9092, "a")
    assert cache.node(1, "OTHER") is None
    assert cache.racks() == {1: "a", 2: None, 3: None}

    assert tell(cache, alive=brokers((1, 3))).lost_brokers == (2,)
    assert [each.node_id for each in cache.brokers(LISTENER)] == [1, 3]
    assert not cache.is_alive(2)


def test_update_metadata_requests_are_merged_per_partition(cache: MetadataCache) -> None:
    tell(cache, topic("t", [1, 2], ID))
    learnt = tell(cache, ShownTopic("t", ID, [ShownPartition(1, 1, 3, 5, (3,), 1, (2, 3), ())]))

    assert learnt.topics == ("t",)
    assert cache.partition("t", 0) == (1, 0, (1,), (1,), [])
    assert cache.partition("t", 1) == (3, 5, (2, 3), (3,), [])
    assert cache.topic_name(ID) == "t"


def test_partition_whose_leader_is_down_has_no_leader(cache: MetadataCache) -> None:
    shown = ShownPartition(0, 1, 2, 5, (2, 1), 1, (2, 1, 3), (3,))
    tell(cache, ShownTopic("t", ID, [shown]), alive=brokers((1, 3)))

    found = cache.partition("t", 0)
    assert found is not None
    assert found.leader == NO_LEADER
    assert found.offline == [2, 3]


def test_topic_under_deletion_is_removed_from_the_metadata_cache(cache: MetadataCache) -> None:
    tell(cache, topic("t", [1, 2], ID))

    learnt = tell(cache, deleted("t", 2, ID), deleted("never", 1))

    assert learnt.deleted == (("t", 0), ("t", 1))
    assert cache.topics == {}
    assert cache.topic_name(ID) is None


def test_metadata_cache_applies_added_removed_and_replaced_topic_ids(cache: MetadataCache) -> None:
    """A topic id of None means that an older controller, which does not send topic ids, sent the
    metadata."""
    for topic_id in (None, ID, None, OTHER_ID):
        tell(cache, topic("t", [1], topic_id))
        assert cache.topics["t"].topic_id == topic_id
    assert cache.topic_name(ID) is None
    assert cache.topic_name(OTHER_ID) == "t"


async def test_method_until_returns_the_topics_whose_condition_is_unmet_at_the_timeout(
    cache: MetadataCache,
) -> None:
    def is_led(name: str) -> bool:
        return cache.partition(name, 0) is not None

    wanted = {name: lambda n=name: is_led(n) for name in ("a", "b")}
    both = asyncio.ensure_future(cache.until(wanted, asyncio.timeout(30)))
    await asyncio.sleep(0)
    tell(cache, topic("a", [1]))
    await asyncio.sleep(0)
    assert not both.done()
    tell(cache, topic("b", [1]))
    assert await both == []
    assert await cache.until({"c": lambda: is_led("c")}, asyncio.timeout(0)) == ["c"]
    assert await cache.until(wanted, asyncio.timeout(0)) == []
