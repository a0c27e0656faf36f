"""Blocks of producer ids in a cluster: each broker reserves blocks in one ZooKeeper node by
compare-and-set.

The version of the node decides which broker gets a block. Older brokers, and controllers that
allocate blocks for other brokers (AllocateProducerIds, KIP-730), use the same node. Thus each id is
used once, whichever broker is the controller. Source: Kafka 3.9 ``ZkProducerIdManager``.
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
    """Reserves blocks of producer ids for the `ProducerIdPool` of a broker in a cluster."""

    def __init__(self, zookeeper: ZooKeeper, node_id: int) -> None:
        self._zookeeper = zookeeper
        self._node_id = node_id

    async def reserve(self, count: int) -> range:
        """Returns the next ``count`` producer ids, which are reserved for this broker. Raises
        OSError if ZooKeeper can't be used."""
        try:
            while True:
                found = await self._taken(count)
                if found is not None:
                    return found
        except (ZooKeeperError, BadNode) as error:
            raise OSError(errno.EAGAIN, str(error)) from error

    async def _taken(self, count: int) -> range | None:
        """Tries once to reserve the next block of ids. Returns None if another broker reserved the
        block first, or if the node did not exist.

        If the response to a successful write is lost, the block is never used.
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
            raise BadNode(
                cluster.PRODUCER_IDS, "contains the last producer id: all ids are assigned"
            )
        block = ProducerIdBlock(self._node_id, first, first + count - 1)
        written = cluster.encode_producer_ids(block)
        try:
            await self._zookeeper.set(cluster.PRODUCER_IDS, written, stat.version)
        except BadVersion:
            return None
        return range(first, first + count)
