"""Changes of client quotas, which are first stored and then applied.

A `QuotaStore` stores the quotas: in a file for a standalone broker, in ZooKeeper nodes for a
cluster. The store receives only the edited quotas of an entity, because this broker may not know
the entity's other quotas: another broker may just have changed them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

import structlog

from broker.quotas.client_quotas import ClientQuotas, Values
from broker.secured_file import SecuredFile
from broker.topics.registry import BadDirectory
from log.files.filesystem import FileSystem
from security.quotas.entities import Entity, named_parts, parse_entity, wrong_quota

if TYPE_CHECKING:
    from broker.authorizer.acl_store import Outside

logger = structlog.get_logger(__name__)

FILE: Final = "quotas.json"
VERSION: Final = 1
_ENTITIES: Final = "quotas"

Entities = Mapping[Entity, Values]
"""The quotas of entities. An empty mapping means that the entity has no quota."""
Edit = Mapping[str, float | None]
"""New values of an entity's quotas, by key; None removes a quota."""
Changed = Callable[[Entities], object]
"""A callback that receives the new quotas of the entities that have changed."""


class QuotaStore(Protocol):
    """Stores client quotas."""

    def read(self) -> Entities:
        """Returns the stored quotas. Raises BadDirectory."""

    def follow(self, changed: Changed) -> None:
        """Registers the callback ``changed``, which is called whenever stored quotas change."""

    async def alter(self, edits: Mapping[Entity, Edit]) -> Mapping[Entity, str]:
        """Applies edits to the stored quotas, and calls all callbacks before it returns.

        Returns the reason for each entity whose quotas could not be stored. The quotas of all other
        entities are stored.
        """


class QuotaFile:
    """Implements `QuotaStore` with a file in the data directory."""

    def __init__(self, fs: FileSystem, directory: str, run_outside: Outside) -> None:
        """``run_outside`` runs a function in another thread."""
        self._file = SecuredFile(fs, os.path.join(directory, FILE), VERSION)
        self._run_outside = run_outside
        self._values: dict[Entity, Values] = {}
        self._following: list[Changed] = []

    def read(self) -> Entities:
        found = self._file.read() or {}
        try:
            self._values = dict(_kept(each) for each in found.get(_ENTITIES, ()))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise BadDirectory(f"{self._file.path} is damaged: an entry is not a quota") from None
        return self._values

    def follow(self, changed: Changed) -> None:
        self._following.append(changed)

    async def alter(self, edits: Mapping[Entity, Edit]) -> Mapping[Entity, str]:
        """Implements `QuotaStore.alter`. Either all edits are stored, or none."""
        changed: dict[Entity, Values] = {}
        after = dict(self._values)
        for entity, edit in edits.items():
            before = after.get(entity, {})
            own = {key: value for key, value in {**before, **edit}.items() if value is not None}
            if own == before:
                continue
            changed[entity] = own
            if own:
                after[entity] = own
            else:
                del after[entity]
        if not changed:
            return {}
        try:
            await self._run_outside(self._put, after)
        except OSError as error:
            logger.error("quotas can't be written", file=self._file.path, error=str(error))
            return dict.fromkeys(changed, f"The disk reports: {error.strerror}.")
        self._values = after
        for notify in self._following:
            notify(changed)
        return {}

    def _put(self, values: Entities) -> None:
        """Writes the file; waits for the disk. Raises OSError."""
        kept = [
            {"entity": dict(named_parts(entity)), "values": dict(own)}
            for entity, own in values.items()
        ]
        self._file.write({_ENTITIES: kept})


def _kept(each: Mapping[str, Any]) -> tuple[Entity, Values]:
    """Returns the entity and the quotas of one entry of the quota file. Raises ValueError for an
    invalid quota."""
    entity = parse_entity(each["entity"].items())
    values = {key: float(value) for key, value in each["values"].items()}
    for key, value in values.items():
        if wrong := wrong_quota(entity, key, value):
            raise ValueError(wrong)
    return entity, values


class QuotaChanges:
    """Applies changes of quotas one after the other. Only the event loop's thread may use this
    class."""

    def __init__(self, quotas: ClientQuotas) -> None:
        self.quotas = quotas
        self._store: QuotaStore
        """The store of the quotas, set by `keep_in` before the first change."""
        self._turn = asyncio.Lock()

    def keep_in(self, store: QuotaStore) -> None:
        """Uses ``store`` for changes. Applies its quotas now, and again whenever they change.

        Raises the exceptions of `QuotaStore.read`.
        """
        self.quotas.change(store.read())
        store.follow(self.quotas.change)
        self._store = store

    @property
    def values(self) -> Mapping[Entity, Values]:
        return self.quotas.values

    async def alter(self, edits: Mapping[Entity, Edit]) -> Mapping[Entity, str]:
        """Changes the quotas of entities in the store.

        Returns the entities whose quotas could not be stored, and therefore did not change, each
        with the reason.
        """
        async with self._turn:
            return await self._store.alter(edits)
