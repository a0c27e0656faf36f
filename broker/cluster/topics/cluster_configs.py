"""Settings in ZooKeeper: of topics, groups, this broker, all brokers, and clients.

Each of these entities has a node. A writer of the node also creates a notification, a sequential
node that names the entity. Every broker watches the notifications, and reads the named entities
again. A node that can't be parsed, or a setting with an invalid value, is logged and ignored.
Source: Kafka 3.9 ``ZkConfigManager``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import structlog

from broker.cluster.topics.client_configs import ClientConfigs
from broker.cluster.topics.cluster_registry import ClusterRegistry
from broker.cluster.topics.config_nodes import ConfigNodes
from broker.cluster.zookeeper.followed_notices import FollowedNotices
from broker.cluster.zookeeper.zookeeper import (
    Closed,
    Connection,
    SessionExpired,
    ZooKeeper,
    ZooKeeperError,
    in_time,
)
from broker.config.config import Config
from broker.config.config_table import GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION
from broker.config.protection import without_secrets
from broker.loop.internal_errors import InternalErrors
from broker.time import Time
from broker.topics.config_changes import EVERY_BROKER
from broker.topics.logs import LogManager
from broker.topics.registry import BadDirectory, Topic
from broker.topics.topic_changes import CannotChange
from protocol.znodes import configs, notices
from protocol.znodes.fields import BadNode

logger = structlog.get_logger(__name__)

_FEATURES_OF_GROUPS = {GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION}
"""The features of the group types that can have settings."""
UNCLEAN = "unclean.leader.election.enable"
EVERY_TOPIC = ""

Result = TypeVar("Result")


class ClusterConfigs:
    """Watches the settings of a cluster and changes them. Implements `SettingsStore`."""

    def __init__(
        self,
        config: Config,
        registry: ClusterRegistry,
        logs: LogManager,
        zookeeper: ZooKeeper,
        time: Time,
        spawn: Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]],
        errors: InternalErrors,
        *,
        applied: Callable[[], None],
        unclean_changed: Callable[[str], None],
        clients: ClientConfigs | None = None,
    ) -> None:
        """``applied`` is called after each change, so that other parts copy the new settings.

        ``unclean_changed`` informs the controller that unclean elections were enabled or disabled.
        Its argument is a topic, or "" for this broker's default.
        """
        self.changing = asyncio.Lock()
        self.nodes = ConfigNodes(zookeeper, config)
        self.clients = clients or ClientConfigs(zookeeper, self.nodes, time)
        self._config = config
        self._registry = registry
        self._logs = logs
        self._zookeeper = zookeeper
        self._time = time
        self._spawn = spawn
        self._errors = errors
        self._applied = applied
        self._unclean_changed = unclean_changed
        self._unclean = config[UNCLEAN]
        """This broker's default for unclean elections, as this broker last reported it to the
        controller."""
        self._unread: set[str] = set()
        """The topics whose settings have to be read from ZooKeeper."""
        self._others_unread = True
        """True if the settings of all clients and groups must be read from ZooKeeper. This is so at
        the start, and after each new ZooKeeper connection."""
        self._notices = FollowedNotices(
            notices.CONFIG_CHANGES, zookeeper, time, errors, self._handle
        )
        self._looking = False
        self._again = False
        self._stopped = False

    def start(self) -> None:
        self._zookeeper.on_session(self._session_changed)
        self._look()

    def stop(self) -> None:
        self._stopped = True

    def learnt(self, shown: Iterable[Topic]) -> None:
        """Reads the settings of new topics. The creation of a topic writes no change notification
        to ZooKeeper, so the watch on notifications does not report these settings."""
        self._unread.update(topic.name for topic in shown)
        self._look()

    # -- reading

    def _session_changed(self, connection: Connection) -> None:
        if connection is Connection.CONNECTED:
            self._others_unread = True
            self._look()

    def _look(self) -> None:
        """Starts to read the changed configs in ZooKeeper. If a read is in progress, one more read
        follows it."""
        self._again = True
        if not self._looking and not self._stopped:
            self._looking = True
            self._spawn(self._follow(), "settings")

    async def _follow(self) -> None:
        try:
            while self._again and not self._stopped:
                self._again = False
                with suppress(SessionExpired, Closed):  # repeated in the next session
                    await self._notices.follow(self._look)
                    await asyncio.gather(*[self._read_topic(name) for name in [*self._unread]])
                    if self._others_unread:
                        self._others_unread = False
                        await self.clients.read_all()
                        await self._read_groups()
        except Exception as error:  # noqa: BLE001 - `caught` counts and logs it
            self._errors.caught("observer", error)
        finally:
            self._looking = False

    async def _read_topic(self, name: str) -> None:
        own = await self.nodes.topic(name)
        self._unread.discard(name)
        self._take_topic(name, own)

    def _take_topic(self, name: str, own: Mapping[str, str]) -> None:
        """Applies the settings that a topic has in ZooKeeper."""
        before = self._registry.configs(name)
        self._registry.configured(name, own)
        entry = self._logs.topics.get(name)
        if entry is not None and entry.topic.configs != own:
            self._configure(entry.topic.with_configs(own))
            self._applied()
        if before != own:
            logger.info("topic settings read", topic=name, configs=dict(own))
        if before.get(UNCLEAN) != own.get(UNCLEAN):
            self._unclean_changed(name)

    async def _read_groups(self) -> None:
        self._registry.group_configs = await self.nodes.groups()
        self._applied()

    def _take_group(self, group_id: str, own: Mapping[str, str]) -> None:
        """Applies the settings that a group has in ZooKeeper."""
        known = dict(self._registry.group_configs)
        before = known.pop(group_id, {})
        if own:
            known[group_id] = dict(own)
        self._registry.group_configs = known
        if before != own:
            self._applied()
            logger.info("settings changed", group=group_id, configs=dict(own))

    async def _read_broker(self) -> None:
        self._config.adopt(await self.nodes.broker(self._registry.node_id))
        for entry in [*self._logs.topics.values()]:
            self._configure(entry.topic)
        self._applied()
        if self._config[UNCLEAN] != self._unclean:
            self._unclean = self._config[UNCLEAN]
            self._unclean_changed(EVERY_TOPIC)

    def _configure(self, topic: Topic) -> None:
        try:
            self._logs.configure(topic)
        except BadDirectory as error:  # the broker's settings have changed in between
            logger.error("topic settings conflict with the broker's settings", reason=str(error))

    async def _handle(self, path: str, data: bytes) -> None:
        """Reads the settings of the entity that a notification names. The notification itself has
        no settings."""
        entity = notices.decode_config_change(path, data)
        kind, _, name = entity.partition("/")
        if kind in configs.CLIENT_KINDS:
            await self.clients.read(configs.client_entity(entity))
        elif kind == configs.TOPICS:
            await self._read_topic(name)
        elif kind == configs.GROUPS:
            group_id = configs.name_of(kind, name)
            self._take_group(group_id, await self.nodes.group(group_id))
        elif kind != configs.BROKERS:
            raise BadNode(path, f"names an entity that can't have settings: {entity[:100]!r}")
        elif name in (configs.DEFAULT, str(self._registry.node_id)):
            await self._read_broker()

    # -- changes

    async def stored_topic(self, topic: Topic) -> Mapping[str, str]:
        return await self._sure(self.nodes.topic(topic.name))

    async def stored_broker(self, name: str) -> Mapping[str, str]:
        stored = await self._sure(self.nodes.broker(self._registry.node_id))
        return stored.dynamic_default if name == EVERY_BROKER else stored.dynamic_own

    async def alter(self, topic: Topic) -> None:
        name = topic.name
        known = await self.stored_topic(topic)
        await self._sure(self.nodes.write(configs.TOPICS, name, known, topic.configs))
        self._take_topic(name, topic.configs)

    async def stored_group(self, group_id: str) -> Mapping[str, str]:
        """Implements `SettingsStore.stored_group`."""
        if not self._registry.features.levels.keys() & _FEATURES_OF_GROUPS:
            raise CannotChange(
                f"the group {group_id} can't have settings while the features {GROUP_VERSION},"
                f" {SHARE_VERSION} and {STREAMS_VERSION} of this cluster are at level 0"
            )
        return await self._sure(self.nodes.group(group_id))

    async def alter_group(self, group_id: str, settings: Mapping[str, str]) -> None:
        known = await self.stored_group(group_id)
        await self._sure(self.nodes.write(configs.GROUPS, group_id, known, settings))
        self._take_group(group_id, settings)

    async def alter_broker(self, name: str, settings: Mapping[str, str]) -> None:
        known = await self.stored_broker(name)
        node = configs.DEFAULT if name == EVERY_BROKER else name
        await self._sure(self.nodes.write(configs.BROKERS, node, known, settings))
        shown = without_secrets(settings)
        logger.info("settings changed", broker=name or "all", configs=shown)

    async def _sure(self, work: Awaitable[Result]) -> Result:
        """Returns the result of ``work``. Raises CannotChange if ZooKeeper rejects ``work`` or does
        not respond in time."""
        try:
            return await in_time(self._time, work)
        except ZooKeeperError as error:
            raise CannotChange(str(error)) from error
