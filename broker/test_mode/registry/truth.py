"""The state of a tested cluster in its registry: brokers, controller, partitions."""

from __future__ import annotations

from typing import NamedTuple

from broker.cluster.metadata_cache import MetadataCache
from broker.test_mode.registry.ensemble import Ensemble
from protocol.znodes import admin, brokers, cluster, topics
from protocol.znodes.topics import StateNode


class PartitionState(NamedTuple):
    """The state of one partition in the registry."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    """The broker ids of the replicas; the first replica is the preferred leader."""
    state: StateNode | None
    """The leader, epoch and ISR; None until the controller has elected the first leader."""


class Truth:
    """Reads the cluster state from the nodes of a registry. The nodes are authoritative."""

    def __init__(self, ensemble: Ensemble) -> None:
        self._ensemble = ensemble

    @property
    def registered(self) -> list[int]:
        """The ids of the registered brokers in ascending order."""
        node = self._ensemble.nodes.get(brokers.IDS)
        return [] if node is None else sorted(map(int, node.children))

    @property
    def controller_id(self) -> int | None:
        node = self._ensemble.nodes.get(cluster.CONTROLLER)
        return None if node is None else cluster.decode_controller(node.data or b"")

    @property
    def topics(self) -> list[str]:
        """The names of the topics in alphabetical order, without topics that are being deleted."""
        node = self._ensemble.nodes.get(topics.TOPICS)
        names = [] if node is None else sorted(node.children)
        return [each for each in names if admin.delete_path(each) not in self._ensemble.nodes]

    @property
    def is_deleting(self) -> bool:
        node = self._ensemble.nodes.get(admin.DELETE_TOPICS)
        return node is not None and bool(node.children)

    def partitions(self, topic: str) -> list[PartitionState]:
        """Returns the partitions of a topic; an empty list if the topic does not exist."""
        node = self._ensemble.nodes.get(topics.topic_path(topic))
        if node is None:
            return []
        assignment = topics.decode_topic(topic, node.data or b"").partitions
        return [
            PartitionState(topic, index, tuple(assignment[index]), self._state(topic, index))
            for index in sorted(assignment)
        ]

    def partition(self, topic: str, index: int) -> PartitionState | None:
        found = (each for each in self.partitions(topic) if each.partition == index)
        return next(found, None)

    def _state(self, topic: str, index: int) -> StateNode | None:
        node = self._ensemble.nodes.get(topics.state_path(topic, index))
        if node is None or not node.data:
            return None
        return topics.decode_state(topic, index, node.data)

    def is_known_to(self, cache: MetadataCache) -> bool:
        """Returns True if a broker's metadata contains all brokers, the controller, all topics, and
        the current state of all partitions."""
        if cache.broker_ids != self.registered or cache.controller_id != self.controller_id:
            return False
        names = self.topics
        if sorted(cache.topics) != names:
            return False
        return all(_is_known(cache, each) for name in names for each in self.partitions(name))


def _is_known(cache: MetadataCache, there: PartitionState) -> bool:
    known = cache.topics[there.topic].partitions.get(there.partition)
    state = there.state
    if known is None or state is None:
        return False
    return (
        (known.leader, known.leader_epoch) == (state.leader, state.leader_epoch)
        and set(known.isr) == set(state.isr)
        and tuple(known.replicas) == there.replicas
    )
