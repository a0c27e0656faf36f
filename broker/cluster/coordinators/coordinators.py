"""Coordinators in a cluster: the leader of a partition of an internal topic serves its shard.

| request of the controller | effect on the partition's shard |
|---|---|
| this broker becomes the leader | the shard is loaded, and serves once its records are stable |
| this broker stays the leader in a newer leader epoch | the shard writes in the newer epoch |
| another broker leads, or the replica is stopped | parked requests are answered, loading ends |
| any request of an older leader epoch | the request is ignored |
| the internal topic is deleted | all shards are removed; a topic of the same name starts empty |
| another topic is deleted | the shards of this broker drop the topic's committed offsets |

The partition of a key depends on the topic's partition count. The count is read once from the
topic's node, since metadata may not list all partitions yet. Until the count is known, requests for
any key get NOT_COORDINATOR.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import structlog

from broker.cluster.metadata_cache import Learnt
from broker.cluster.zookeeper.zookeeper import Closed, NoNode, ZooKeeper, ZooKeeperError
from broker.cores.groups.runtime import GroupRuntime
from broker.cores.runtime import Runtime
from broker.cores.share_state.runtime import ShareStateRuntime
from broker.cores.transactions.runtime import TransactionRuntime
from broker.loop.slices import Slicer
from broker.topics.registry import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_TOPIC,
    uuid_bytes,
)
from broker.topics.replicas.replica import Replica
from protocol.schema import ZERO_UUID
from protocol.znodes.fields import BadNode
from protocol.znodes.topics import TopicNode, decode_topic, topic_path

if TYPE_CHECKING:
    from asyncio import Task

logger = structlog.get_logger(__name__)

AGAIN_S = 1.0
"""The delay in seconds before a topic's node is read again after a failure."""


class Coordinators:
    """The coordinators of this broker. Only the event loop's thread may use this class.

    The `on_...` methods implement `ReplicaHooks`.
    """

    def __init__(
        self,
        groups: GroupRuntime,
        transactions: TransactionRuntime,
        share_states: ShareStateRuntime,
        zookeeper: ZooKeeper,
        slicer: Slicer,
        spawn: Callable[[Coroutine[Any, Any, None], str], Task[None]],
        before_start: Callable[[], None],
    ) -> None:
        """``before_start`` configures the runtimes. It is called as soon as the settings of the
        internal topics are known."""
        self._groups = groups
        self._zookeeper = zookeeper
        self._slicer = slicer
        self._spawn = spawn
        self._before_start = before_start
        self._coordinated = {
            OFFSETS_TOPIC: _Coordinated(OFFSETS_TOPIC, groups),
            TRANSACTION_TOPIC: _Coordinated(TRANSACTION_TOPIC, transactions),
            SHARE_STATE_TOPIC: _Coordinated(SHARE_STATE_TOPIC, share_states),
        }

    # -- from the controller

    def on_leader(self, replica: Replica, leader_epoch: int) -> None:
        """Loads the shard of a partition that this broker leads. Ignores an old leader epoch.

        This broker may have led the partition in an earlier epoch; then the shard stays loaded.
        """
        coordinated = self._coordinated.get(replica.topic)
        if coordinated is not None and coordinated.is_new(replica.index, leader_epoch):
            coordinated.led[replica.index] = replica
            if coordinated.runtime.is_started:
                coordinated.lead(replica)
            else:
                self._begin(coordinated)

    def on_follower(self, replica: Replica, leader_epoch: int) -> None:
        """Unloads the shard of a partition that another broker leads. Ignores the call if the
        leader epoch is old. The leader epochs -1 and -2 are never old."""
        coordinated = self._coordinated.get(replica.topic)
        if coordinated is not None and coordinated.is_new(replica.index, leader_epoch):
            coordinated.led.pop(replica.index, None)
            coordinated.runtime.resign(replica.index)

    def on_deleted(self, topic: str, index: int) -> None:  # noqa: ARG002
        """Removes all shards of an internal topic when one of its partitions is deleted, since the
        whole topic is deleted."""
        coordinated = self._coordinated.get(topic)
        if coordinated is not None:
            coordinated.forget()

    def on_learnt(self, learnt: Learnt) -> None:
        """Applies changed metadata: starts the coordinator of a new internal topic, and drops the
        committed offsets of deleted topics."""
        gone = {topic for topic, _ in learnt.deleted}
        for name, coordinated in self._coordinated.items():
            is_known = name in learnt.topics and name not in gone
            if is_known and not coordinated.runtime.is_started:
                self._begin(coordinated)
        gone -= self._coordinated.keys()
        if gone:
            self._spawn(self._drop_offsets(gone), "offsets of deleted topics")

    async def _drop_offsets(self, topics: set[str]) -> None:
        """Drops the committed offsets of deleted topics in every shard of this broker."""
        await self._groups.duties.drop(topics, self._slicer.work("offsets of deleted topics"))

    # -- partition counts

    def _begin(self, coordinated: _Coordinated) -> None:
        if not coordinated.is_being_read:
            coordinated.is_being_read = True
            self._spawn(self._read(coordinated), "coordinator's topic")

    async def _read(self, coordinated: _Coordinated) -> None:
        """Reads the internal topic's node and starts the topic's coordinator. Repeats a failed
        read, unless the node does not exist."""
        topic = coordinated.topic
        try:
            while True:
                before = coordinated.deletions
                try:
                    data, _ = await self._zookeeper.get(topic_path(topic))
                    node = decode_topic(topic_path(topic), data)
                except (NoNode, Closed):
                    return  # metadata reports the topic as soon as it is created
                except (ZooKeeperError, BadNode) as error:
                    logger.error(
                        "partition count of coordinator topic can't be read, requests to its"
                        " coordinators fail",
                        topic=topic,
                        reason=str(error),
                    )
                    await self._slicer.time.sleep(AGAIN_S)
                    continue
                if before != coordinated.deletions:
                    continue  # the node may belong to the deleted topic
                if node.partitions:
                    self._before_start()
                    coordinated.start(node)
                return
        finally:
            coordinated.is_being_read = False


