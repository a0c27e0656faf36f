"""Reads and writes the ZooKeeper nodes that have settings."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import structlog

from broker.cluster.zookeeper.zookeeper import (
    NodeExists,
    NoNode,
    ZooKeeper,
    children_of,
    ensure_path,
    slices,
)
from broker.config.config import Config
from broker.topics.config_changes import fitting_group, fitting_topic, with_fitting
from protocol.znodes import configs, notices
from protocol.znodes.fields import BadNode

logger = structlog.get_logger(__name__)


class ConfigNodes:
    """Reads and writes the ZooKeeper nodes that have settings. The methods raise ZooKeeperError."""

    def __init__(self, zookeeper: ZooKeeper, config: Config) -> None:
        self._zookeeper = zookeeper
        self._config = config

    async def topic(self, name: str) -> dict[str, str]:
        """Returns a topic's own settings, without settings that are invalid."""
        return fitting_topic(self._config, name, await self._stored(configs.TOPICS, name))

    async def broker(self, node_id: int) -> Config:
        """Returns a copy of the broker's configuration with the settings in ZooKeeper for all
        brokers and for this broker. Invalid settings are omitted."""
        every = await self._stored(configs.BROKERS, configs.DEFAULT)
        own = await self._stored(configs.BROKERS, str(node_id))
        return with_fitting(self._config, every, own)

    async def group(self, group_id: str) -> dict[str, str]:
        """Returns a group's own settings, without settings that are invalid."""
        return fitting_group(self._config, group_id, await self._stored(configs.GROUPS, group_id))

    async def groups(self) -> dict[str, dict[str, str]]:
        """Returns the settings of all groups that have settings of their own, by group id."""
        nodes = await children_of(self._zookeeper, f"{configs.CONFIG}/{configs.GROUPS}")
        names = [configs.name_of(configs.GROUPS, node) for node in nodes]
        found: dict[str, dict[str, str]] = {}
        for some in slices(names):
            own = await asyncio.gather(*[self.group(name) for name in some])
            found.update(zip(some, own, strict=True))
        return {name: own for name, own in found.items() if own}

    async def write(
        self, kind: str, name: str, known: Mapping[str, str], wanted: Mapping[str, str]
    ) -> None:
        """Replaces the ``known`` settings of an entity by the ``wanted`` settings, and writes a
        notification.

        Other settings in the node stay, since they may be valid on other brokers.
        """
        zookeeper = self._zookeeper
        path, there = configs.path(kind, name), await self._stored(kind, name)
        strange = {key: text for key, text in there.items() if known.get(key) != text}
        data = configs.encode_config({**strange, **wanted})
        try:
            await zookeeper.set(path, data)
        except NoNode:
            if kind == configs.GROUPS:  # Kafka does not create the parent
                await ensure_path(zookeeper, f"{configs.CONFIG}/{kind}")
            try:
                await zookeeper.create(path, data)
            except NodeExists:
                await zookeeper.set(path, data)
        notice = notices.encode_config_change(configs.entity(kind, name))
        await zookeeper.create(notices.CONFIG_CHANGE, notice, sequence=True)

    async def client(self, entity: configs.ClientEntity) -> dict[str, str]:
        """Returns the quotas and credentials of a client id, a user or an IP address."""
        return await self._read(f"{configs.CONFIG}/{entity.path}")

    async def _stored(self, kind: str, name: str) -> dict[str, str]:
        return await self._read(configs.path(kind, name))

    async def _read(self, path: str) -> dict[str, str]:
        """Returns the settings in a node; an empty dict if the node does not exist or can't be
        parsed."""
        try:
            data, _ = await self._zookeeper.get(path)
            return configs.decode_config(path, data)
        except NoNode:
            return {}
        except BadNode as error:
            logger.error("ignoring a ZooKeeper config node that can't be parsed", reason=str(error))
            return {}
