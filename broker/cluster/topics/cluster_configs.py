"""Settings in ZooKeeper: of topics, of this broker, of every broker, and those of clients.

Each entity has a node. Whoever writes it leaves a notice, a sequential node that names it; every
broker watches the notices, reads the entities again that new ones name, and removes notices that
are old. A node or notice that does not parse, or a setting that does not fit, is told and passed:
it must not keep later ones from being followed. Source: Kafka 3.9 ``ZkConfigManager``,
``ZkNodeChangeNotificationListener``.
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
from broker.cluster.zookeeper.zookeeper import (
    Closed,
    Connection,
    NoNode,
    SessionExpired,
    ZooKeeper,
    ZooKeeperError,
    in_time,
)
from broker.config.config import Config
from broker.loop.internal_errors import InternalErrors
from broker.time import Time
from broker.topics.config_changes import EVERY_BROKER
from broker.topics.logs import LogManager
from broker.topics.registry import BadDirectory, Topic
from broker.topics.topic_changes import CannotChange
from protocol.znodes import configs, notices
from protocol.znodes.fields import BadNode

logger = structlog.get_logger(__name__)

NOTICES_KEPT_MS = 15 * 60_000
"""How long a notice is left to brokers that have not seen it, as in Kafka."""
UNCLEAN = "unclean.leader.election.enable"
EVERY_TOPIC = ""

Result = TypeVar("Result")


class ClusterConfigs:
    """Follows the settings of a cluster and changes them; see `SettingsStore` and the module."""

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
    ) -> None:
        """``applied`` gives those who keep copies of settings the ones that hold now;
        ``unclean_changed`` tells the controller of a topic, or ("") of all."""
        self.changing = asyncio.Lock()
        """See `SettingsStore`."""
        self.nodes = ConfigNodes(zookeeper, config)
        self.clients = ClientConfigs(zookeeper, self.nodes)
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
        """What the controller was told of the broker's own."""
        self._unread: set[str] = set()
        """Topics whose settings are to be read."""
        self._clients_unread = True
        """Whether those of all clients are, as in each new connection."""
        self._handled = -1
        """The highest number of a notice that was followed."""
        self._created_ms: dict[str, int] = {}
        """The notices that are there, and when they were made."""
        self._looking = False
        self._again = False
        self._stopped = False

    def start(self) -> None:
        """Follows notices from now on; those that are there are followed again."""
        self._zookeeper.on_session(self._session_changed)
        self._look()

    def stop(self) -> None:
        """Follows none any more."""
        self._stopped = True

    def learnt(self, shown: Iterable[Topic]) -> None:
        """Topics are new: there is no notice of the settings that they were created with."""
        self._unread.update(topic.name for topic in shown)
        self._look()

    # -- what is read

    def _session_changed(self, connection: Connection) -> None:
        if connection is Connection.CONNECTED:
            self._clients_unread = True
            self._look()

    def _look(self) -> None:
        """Looks what is new, once for all watches that ring meanwhile."""
        self._again = True
        if not self._looking and not self._stopped:
            self._looking = True
            self._spawn(self._follow(), "settings")

    async def _follow(self) -> None:
        try:
            while self._again and not self._stopped:
                self._again = False
                with suppress(SessionExpired, Closed):  # the next session looks again
                    await self._follow_notices()
                    await asyncio.gather(*[self._read_topic(name) for name in [*self._unread]])
                    if self._clients_unread:
                        self._clients_unread = False
                        await self.clients.read_all()
        except Exception as error:  # noqa: BLE001 - `caught` counts and logs it
            self._errors.caught("observer", error)
        finally:
            self._looking = False

    async def _read_topic(self, name: str) -> None:
        own = await self.nodes.topic(name)
        self._unread.discard(name)
        self._take_topic(name, own)

    def _take_topic(self, name: str, own: Mapping[str, str]) -> None:
        """Settings of a topic hold from now on."""
        before = self._registry.configs(name)
        self._registry.configured(name, own)
        entry = self._logs.topics.get(name)
        if entry is not None and entry.topic.configs != own:
            self._configure(entry.topic.with_configs(own))
            self._applied()
        if before != own:
            logger.info("a topic's settings", topic=name, configs=dict(own))
        if before.get(UNCLEAN) != own.get(UNCLEAN):
            self._unclean_changed(name)

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
        except BadDirectory as error:  # the broker's own have changed since they were read
            logger.error("a topic's settings do not fit the broker's", reason=str(error))

    # -- notices

    async def _follow_notices(self) -> None:
        parent = notices.CONFIG_CHANGES
        names = await self._zookeeper.children(parent, self._look)
        for name in sorted(names, key=notices.number_of):
            number = notices.number_of(name)
            if number <= self._handled:
                continue
            try:
                await self._handle(f"{parent}/{name}")
            except (SessionExpired, Closed):
                raise
            except Exception as error:  # noqa: BLE001 - `caught` counts and logs it
                self._errors.caught("observer", error, notice=name)
            self._handled = number
        await self._purge({f"{parent}/{name}" for name in names})

    async def _handle(self, path: str) -> None:
        """Reads the entity again that a notice names; the notice has no values."""
        try:
            data, stat = await self._zookeeper.get(path)
            self._created_ms[path] = stat.ctime_ms
            entity = notices.decode_config_change(path, data)
            kind, _, name = entity.partition("/")
            client = configs.client_entity(entity) if kind in configs.CLIENT_KINDS else None
        except NoNode:
            return  # another broker has removed it
        except BadNode as error:
            logger.error("a notice of settings is passed", reason=str(error))
            return
        if kind == configs.TOPICS:
            await self._read_topic(name)
        elif kind == configs.BROKERS:
            if name in (configs.DEFAULT, str(self._registry.node_id)):
                await self._read_broker()
        elif client is not None:
            await self.clients.read(client)
        else:
            logger.error("a notice of settings is passed", path=path, entity=entity)

    async def _purge(self, there: set[str]) -> None:
        """Removes notices that are old, whoever has seen them."""
        before_ms = self._time.now().wall_ms - NOTICES_KEPT_MS
        for path, created_ms in [*self._created_ms.items()]:
            if path not in there:
                del self._created_ms[path]
            elif created_ms < before_ms:
                del self._created_ms[path]
                with suppress(NoNode):
                    await self._zookeeper.delete(path)

    # -- changes

    async def stored_topic(self, topic: Topic) -> Mapping[str, str]:
        """See `SettingsStore`."""
        return await self._sure(self.nodes.topic(topic.name))

    async def stored_broker(self, name: str) -> Mapping[str, str]:
        """See `SettingsStore`."""
        stored = await self._sure(self.nodes.broker(self._registry.node_id))
        return stored.dynamic_default if name == EVERY_BROKER else stored.dynamic_own

    async def alter(self, topic: Topic) -> None:
        """See `SettingsStore`."""
        name = topic.name
        known = await self.stored_topic(topic)
        await self._sure(self.nodes.write(configs.TOPICS, name, known, topic.configs))
        self._take_topic(name, topic.configs)

    async def alter_broker(self, name: str, settings: Mapping[str, str]) -> None:
        """See `SettingsStore`."""
        known = await self.stored_broker(name)
        node = configs.DEFAULT if name == EVERY_BROKER else name
        await self._sure(self.nodes.write(configs.BROKERS, node, known, settings))
        logger.info("settings changed", broker=name or "every one", configs=dict(settings))

    async def _sure(self, work: Awaitable[Result]) -> Result:
        """What ``work`` returns. Raises CannotChange, also where ZooKeeper does not answer."""
        try:
            return await in_time(self._time, work)
        except ZooKeeperError as error:
            raise CannotChange(str(error)) from error
