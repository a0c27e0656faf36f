"""Quotas and credentials of client ids, users and IP addresses, in ZooKeeper.

This module reads and caches these settings, and passes them to the callbacks of `follow`. If this
broker does not support a setting, only the name of the setting is logged, since the value may be a
credential. The quotas and the credentials of a user share a node, so each change is conditional on
the version of the node that was read. Source: Kafka 3.9 ``ZkAdminManager``, ``AdminZkClient``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from itertools import islice
from typing import Final, NamedTuple

import structlog

from broker.cluster.topics.config_nodes import ConfigNodes
from broker.cluster.zookeeper.client_nodes import client_nodes
from broker.cluster.zookeeper.zookeeper import (
    BadVersion,
    NodeExists,
    NoNode,
    NotEmpty,
    ZooKeeper,
    ZooKeeperError,
    ensure_path,
)
from broker.time import Time
from protocol.znodes import notices
from protocol.znodes.configs import (
    CONFIG,
    ClientEntity,
    client_entity,
    decode_config,
    encode_config,
)
from protocol.znodes.fields import BadNode

logger = structlog.get_logger(__name__)

KEPT_CHARACTERS = 32 << 20
"""The maximum size of the cache of all entities, in characters. Each entity counts as at least
`_ENTITY_CHARACTERS` characters."""
_ENTITY_CHARACTERS = 200
LINES_AT_ONCE = 20
"""The maximum number of log lines about entities with unsupported settings that one read of all
entities writes. Further entities are only counted."""
ATTEMPTS: Final = 10
"""The maximum number of attempts to change a node that other brokers change at the same time."""
AGAIN_S: Final = (0.02, 0.1)
"""The bounds in seconds of the random pause between two attempts, so that two brokers do not
collide again."""

Changed = Callable[[ClientEntity, Mapping[str, str]], None]
"""A callback that gets an entity and all its settings after a change."""


class NotFollowed(NamedTuple):
    """An entity with settings that this broker does not support."""

    entity: str
    """The name of the client id, user or IP address, in the form of log lines."""
    settings: list[str]
    """The names of the unsupported settings, sorted."""


class ClientConfigs:
    """The settings of each client id, user and IP address that has quotas or credentials."""

    def __init__(self, zookeeper: ZooKeeper, nodes: ConfigNodes, time: Time) -> None:
        self.settings: dict[ClientEntity, Mapping[str, str]] = {}
        self._zookeeper = zookeeper
        self._nodes = nodes
        self._time = time
        self._followed: set[str] = set()
        self._on_change: list[Changed] = []
        self._characters = 0
        self._full = False
        """True if the broker has logged the error that ZooKeeper contains too many settings of
        clients and users."""

    def expect(self, names: Collection[str]) -> None:
        """Adds ``names`` to the names of the settings that this broker applies."""
        self._followed.update(names)

    def follow(self, changed: Changed) -> None:
        """Adds a callback that gets each change."""
        self._on_change.append(changed)

    async def alter(self, entity: ClientEntity, edit: Mapping[str, str | None]) -> None:
        """Changes an entity's settings in ZooKeeper, and notifies all brokers. None removes a
        setting.

        Raises ZooKeeperError. Raises BadNode if the node can't be parsed.
        """
        path = f"{CONFIG}/{entity.path}"
        for attempt in range(ATTEMPTS):
            try:
                data, stat = await self._zookeeper.get(path)
                version: int | None = stat.version
            except NoNode:
                data, version = b"", None
            before = decode_config(path, data)
            after = {**before, **{name: text for name, text in edit.items() if text is not None}}
            for name in (name for name, text in edit.items() if text is None):
                after.pop(name, None)
            try:
                if after != before:
                    await self._write(path, after, version)
                if after != before or attempt:  # an earlier attempt may have been applied
                    notice = notices.encode_config_change(entity.path)
                    await self._zookeeper.create(notices.CONFIG_CHANGE, notice, sequence=True)
            except (BadVersion, NodeExists, NoNode):
                await self._time.sleep(self._time.chance.uniform(*AGAIN_S))
                continue
            self._take(entity, after, tell=False)
            return
        raise ZooKeeperError(f"{path} was changed concurrently too often: try again")

    async def _write(self, path: str, settings: Mapping[str, str], version: int | None) -> None:
        zookeeper = self._zookeeper
        parent = path.rpartition("/")[0]
        if version is None:
            await ensure_path(zookeeper, parent)
            await zookeeper.create(path, encode_config(settings))
        elif settings:
            await zookeeper.set(path, encode_config(settings), version)
        else:
            try:
                await zookeeper.delete(path, version)
            except NotEmpty:  # client ids of the user have settings
                await zookeeper.set(path, encode_config(settings), version)
                return
            with suppress(NotEmpty, NoNode, BadVersion):
                await self._tidy(parent)

    async def _tidy(self, clients: str) -> None:
        """Deletes the parent node of a user's client ids if it has no child left. Then also deletes
        the user's node if the user has no settings."""
        if clients.count("/") > 2:
            await self._zookeeper.delete(clients)
            user = clients.rpartition("/")[0]
            data, stat = await self._zookeeper.get(user)
            if not decode_config(user, data):
                await self._zookeeper.delete(user, stat.version)

    async def read_all(self) -> None:
        """Reads the settings of every entity from ZooKeeper, and removes entities that no longer
        exist."""
        gone = {*self.settings}
        changed = 0
        self._full = False
        async for paths in client_nodes(self._zookeeper):
            entities = [entity for path in paths if (entity := _entity(path)) is not None]
            read = await asyncio.gather(*[self._nodes.client(each) for each in entities])
            for entity, settings in zip(entities, read, strict=True):
                gone.discard(entity)
                changed += self._take(entity, settings, tell=changed < LINES_AT_ONCE)
        for entity in gone:
            changed += self._take(entity, {}, tell=changed < LINES_AT_ONCE)
        if changed > LINES_AT_ONCE:
            logger.warning(
                "further changes of unsupported quotas or credentials are not logged",
                more=changed - LINES_AT_ONCE,
            )

    async def read(self, entity: ClientEntity) -> None:
        """Reads the settings of an entity that a notification names."""
        self._take(entity, await self._nodes.client(entity), tell=True)

    def not_followed(self, at_most: int) -> list[NotFollowed]:
        """Returns at most ``at_most`` entities with settings that this broker does not support."""
        found = (
            NotFollowed(entity.words, names)
            for entity, settings in self.settings.items()
            if (names := self._not_followed(settings))
        )
        return list(islice(found, at_most))

    def count_not_followed(self) -> int:
        """Returns the number of entities with settings that this broker does not support."""
        return sum(bool(self._not_followed(each)) for each in self.settings.values())

    def _not_followed(self, settings: Mapping[str, str]) -> list[str]:
        return sorted(settings.keys() - self._followed)

    def _take(self, entity: ClientEntity, settings: Mapping[str, str], *, tell: bool) -> bool:
        """Stores the settings of an entity, and calls the callbacks. With ``tell``, logs settings
        that this broker does not support.

        Returns True if this call has changed the settings, and this broker does not support one of
        the old or new settings.
        """
        before = self.settings.get(entity, {})
        if before == settings:
            return False
        kept = self._characters - _size(entity, before) + _size(entity, settings)
        if settings and kept > KEPT_CHARACTERS:
            if not self._full:
                logger.error(
                    "too many settings of clients and users in ZooKeeper: the rest are ignored"
                )
            self._full = True
            settings, kept = {}, self._characters - _size(entity, before)
        self._characters = kept
        self.settings.pop(entity, None)
        if settings:
            self.settings[entity] = settings
        for changed in self._on_change:
            changed(entity, settings)
        names = self._not_followed(settings)
        if tell and names:
            logger.warning(
                "unsupported quotas or credentials ignored",
                entity=entity.words,
                settings=names,
            )
        elif tell and self._not_followed(before):
            logger.info("unsupported quotas or credentials removed", entity=entity.words)
        return bool(names or self._not_followed(before))


def _entity(path: str) -> ClientEntity | None:
    try:
        return client_entity(path)
    except BadNode as error:
        logger.error("ignoring a ZooKeeper config node that can't be parsed", reason=str(error))
        return None


def _size(entity: ClientEntity, settings: Mapping[str, str]) -> int:
    """Returns the number of characters by which an entity counts towards `KEPT_CHARACTERS`; 0 if
    the entity has no settings."""
    if not settings:
        return 0
    own = _ENTITY_CHARACTERS + len(entity.path)
    return own + sum(len(name) + len(text) for name, text in settings.items())
