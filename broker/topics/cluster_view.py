"""The cluster's brokers and leaders, as shown to clients.

A standalone broker is the whole cluster: `AloneView`. In a cluster of several `ClusterView` is the
controller's last metadata (`broker/cluster/metadata_cache.py`) and nothing else, so that every
broker shows the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from broker.topics.logs import LogManager
from broker.topics.registry import BrokerNode

NO_LEADER = -1


class PartitionView(NamedTuple):
    """A partition as shown to clients; brokers by their ids."""

    leader: int
    """The leader's id, or NO_LEADER."""
    leader_epoch: int
    replicas: Sequence[int]
    """The first is preferred as leader."""
    isr: Sequence[int]
    """The replicas that have all that is committed."""
    offline: Sequence[int] = ()
    """The replicas that can't be reached."""


class ClusterView(Protocol):
    """See the module. A listener is named as in ``listeners``."""

    @property
    def controller_id(self) -> int:
        """The controller's broker, -1 where it isn't known."""

    @property
    def is_told(self) -> bool:
        """Whether any live broker is known."""

    async def told(self, timeout: asyncio.Timeout) -> bool:
        """Waits until one is; False where none is in time."""

    def brokers(self, listener: str) -> Sequence[BrokerNode]:
        """The live brokers that have that listener, in the order of their ids."""

    def node(self, node_id: int, listener: str) -> BrokerNode | None:
        """A live broker, on that listener."""

    def partition(self, topic: str, index: int) -> PartitionView | None:
        """A partition; None where nothing is known of it yet."""


class AloneView:
    """One broker that leads all, with the only replica of each."""

    is_told = True
    """See `ClusterView`."""

    def __init__(
        self, node_id: int, logs: LogManager, node_of: Callable[[str], BrokerNode]
    ) -> None:
        """``node_of`` gives this broker on a listener."""
        self.controller_id = node_id
        self._replicas = (node_id,)
        self._logs = logs
        self._node_of = node_of

    async def told(self, timeout: asyncio.Timeout) -> bool:  # noqa: ARG002
        """See `ClusterView`."""
        return True

    def brokers(self, listener: str) -> Sequence[BrokerNode]:
        """See `ClusterView`."""
        return (self._node_of(listener),)

    def node(self, node_id: int, listener: str) -> BrokerNode | None:
        """See `ClusterView`."""
        return self._node_of(listener) if node_id == self.controller_id else None

    def partition(self, topic: str, index: int) -> PartitionView | None:
        """See `ClusterView`."""
        found = self._logs.get(topic, index)
        if found is None:
            return None
        replicas = self._replicas
        return PartitionView(self.controller_id, found.leader_epoch, replicas, replicas)
