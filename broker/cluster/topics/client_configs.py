"""Quotas and credentials in ZooKeeper, of clients, users and addresses.

They are read and kept, and nobody follows them: the broker has no quotas of clients and no SCRAM.
So what is set is told, by its names alone: a value may be a credential.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import islice
from typing import NamedTuple

import structlog

from broker.cluster.topics.config_nodes import ConfigNodes
from broker.cluster.zookeeper.client_nodes import client_nodes
from broker.cluster.zookeeper.zookeeper import ZooKeeper
from protocol.znodes.configs import ClientEntity, client_entity
from protocol.znodes.fields import BadNode

logger = structlog.get_logger(__name__)

KEPT_CHARACTERS = 8 << 20
"""So much is kept of all entities together; each counts for a little, however short it is."""
_ENTITY_CHARACTERS = 200
TOLD_AT_ONCE = 20
"""So many entities have a line of the log when all are read; the others are counted."""


class NotFollowed(NamedTuple):
    """What is set for an entity."""

    entity: str
    """In words."""
    settings: list[str]
    """Their names, sorted."""


class ClientConfigs:
    """What is set for each entity; one without settings is not kept."""

    def __init__(self, zookeeper: ZooKeeper, nodes: ConfigNodes) -> None:
        self.settings: dict[ClientEntity, Mapping[str, str]] = {}
        self._zookeeper = zookeeper
        self._nodes = nodes
        self._characters = 0
        self._full = False
        """Whether it was told that there is more than is kept."""

    async def read_all(self) -> None:
        """Reads every entity there is; the others have no settings any more."""
        gone = {*self.settings}
        changed = 0
        self._full = False
        async for paths in client_nodes(self._zookeeper):
            entities = [entity for path in paths if (entity := _entity(path)) is not None]
            read = await asyncio.gather(*[self._nodes.client(each) for each in entities])
            for entity, settings in zip(entities, read, strict=True):
                gone.discard(entity)
                changed += self._take(entity, settings, tell=changed < TOLD_AT_ONCE)
        for entity in gone:
            changed += self._take(entity, {}, tell=changed < TOLD_AT_ONCE)
        if changed > TOLD_AT_ONCE:
            logger.warning(
                "quotas or credentials of more entities have changed, which Muster does not follow",
                more=changed - TOLD_AT_ONCE,
            )

    async def read(self, entity: ClientEntity) -> None:
        """Reads an entity that a notice names."""
        self._take(entity, await self._nodes.client(entity), tell=True)

    def not_followed(self, at_most: int) -> list[NotFollowed]:
        """What is set, entity by entity."""
        some = islice(self.settings.items(), at_most)
        return [NotFollowed(entity.words, sorted(settings)) for entity, settings in some]

    def _take(self, entity: ClientEntity, settings: Mapping[str, str], *, tell: bool) -> bool:
        """Keeps what an entity has from now on. Whether that is something else."""
        before = self.settings.get(entity, {})
        if before == settings:
            return False
        kept = self._characters - _size(entity, before) + _size(entity, settings)
        if settings and kept > KEPT_CHARACTERS:
            if not self._full:
                logger.error("settings of clients and users are too many; others are left out")
            self._full = True
            settings, kept = {}, self._characters - _size(entity, before)
        self._characters = kept
        self.settings.pop(entity, None)
        if settings:
            self.settings[entity] = settings
        if tell and settings:
            logger.warning(
                "quotas or credentials are set, and Muster does not follow them",
                entity=entity.words,
                settings=sorted(settings),
            )
        elif tell and before:
            logger.info("quotas and credentials are set no more", entity=entity.words)
        return bool(settings or before)


def _entity(path: str) -> ClientEntity | None:
    try:
        return client_entity(path)
    except BadNode as error:
        logger.error("settings can't be read; the entity has none", reason=str(error))
        return None


def _size(entity: ClientEntity, settings: Mapping[str, str]) -> int:
    """How much is kept of an entity; of one without settings, nothing."""
    if not settings:
        return 0
    own = _ENTITY_CHARACTERS + len(entity.path)
    return own + sum(len(name) + len(text) for name, text in settings.items())
