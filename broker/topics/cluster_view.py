"""The brokers and leaders of the cluster, as the broker shows them in responses to clients. A
standalone broker uses `AloneView`, which shows a cluster of this one broker. In a cluster, the view
contains exactly the metadata that the controller sent last (`broker/cluster/metadata_cache.py`), so
that all brokers return the same metadata."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from broker.topics.logs import LogManager
from broker.topics.registry import BrokerNode

NO_LEADER = -1


class PartitionView(NamedTuple):
    """The state of a partition, as responses to clients show it."""

    leader: int
    """The broker id of the leader, or NO_LEADER."""
    leader_epoch: int
    replicas: Sequence[int]
    """The broker ids of the replicas; the first replica is the preferred leader."""
    isr: Sequence[int]
    offline: Sequence[int] = ()
    """The broker ids of the replicas whose brokers are down."""


class ClusterView(Protocol):
    """The data for responses to metadata requests. The parameter ``listener`` is the name of a
    listener."""

    @property
    def controller_id(self) -> int:
        """The broker id of the controller; -1 if unknown."""

    @property
    def has_brokers(self) -> bool:
        """True if at least one live broker is known."""

    async def await_brokers(self, timeout: asyncio.Timeout) -> bool:
        """Waits until a live broker is known. Returns False after the timeout."""

    def brokers(self, listener: str) -> Sequence[BrokerNode]:
        """Returns the addresses of all live brokers on the listener ``listener``, ordered by broker
        id. Brokers without this listener are omitted."""

    def node(self, node_id: int, listener: str) -> BrokerNode | None:
        """Returns a live broker's address on the listener ``listener``; None if unknown."""

    def partition(self, topic: str, index: int) -> PartitionView | None:
        """Returns the state of a partition; None if the partition is not known yet."""


class AloneView:
    """The data for Metadata responses of a standalone broker, which has the only replica of each
    partition and leads each partition."""

    has_brokers = True

    def __init__(
        self, node_id: int, logs: LogManager, node_of: Callable[[str], BrokerNode]
    ) -> None:
        """Creates the view. ``node_of`` returns this broker's address on a listener."""
        self.controller_id = node_id
        self._replicas = (node_id,)
        self._logs = logs
        self._node_of = node_of

    async def await_brokers(self, timeout: asyncio.Timeout) -> bool:  # noqa: ARG002
        return True

    def brokers(self, listener: str) -> Sequence[BrokerNode]:
        return (self._node_of(listener),)

    def node(self, node_id: int, listener: str) -> BrokerNode | None:
        return self._node_of(listener) if node_id == self.controller_id else None

    def partition(self, topic: str, index: int) -> PartitionView | None:
        found = self._logs.get(topic, index)
        if found is None:
            return None
        replicas = self._replicas
        return PartitionView(self.controller_id, found.leader_epoch, replicas, replicas)
