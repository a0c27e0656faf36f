"""The controller's reads: converts nodes in ZooKeeper to facts for the controller's core, and sets
watches on the nodes.

A watch only reports that a node has changed; its receiver reads the node again, with a new watch. A
node that can't be parsed is logged once and omitted, so that it affects only its own topic or
broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import structlog

from broker.cluster.zookeeper.zookeeper import NoNode, Stat, Watch, ZooKeeper, children_of
from broker.topics.registry import uuid_bytes
from controller.facts import (
    BrokersSeen,
    IsrNotified,
    LogDirsNotified,
    PreferredSeen,
    ProducerIdsRead,
    ProducerIdsUnknown,
    ReassignmentsSeen,
    StatesRead,
    TopicGone,
    TopicSeen,
    UncleanSeen,
)
from controller.values import (
    Assignment,
    BrokerFact,
    LeaderAndIsr,
    TopicFact,
    TopicPartition,
)
from protocol.znodes import admin, brokers, cluster, configs, notices, topics
from protocol.znodes.fields import BadNode

logger = structlog.get_logger(__name__)

UNCLEAN = "unclean.leader.election.enable"


class ControllerReads:
    """Reads nodes in ZooKeeper for one term of the controller: for the time in which this broker is
    the controller."""

    def __init__(self, zookeeper: ZooKeeper, spare_id: Callable[[str], bytes]) -> None:
        """``spare_id`` returns a topic id for a topic whose node contains no topic id."""
        self._zookeeper = zookeeper
        self._spare_id = spare_id
        self._logged_errors: set[str] = set()
        """The errors about nodes that can't be parsed. Each error is logged only once."""
        self._moves_czxid = -1
        """The czxid of the node with reassignments when it was last read. The czxid is the id of
        the transaction that created the node."""

    async def brokers(self, watch: Watch) -> BrokersSeen:
        """Returns the registrations of all brokers. ``watch`` is called after registrations have
        been added, removed or changed."""
        before = await self._zookeeper.exists(brokers.IDS)
        names = await self._zookeeper.children(brokers.IDS, watch)
        ids = [int(name) for name in names if name.isascii() and name.isdigit()]
        found = await asyncio.gather(*[self._broker(each, watch) for each in ids])
        there = [each for each in found if each is not None]
        return BrokersSeen(there, -1 if before is None else before.version)

    async def _broker(self, broker_id: int, watch: Watch) -> BrokerFact | None:
        path = brokers.path(broker_id)
        try:
            data, stat = await self._zookeeper.get(path, watch)
            there = brokers.decode_registration(broker_id, data)
        except NoNode:
            return None
        except BadNode as error:
            self._bad(error)
            return None
        features = tuple((name, low, high) for name, (low, high) in there.features.items())
        return BrokerFact(broker_id, stat.czxid, there.endpoints, there.rack, features)

    async def names(self, path: str, watch: Watch) -> list[str]:
        """Returns the names of a node's children; an empty list if the node does not exist.
        ``watch`` is called when children change."""
        return await children_of(self._zookeeper, path, watch)

    async def topic(self, name: str, watch: Watch) -> TopicSeen | TopicGone | None:
        """Returns a topic's state. ``watch`` is called when the topic's node changes.

        Returns None if the node can't be parsed: the controller then keeps its state of the topic
        until the node changes.
        """
        try:
            data, stat = await self._zookeeper.get(topics.topic_path(name), watch)
            node = topics.decode_topic(name, data)
            topic_id = None if node.topic_id is None else uuid_bytes(node.topic_id)
        except NoNode:
            return TopicGone(name)
        except ValueError as error:
            self._bad(error)
            return None
        partitions = {
            each: Assignment(replicas, node.adding.get(each, ()), node.removing.get(each, ()))
            for each, replicas in node.partitions.items()
        }
        fact = TopicFact(name, topic_id, partitions, stat.version, stat.czxid, node.unknown)
        return TopicSeen(fact, self._spare_id(name))

    async def states(self, partitions: Sequence[TopicPartition]) -> StatesRead:
        """Returns the leader and ISR of partitions, from their state nodes in ZooKeeper."""
        return StatesRead(await asyncio.gather(*[self._state(each) for each in partitions]))

    async def _state(self, place: TopicPartition) -> tuple[TopicPartition, LeaderAndIsr | None]:
        try:
            data, stat = await self._zookeeper.get(topics.state_path(*place))
            node = topics.decode_state(*place, data)
        except NoNode:
            return place, None
        except BadNode as error:
            self._bad(error)
            return place, None
        state = LeaderAndIsr(
            node.leader,
            node.leader_epoch,
            node.isr,
            node.controller_epoch,
            node.recovering,
            stat.version,
            stat.mzxid,
        )
        return place, state

    async def unclean(self, topic: str) -> UncleanSeen:
        """Returns the topic's own value of ``unclean.leader.election.enable``, if it has one."""
        path = configs.path(configs.TOPICS, topic)
        try:
            data, _ = await self._zookeeper.get(path)
            text = configs.decode_config(path, data).get(UNCLEAN)
        except NoNode:
            text = None
        except BadNode as error:
            self._bad(error)
            text = None
        return UncleanSeen(topic, None if text is None else text.lower() == "true")

    async def producer_ids(self) -> ProducerIdsRead | ProducerIdsUnknown:
        """Returns the block of producer ids that was allocated last."""
        try:
            data, stat = await self._zookeeper.get(cluster.PRODUCER_IDS)
        except NoNode:
            return ProducerIdsRead(-1, -1)
        try:
            block = cluster.decode_producer_ids(data)
        except BadNode as error:
            self._bad(error)
            return ProducerIdsUnknown()
        return ProducerIdsRead(-1 if block is None else block.last, stat.version)

    async def reassignments(self, watch: Watch) -> ReassignmentsSeen | None:
        """Returns the reassignments that a tool has requested by creating the node
        `/admin/reassign_partitions`. Calls ``watch`` when a tool creates the node again. Raises
        BadNode.

        Returns None if this node was read before. A later change of the same node is a write of
        this controller, which removes completed reassignments from the node. If the controller read
        it as a request, it would restart all reassignments in progress.
        """
        found = await self._asked(admin.REASSIGN, watch)
        if found is None:
            return ReassignmentsSeen({})
        data, stat = found
        seen = ReassignmentsSeen(admin.decode_reassignments(data))
        if stat.czxid == self._moves_czxid:
            return None
        self._moves_czxid = stat.czxid
        return seen

    async def preferred(self, watch: Watch) -> PreferredSeen | None:
        """Returns the content of the node in which an old tool lists partitions that must elect
        their preferred leader. Raises BadNode.

        Returns None if the node does not exist. The controller then deletes no node: a tool may
        create the node after this read.
        """
        found = await self._asked(admin.PREFERRED, watch)
        return None if found is None else PreferredSeen(admin.decode_preferred(found[0]))

    async def _asked(self, path: str, watch: Watch) -> tuple[bytes, Stat] | None:
        while await self._zookeeper.exists(path, watch) is not None:
            try:
                return await self._zookeeper.get(path)
            except NoNode:
                continue
        return None

    async def isr_notices(self, watch: Watch) -> IsrNotified:
        """Returns the notifications in which leaders name partitions with a changed ISR."""
        found = await self._notices(notices.ISR_CHANGES, watch)
        partitions: list[TopicPartition] = []
        for path, data in found:
            try:
                partitions += notices.decode_isr_change(path, data)
            except BadNode as error:
                self._bad(error)
        return IsrNotified([path for path, _ in found], partitions)

    async def log_dir_notices(self, watch: Watch) -> LogDirsNotified:
        """Returns the notifications of brokers whose log directories have failed or recovered."""
        found = await self._notices(notices.LOG_DIR_EVENTS, watch)
        ids: list[int] = []
        for path, data in found:
            try:
                ids.append(notices.decode_log_dir_event(path, data))
            except BadNode as error:
                self._bad(error)
        return LogDirsNotified([path for path, _ in found], ids)

    async def _notices(self, parent: str, watch: Watch) -> list[tuple[str, bytes]]:
        names = sorted(await self.names(parent, watch), key=notices.number_of)
        found = []
        for name in names:
            path = f"{parent}/{name}"
            try:
                found.append((path, (await self._zookeeper.get(path))[0]))
            except NoNode:
                continue
        return found

    def _bad(self, error: ValueError) -> None:
        if str(error) not in self._logged_errors:
            self._logged_errors.add(str(error))
            logger.error("ZooKeeper node can't be parsed, ignored", reason=str(error))
