"""The cluster's brokers and leaders, for responses to clients.

`AloneView` represents a standalone broker as the whole cluster. In a cluster the view contains
exactly the metadata that the controller sent last (`broker/cluster/metadata_cache.py`), so that all
brokers return the same metadata.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from broker.topics.logs import LogManager
from broker.topics.registry import BrokerNode

NO_LEADER = -1


class PartitionView(NamedTuple):
    """The state of a partition as responses to clients describe it."""

    leader: int
    """The broker id of the leader, or NO_LEADER."""
    leader_epoch: int
    replicas: Sequence[int]
    """The broker ids of the replicas; the first replica is the preferred leader."""
    isr: Sequence[int]
    """The broker ids of the in-sync replicas."""
    offline: Sequence[int] = ()
    """The broker ids of the replicas whose brokers are down."""


class ClusterView(Protocol):
    """The data for responses to metadata requests. The parameter ``listener`` is always the name of
    a listener."""

    @property
    def controller_id(self) -> int:
        """The broker id of the controller; -1 if unknown."""

    @property
    def has_brokers(self) -> bool:
        """True if at least one live broker is known."""

    async def await_brokers(self, timeout: asyncio.Timeout) -> bool:
        """Waits until a live broker is known; returns False after the timeout."""

    def brokers(self, listener: str) -> Sequence[BrokerNode]:
        """Returns the addresses on the listener of all live brokers that have it, ordered by broker
        id."""

    def node(self, node_id: int, listener: str) -> BrokerNode | None:
        """Returns a live broker's address on the listener; None if unknown."""

    def partition(self, topic: str, index: int) -> PartitionView | None:
        """Returns the state of a partition; None if the partition is not known yet."""


class AloneView:
    """The view of a standalone broker, which leads all partitions and has their only replicas."""

    has_brokers = True
    """Implements `ClusterView.has_brokers`."""

    def __init__(
        self, node_id: int, logs: LogManager, node_of: Callable[[str], BrokerNode]
    ) -> None:
        """Creates the view; ``node_of`` returns this broker's address on a listener."""
        self.controller_id = node_id
        self._replicas = (node_id,)
        self._logs = logs
        self._node_of = node_of

    async def await_brokers(self, timeout: asyncio.Timeout) -> bool:  # noqa: ARG002
        """Implements `ClusterView.await_brokers`."""
        return True

    def brokers(self, listener: str) -> Sequence[BrokerNode]:
        """Implements `ClusterView.brokers`."""
        return (self._node_of(listener),)

    def node(self, node_id: int, listener: str) -> BrokerNode | None:
        """Implements `ClusterView.node`."""
        return self._node_of(listener) if node_id == self.controller_id else None

    def partition(self, topic: str, index: int) -> PartitionView | None:
        """Implements `ClusterView.partition`."""
        found = self._logs.get(topic, index)
        if found is None:
            return None
        replicas = self._replicas
        return PartitionView(self.controller_id, found.leader_epoch, replicas, replicas)
