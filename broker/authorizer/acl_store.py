"""The interface of the ACL store, and the store of a standalone broker: `acls.json` in its data
directory.

An entry of the file has the fields and spellings of Kafka's ACL nodes in ZooKeeper
(`security/acls/text.py`), and the fields of its resource pattern: ``{"resourceType": "Topic",
"name": "t", "patternType": "LITERAL", "principal": "User:alice", "permissionType": "Allow",
"operation": "Read", "host": "*"}``. Thus entries can be converted from and to ACL nodes. Each
change writes the whole file. Changes that arrive during a write are written together by the next
write.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Protocol

from broker.loop.slices import Slicer
from broker.secured_file import SecuredFile
from broker.topics.registry import BadDirectory
from log.files.filesystem import FileSystem
from security.acls.index import AclIndex
from security.acls.model import AclEntry, Pattern, PatternType, spelled, wrong_with
from security.acls.text import entry_of, json_of, member_of, type_of

FILE = "acls.json"
VERSION = 1

Outside = Callable[..., Awaitable[None]]
"""A function that runs another function, with its arguments, outside the event loop's thread; for
example `DiskChanges.run`."""


class AclStore(Protocol):
    """Stores the ACLs: in a file (standalone broker) or in ZooKeeper nodes (cluster)."""

    @property
    def index(self) -> AclIndex:
        """The index of all ACLs. Only the event loop's thread changes the index."""

    async def change(
        self, added: Sequence[AclEntry], removed: Sequence[AclEntry]
    ) -> Mapping[AclEntry, str]:
        """Adds and removes ACLs. Returns the reason for each change that failed.

        All other changes are in effect on this broker when the method returns.
        """


class AclFile:
    """Reads and writes `acls.json`. Command-line tools use this class too, without a broker."""

    def __init__(self, fs: FileSystem, directory: str) -> None:
        self._file = SecuredFile(fs, os.path.join(directory, FILE), VERSION)

    def read(self) -> list[AclEntry]:
        """Reads the ACLs. Raises BadDirectory."""
        value = self._file.read()
        if value is None:
            return []
        listed = value.get("acls")
        if not isinstance(listed, list):
            raise BadDirectory(f"{self._file.path} is damaged: the list 'acls' is missing")
        return [self._entry(number, each) for number, each in enumerate(listed)]

    def write(self, entries: Iterable[AclEntry]) -> None:
        """Replaces all ACLs in the file. Raises OSError."""
        self._file.write({"acls": map(_json_of, entries)})

    def _entry(self, number: int, value: Any) -> AclEntry:
        try:
            pattern = Pattern(
                type_of(value["resourceType"]),
                value["name"],
                member_of(PatternType, value["patternType"]),
            )
            entry = entry_of(pattern, value)
            wrong = (
                wrong_with(entry) if isinstance(pattern.name, str) else "the name is not a string"
            )
        except (KeyError, TypeError, AttributeError) as error:
            wrong = f"missing or invalid field: {error}"
        except ValueError as error:
            wrong = str(error)
        if wrong:
            raise BadDirectory(f"{self._file.path} is damaged: ACL {number}: {wrong}")
        return entry


def _json_of(entry: AclEntry) -> dict[str, str]:
    kind, name, pattern_type = entry.pattern
    return {
        "resourceType": spelled(kind),
        "name": name,
        "patternType": pattern_type.name,
        **json_of(entry),
    }


class _Batch:
    """ACL changes that one write of the file stores. If several changes concern the same ACL, the
    last one applies."""

    def __init__(self) -> None:
        self.wanted: list[tuple[Sequence[AclEntry], bool]] = []
        """The requested changes. Each pair has a list of ACLs, and True if these ACLs must be added
        or False if they must be removed."""
        self.failed: str | None = "acls.json was not written"
        """The reason why the changes are not in effect. It becomes None when they are in effect."""


class FileAcls:
    """Implements `AclStore` for a standalone broker. Raises BadDirectory."""

    def __init__(
        self, fs: FileSystem, directory: str, run_outside: Outside, slicer: Slicer
    ) -> None:
        self._file = AclFile(fs, directory)
        self._run_outside = run_outside
        self._slicer = slicer
        self.index = AclIndex(self._file.read())
        self._writing = asyncio.Lock()
        self._next = _Batch()

    async def change(
        self, added: Sequence[AclEntry], removed: Sequence[AclEntry]
    ) -> Mapping[AclEntry, str]:
        batch = self._next
        batch.wanted += [(added, True), (removed, False)]
        async with self._writing:
            if batch is self._next:  # otherwise the previous holder of the lock has written it
                self._next = _Batch()
                await self._make(batch)
        return {} if batch.failed is None else dict.fromkeys([*added, *removed], batch.failed)

    async def _make(self, batch: _Batch) -> None:
        index, slices = self.index, self._slicer.work("access control entries")
        changed: dict[AclEntry, bool] = {}
        for entries, is_wanted in batch.wanted:
            for entry in entries:
                if (entry in index) != is_wanted:
                    changed[entry] = is_wanted
                else:
                    changed.pop(entry, None)
                if slices.over:
                    await slices.pause()
        slices.end()
        if not changed:
            batch.failed = None
            return
        try:
            await self._run_outside(_written, self._file, index, changed)
        except OSError as error:
            batch.failed = f"acls.json can't be written: {error.strerror}"
            return
        slices = self._slicer.work("access control entries")
        for entry, is_wanted in changed.items():
            if is_wanted:
                index.add(entry)
            else:
                index.remove(entry)
            if slices.over:
                await slices.pause()
        slices.end()
        batch.failed = None


def _written(file: AclFile, there: AclIndex, changed: Mapping[AclEntry, bool]) -> None:
    """Writes the ACLs ``there`` to the file, with the changes in ``changed``: True adds an ACL,
    False removes it. Only one caller may write at a time."""
    kept = (entry for entry in there if entry not in changed)
    file.write(chain(kept, (entry for entry, is_wanted in changed.items() if is_wanted)))
