"""Creates and deletes topics of a cluster, and adds partitions, by writing nodes in ZooKeeper.

The controller watches these nodes and executes the change, whichever broker or tool has written
them. So the write of a node only requests the change: `led` and `gone` wait until the controller
has sent the result. Only the controller accepts clients' requests to change topics. A topic that is
created on its first use is written by the broker that received the request. Source: Kafka 3.9
``AdminZkClient``, ``AutoTopicCreationManager``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

import structlog

from broker.cluster.controller.controller_host import ControllerHost
from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.topics.replica_assignment import assign, start_of
from broker.cluster.zookeeper.zookeeper import (
    BadVersion,
    Create,
    MultiFailed,
    NodeExists,
    NoNode,
    Operation,
    Set,
    ZooKeeper,
    ZooKeeperError,
    in_time,
)
from broker.config.config import Config, topic_settings
from broker.time import Time
from broker.topics.cluster_view import NO_LEADER
from broker.topics.owned_topics import OWNED, OwnedTopic, keep_fixed
from broker.topics.registry import Registry, Topic, colliding, uuid_text
from broker.topics.topic_changes import (
    LEFT_TO_BROKER,
    Assignment,
    BadAssignment,
    BeingReassigned,
    CannotChange,
    NoSuchTopic,
    TopicExists,
    check_factor,
    check_replicas,
)
from protocol.schema import ZERO_UUID
from protocol.topic_names import check_topic_name
from protocol.znodes import admin, configs, topics
from protocol.znodes.fields import BadNode
from protocol.znodes.topics import VERSION, TopicNode

logger = structlog.get_logger(__name__)


class ClusterTopics:
    """Implements `TopicChanges` with ZooKeeper. Only the event loop's thread may use this class."""

    def __init__(
        self,
        config: Config,
        registry: Registry,
        cache: MetadataCache,
        zookeeper: ZooKeeper,
        host: ControllerHost,
        time: Time,
        topic_version: int = VERSION,
    ) -> None:
        """``topic_version`` is the version of the format in which nodes of topics are written."""
        self._config = config
        self._registry = registry
        self._cache = cache
        self._zookeeper = zookeeper
        self._host = host
        self._time = time
        self._topic_version = topic_version
        self._pending: dict[str, asyncio.Future[None]] = {}
        """The topics whose nodes this broker is writing. Other callers that create the same topic
        wait for the future."""

    # -- checks

    @property
    def is_controller(self) -> bool:
        return self._host.is_active

    def check_new(self, name: str) -> None:
        check_topic_name(name)
        if self._registry.topic(name) or name in self._pending:
            raise TopicExists(f"Topic '{name}' already exists.")

    def collisions(self, name: str) -> list[str]:
        return colliding(name, self._registry.topics)

    def placed(self, partitions: int, factor: int) -> Assignment:
        racks = self._racks()
        if factor == LEFT_TO_BROKER:
            factor = self._config["default.replication.factor"]
        check_factor(factor, len(racks))
        randrange = self._time.chance.randrange
        start, shift = randrange(len(racks)), randrange(len(racks))
        return assign(racks, partitions, factor, start=start, shift=shift)

    def check_assignment(self, assignment: Assignment) -> None:
        """Implements `TopicChanges.check_assignment`. As in Kafka, a new topic may have replicas on
        brokers that are not alive."""
        for partition, broker_ids in enumerate(assignment):
            check_replicas(partition, broker_ids)
        _check_same_factor(len(assignment[0]), assignment)

    def check_more(self, name: str, first: int, assignment: Assignment) -> None:
        alive = self._cache.broker_ids
        for partition, broker_ids in enumerate(assignment, first):
            check_replicas(partition, broker_ids, alive)
        there = self._cache.partition(name, 0)
        if there is not None:
            _check_same_factor(len(there.replicas), assignment)

    # -- creating

    async def create(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str],
        assignment: Assignment | None = None,
    ) -> Topic:
        self.check_new(name)
        own = keep_fixed(name, configs)
        topic_settings(self._config, own)
        replicas = assignment or self.placed(partitions, LEFT_TO_BROKER)
        topic_id = self._time.fresh_id() if self._topic_version >= VERSION else ZERO_UUID
        topic = Topic(name, topic_id, partitions, own)
        done = asyncio.get_running_loop().create_future()
        self._pending[name] = done
        try:
            await in_time(self._time, self._write_new(topic, replicas))
        except ZooKeeperError as error:
            raise CannotChange(str(error)) from error
        finally:
            del self._pending[name]
            done.set_result(None)
        logger.info("topic created", topic=name, partitions=partitions)
        return topic

    async def ensure(self, name: str) -> Topic | None:
        if name in OWNED:
            return await self.ensure_owned(OWNED[name])
        return await self._ensure(name, self._config["num.partitions"], LEFT_TO_BROKER, {})

    async def ensure_owned(self, owned: OwnedTopic) -> Topic | None:
        """Implements `TopicChanges.ensure_owned`. The topic gets exactly the configured replication
        factor, as in Kafka since 0.11."""
        config = self._config
        factor = config[owned.replication_setting]
        own = owned.created_with(config, factor)
        return await self._ensure(owned.name, owned.partitions(config), factor, own)

    async def _ensure(
        self, name: str, partitions: int, factor: int, own: Mapping[str, str]
    ) -> Topic | None:
        topic = self._registry.topic(name)
        if topic is not None:
            return topic
        if name in self._pending:
            await asyncio.shield(self._pending[name])
            return self._registry.topic(name)
        with suppress(TopicExists):  # another broker made it, or metadata does not list it yet
            await self.create(name, partitions, own, self.placed(partitions, factor))
        return self._registry.topic(name)

    async def _write_new(self, topic: Topic, assignment: Assignment) -> None:
        """Creates the nodes of the topic and of its settings by one ZooKeeper multi. Raises
        TopicExists."""
        zookeeper, name = self._zookeeper, topic.name
        # The controller deletes this node last; until then the settings may belong to the old
        # topic.
        if await zookeeper.exists(admin.delete_path(name)) is not None:
            raise TopicExists(f"Topic '{name}' is marked for deletion.")
        path = configs.path(configs.TOPICS, name)
        settings = configs.encode_config(topic.configs)
        node = topics.encode_topic(
            TopicNode(
                {index: tuple(each) for index, each in enumerate(assignment)},
                uuid_text(topic.topic_id) if topic.topic_id != ZERO_UUID else None,
            ),
            self._topic_version,
        )
        write: Operation = Create(path, settings)
        unsure = False
        while True:
            try:
                await zookeeper.multi([write, Create(topics.topic_path(name), node)])
            except MultiFailed as failed:
                error = failed.error
                unsure = unsure or error.unsure
                if failed.index == 0 and isinstance(error, NodeExists | NoNode):
                    # The node is from an unfinished creation, or from an earlier attempt of this
                    # call.
                    is_there = isinstance(error, NodeExists)
                    write = Set(path, settings) if is_there else Create(path, settings)
                elif failed.index == 1 and isinstance(error, NodeExists):
                    if unsure and await self._says(name, node):
                        return
                    raise TopicExists(f"Topic '{name}' already exists.") from None
                else:
                    raise error from None
            else:
                return

    async def _says(self, name: str, node: bytes) -> bool:
        """Returns True if the data of the topic's node in ZooKeeper equals ``node``."""
        data, _ = await self._zookeeper.get(topics.topic_path(name))
        return data == node

    # -- growing

    async def add_partitions(
        self, name: str, total: int, assignment: Assignment | None = None
    ) -> Topic:
        topic = self._registry.topic(name)
        if topic is None:
            raise NoSuchTopic(name)
        try:
            while not await in_time(self._time, self._grown(name, total, assignment)):
                continue
        except NoNode:
            raise NoSuchTopic(name) from None
        except (ZooKeeperError, BadNode) as error:
            raise CannotChange(str(error)) from error
        logger.info("partitions added", topic=name, partitions=total)
        return topic.with_partitions(max(total, topic.partitions))

    async def _grown(self, name: str, total: int, assignment: Assignment | None) -> bool:
        """Adds the missing partitions to the topic's node. Returns False if the node has changed
        since it was read."""
        path = topics.topic_path(name)
        if await self._zookeeper.exists(admin.delete_path(name)) is not None:
            raise NoSuchTopic(name)
        data, stat = await self._zookeeper.get(path)
        node = topics.decode_topic(name, data)
        if node.adding or node.removing:
            raise BeingReassigned(f"A partition of {name} is being reassigned.")
        more = self._more(node, total, assignment)
        if more:
            grown = replace(node, partitions={**node.partitions, **more})
            version = VERSION if node.topic_id is not None else self._topic_version
            try:
                await self._zookeeper.set(path, topics.encode_topic(grown, version), stat.version)
            except BadVersion:
                return False
        return True

    def _more(
        self, node: TopicNode, total: int, assignment: Assignment | None
    ) -> dict[int, tuple[int, ...]]:
        """Returns the replicas of the partitions that must be added for ``total`` partitions.
        Without ``assignment``, each new partition gets as many replicas as partition 0 has."""
        first = len(node.partitions)
        count = total - first
        if count <= 0:
            return {}
        if assignment is not None:
            if len(assignment) != count:
                raise CannotChange("The topic's partitions were changed concurrently: try again.")
            return {first + index: tuple(each) for index, each in enumerate(assignment)}
        racks = self._racks()
        like = node.partitions.get(0, ())
        check_factor(len(like), len(racks))
        start = start_of(racks, like[0])
        more = assign(racks, count, len(like), start=start, shift=start, first=first)
        return dict(enumerate(more, first))

    # -- deleting

    async def delete(self, name: str) -> Topic:
        topic = self._registry.topic(name)
        if topic is None:
            raise NoSuchTopic(name)
        try:
            await in_time(self._time, self._ask_for_deletion(name))
        except ZooKeeperError as error:
            raise CannotChange(str(error)) from error
        logger.info("topic marked for deletion", topic=name)
        return topic

    async def _ask_for_deletion(self, name: str) -> None:
        if await self._zookeeper.exists(topics.topic_path(name)) is None:
            raise NoSuchTopic(name)
        with suppress(NodeExists):  # the deletion has already begun
            await self._zookeeper.create(admin.delete_path(name), None)

    # -- waiting

    async def led(self, topics: Mapping[str, int], timeout_ms: int) -> Collection[str]:
        wanted = {name: partial(self._is_led, name, count) for name, count in topics.items()}
        return await self._waited(wanted, timeout_ms)

    async def gone(self, names: Collection[str], timeout_ms: int) -> Collection[str]:
        wanted = {name: partial(self._is_gone, name) for name in names}
        return await self._waited(wanted, timeout_ms)

    def _is_led(self, name: str, count: int) -> bool:
        found = (self._cache.partition(name, index) for index in range(count))
        return all(each is not None and each.leader != NO_LEADER for each in found)

    def _is_gone(self, name: str) -> bool:
        return name not in self._cache.topics

    async def _waited(
        self, wanted: Mapping[str, Callable[[], bool]], timeout_ms: int
    ) -> Collection[str]:
        """Waits until all conditions are true, at most ``timeout_ms``. Returns the keys of the
        conditions that are still false. If ``timeout_ms`` is 0 or less, returns all keys without a
        check, as in Kafka."""
        if timeout_ms <= 0:
            return list(wanted)
        return await self._cache.until(wanted, self._time.within(timeout_ms / 1000))

    def _racks(self) -> dict[int, str | None]:
        """Returns the racks of the live brokers. Raises CannotChange until the controller has sent
        metadata."""
        racks = self._cache.racks()
        if not racks:
            raise CannotChange(
                "No broker is known yet: the controller has not sent metadata. Try again."
            )
        return racks


def _check_same_factor(factor: int, assignment: Assignment) -> None:
    """Raises BadAssignment if a partition does not have ``factor`` replicas."""
    for each in assignment:
        if len(each) != factor:
            raise BadAssignment(
                f"All partitions of a topic must have the same number of replicas: {factor}, not"
                f" {len(each)}."
            )
