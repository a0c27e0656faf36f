"""Builds the controller's requests to a metadata cache from short arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from broker.cluster.metadata_cache import Learnt, MetadataCache
from controller.requests import ShownPartition, ShownTopic, UpdateMetadataRequest
from controller.values import LEADER_OF_DELETED, BrokerFact
from protocol.znodes.brokers import Endpoint

LISTENER = "PLAINTEXT"
CONTROLLER = 1


def brokers(ids: Iterable[int], racks: Mapping[int, str] | None = None) -> list[BrokerFact]:
    """Returns live brokers, each with a different host."""
    return [
        BrokerFact(each, each, (Endpoint(LISTENER, f"h{each}", 9092),), (racks or {}).get(each))
        for each in ids
    ]


def topic(
    name: str,
    leaders: Sequence[int],
    topic_id: bytes | None = None,
    replicas: Sequence[int] | None = None,
) -> ShownTopic:
    """Returns a topic with these leaders. Each partition has ``replicas``, or only its leader as a
    replica."""
    partitions = [
        ShownPartition(
            index, 1, leader, 0, tuple(replicas or [leader]), 0, tuple(replicas or [leader]), ()
        )
        for index, leader in enumerate(leaders)
    ]
    return ShownTopic(name, topic_id, partitions)


def deleted(name: str, partitions: int, topic_id: bytes | None = None) -> ShownTopic:
    return topic(name, [LEADER_OF_DELETED] * partitions, topic_id)


def tell(
    cache: MetadataCache,
    *topics: ShownTopic,
    alive: Sequence[BrokerFact] = (),
    controller: int = CONTROLLER,
) -> Learnt:
    live = alive or brokers((1, 2, 3))
    return cache.update(UpdateMetadataRequest(1, -1, controller, 1, live, topics))
