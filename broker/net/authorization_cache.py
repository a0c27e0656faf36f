"""Remembers which operations the authorizer has allowed on a connection, so that the authorizer is
asked only once for each name.

If all names of a request are cached, its authorization costs one set operation and no call of the
authorizer. The sets of all connections together use at most `BYTES_MAX`. The oldest sets are
emptied first.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from security.principal import Principal

NAME_KEPT_MAX = 256
"""The maximum length in characters of a cached name.

A group id may have 32,767 characters. Longer names are checked at each request.
"""
BYTES_MAX: Final = 32 << 20
"""The maximum size in bytes of all sets together.

This is enough for 250,000 names of 30 characters, or for 90,000 names of 245 characters.
"""
_ENTRY_BYTES: Final = 110
"""The number of bytes that a set uses for a name, in addition to its characters."""


class Names(set[str]):
    """The names of resources of one type on which one connection may do one operation."""

    __slots__ = ("_memory", "kept_bytes")

    def __init__(self, memory: AuthorizationCacheMemory) -> None:
        super().__init__()
        self._memory = memory
        self.kept_bytes = 0

    def keep(self, name: str) -> None:
        """Adds an allowed name. Ignores a name that is longer than `NAME_KEPT_MAX`."""
        if len(name) <= NAME_KEPT_MAX and name not in self:
            self.add(name)
            self._memory.added(self, _ENTRY_BYTES + len(name))

    def forget(self) -> None:
        self._memory.forget(self)


class AuthorizationCacheMemory:
    """Limits the sets of allowed names of all connections to ``bytes_max`` bytes in total."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self.kept_bytes = 0
        self._bytes_max = bytes_max
        self._all: OrderedDict[int, Names] = OrderedDict()
        """All sets of allowed names that are not empty, oldest first. The key is the ``id()`` of
        the set, since sets are not hashable."""

    def added(self, names: Names, size_bytes: int) -> None:
        """Counts the bytes of a name that was added to ``names``. If all sets of names together
        exceed the limit, empties the oldest sets."""
        if not names.kept_bytes:
            self._all[id(names)] = names
        names.kept_bytes += size_bytes
        self.kept_bytes += size_bytes
        while self.kept_bytes > self._bytes_max:
            self.forget(next(iter(self._all.values())))

    def forget(self, names: Names) -> None:
        """Empties a set of names, and subtracts its bytes from the total."""
        if names.kept_bytes:
            del self._all[id(names)]
            self.kept_bytes -= names.kept_bytes
            names.kept_bytes = 0
            names.clear()


class AuthorizationCache:
    """The operations that a principal may do on one connection, as long as the authorizer's epoch
    is ``epoch``."""

    __slots__ = ("epoch", "names", "principal")

    def __init__(self, epoch: int, principal: Principal) -> None:
        self.epoch = epoch
        self.principal = principal
        self.names: dict[int, Names] = {}
        """The allowed names. The key is a number for each combination of operation and resource
        type."""

    def forget(self) -> None:
        """Removes all names, because the connection has closed or ACLs may have changed."""
        for names in self.names.values():
            names.forget()
