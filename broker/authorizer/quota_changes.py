"""Changes of client quotas: stored first, then applied.

A `QuotaStore` keeps them: a file for a standalone broker, znodes in a cluster. It gets the edits
rather than the result: another broker may have changed the entity's other quotas, and this one may
not have seen that yet.
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
"""Quotas by entity; an entity without values has none."""
Edit = Mapping[str, float | None]
"""Quotas by their keys; None for one that is taken away."""
Changed = Callable[[Entities], object]
"""Called with what becomes of the quotas of some."""


class QuotaStore(Protocol):
    """See the module."""

    def read(self) -> Entities:
        """The stored quotas. Raises BadDirectory."""

    def follow(self, changed: Changed) -> None:
        """Has ``changed`` called when something else is kept than before."""

    async def alter(self, edits: Mapping[Entity, Edit]) -> Mapping[Entity, str]:
        """Applies these edits to the stored quotas; when it returns, listeners were notified.

        Returns the reason for each entity that could not be stored; the others are stored.
        """


class QuotaFile:
    """The quotas in a file next to the list of topics."""

    def __init__(self, fs: FileSystem, directory: str, run_outside: Outside) -> None:
        """``run_outside`` runs a function in another thread."""
        self._file = SecuredFile(fs, os.path.join(directory, FILE), VERSION)
        self._run_outside = run_outside
        self._values: dict[Entity, Values] = {}
        """All that is kept."""
        self._following: list[Changed] = []

    def read(self) -> Entities:
        """See `QuotaStore`."""
        found = self._file.read() or {}
        try:
            self._values = dict(_kept(each) for each in found.get(_ENTITIES, ()))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise BadDirectory(f"{self._file.path} is damaged: an entry is not a quota") from None
        return self._values

    def follow(self, changed: Changed) -> None:
        """See `QuotaStore`."""
        self._following.append(changed)

    async def alter(self, edits: Mapping[Entity, Edit]) -> Mapping[Entity, str]:
        """See `QuotaStore`: all are kept, or none is."""
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
        for told in self._following:
            told(changed)
        return {}

    def _put(self, values: Entities) -> None:
        """Writes the file; in a thread. Raises OSError."""
        kept = [
            {"entity": dict(named_parts(entity)), "values": dict(own)}
            for entity, own in values.items()
        ]
        self._file.write({_ENTITIES: kept})


def _kept(each: Mapping[str, Any]) -> tuple[Entity, Values]:
    """One entry of the file; ValueError for an invalid quota."""
    entity = parse_entity(each["entity"].items())
    values = {key: float(value) for key, value in each["values"].items()}
    for key, value in values.items():
        if wrong := wrong_quota(entity, key, value):
            raise ValueError(wrong)
    return entity, values


class QuotaChanges:
    """One change after the other; use from the event loop's thread alone."""

    def __init__(self, quotas: ClientQuotas) -> None:
        self.quotas = quotas
        self._store: QuotaStore
        """Since `keep_in`, before which nothing is changed."""
        self._turn = asyncio.Lock()

    def keep_in(self, store: QuotaStore) -> None:
        """Follows the quotas that a store has, and keeps changes there. Raises as its `read`."""
        self.quotas.change(store.read())
        store.follow(self.quotas.change)
        self._store = store

    @property
    def values(self) -> Mapping[Entity, Values]:
        """The configured quotas."""
        return self.quotas.values

    async def alter(self, edits: Mapping[Entity, Edit]) -> Mapping[Entity, str]:
        """Alters the quotas of entities, which are kept together.

        Returns why, by entity, for those that could not be kept: they are as they were.
        """
        async with self._turn:
            return await self._store.alter(edits)
