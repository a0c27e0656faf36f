"""Blocks of producer ids in a cluster: reserved in one node by compare-and-set.

Every broker reserves its own, also where a controller hands blocks to other brokers
(AllocateProducerIds, KIP-730) and where older brokers use the same node: the node's version decides
who got which block. So no id is used twice, whichever broker is the controller. Source: Kafka 3.9
``ZkProducerIdManager``.
"""

from __future__ import annotations

import errno
from contextlib import suppress

from broker.cluster.zookeeper.zookeeper import (
    BadVersion,
    NodeExists,
    NoNode,
    ZooKeeper,
    ZooKeeperError,
)
from protocol.znodes import cluster
from protocol.znodes.cluster import ProducerIdBlock
from protocol.znodes.fields import BadNode

LAST_ID = 2**63 - 1


class ProducerIdBlocks:
    """Where a `ProducerIdPool` in a cluster gets its ids."""

    def __init__(self, zookeeper: ZooKeeper, node_id: int) -> None:
        self._zookeeper = zookeeper
        self._node_id = node_id

    async def reserve(self, count: int) -> range:
        """The next ids, which no other broker gets. Raises OSError where none can be had now."""
        try:
            while True:
                found = await self._taken(count)
                if found is not None:
                    return found
        except (ZooKeeperError, BadNode) as error:
            raise OSError(errno.EAGAIN, str(error)) from error

    async def _taken(self, count: int) -> range | None:
        """The next block; None where another broker was faster, or the node was missing.

        A block that was written and whose answer was lost looks like another's: it is lost.
        """
        try:
            data, stat = await self._zookeeper.get(cluster.PRODUCER_IDS)
        except NoNode:
            with suppress(NodeExists):
                await self._zookeeper.create(cluster.PRODUCER_IDS, None)
            return None
        last = cluster.decode_producer_ids(data)
        first = 0 if last is None else last.last + 1
        if first + count - 1 > LAST_ID:
            raise BadNode(cluster.PRODUCER_IDS, "has no producer ids left: all are assigned")
        block = ProducerIdBlock(self._node_id, first, first + count - 1)
        written = cluster.encode_producer_ids(block)
        try:
            await self._zookeeper.set(cluster.PRODUCER_IDS, written, stat.version)
        except BadVersion:
            return None
        return range(first, first + count)