class _Coordinated:
    """One internal topic, and the runtime that serves its shards."""

    def __init__(self, topic: str, runtime: Runtime[Any, Any]) -> None:
        self.topic = topic
        self.runtime = runtime
        self.led: dict[int, Replica] = {}
        """The topic's replicas that this broker leads, by partition."""
        self.is_being_read = False
        self.deletions = 0
        """The number of times that the internal topic was deleted while this broker runs."""
        self._epochs: dict[int, int] = {}
        """The highest leader epoch that the controller has sent for each partition."""

    def is_new(self, index: int, leader_epoch: int) -> bool:
        """Returns False if the controller has already sent a higher leader epoch for the partition;
        otherwise True."""
        if leader_epoch < 0:
            return True
        if leader_epoch < self._epochs.get(index, -1):
            return False
        self._epochs[index] = leader_epoch
        return True

    def start(self, node: TopicNode) -> None:
        """Starts the runtime with the partition count from the topic's node, and loads the shards
        of all partitions that this broker leads."""
        count = max(node.partitions) + 1
        topic_id = ZERO_UUID if node.topic_id is None else uuid_bytes(node.topic_id)
        self.runtime.start([], topic_id, count=count)
        for replica in list(self.led.values()):
            self.lead(replica)

    def lead(self, replica: Replica) -> None:
        """Loads the shard of a partition that this broker leads. If the shard is loaded already, it
        writes its next batches with the new leader epoch."""
        if replica.index < self.runtime.life.partitions:
            self.runtime.lead(replica)
            return
        logger.error(
            "partitions added to coordinator topic, not served until restart",
            partition=replica.name,
            partitions=self.runtime.life.partitions,
        )

    def forget(self) -> None:
        """Removes all shards, because the internal topic was deleted."""
        self.deletions += 1
        self.led.clear()
        self._epochs.clear()
        self.runtime.forget()
