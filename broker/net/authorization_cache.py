"""The operations known to be allowed on a connection, so that handlers ask the authorizer once.

A request whose names are all known needs one lookup in a set; the authorizer, which knows denials
too, is not asked. All connections together keep `BYTES_MAX`; the oldest sets are dropped first.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from security.principal import Principal

NAME_KEPT_MAX = 256
"""Characters of a name that is cached: a group id may have 32,767, and is checked each time."""
BYTES_MAX: Final = 32 << 20
"""Of all that is kept: 250,000 names of 30 characters, or 90,000 topics of 245."""
_ENTRY_BYTES: Final = 110
"""Bytes of a name in a set, without its characters."""


class Names(set[str]):
    """The names that one connection may have for one right, to be looked up in."""

    __slots__ = ("_memory", "kept_bytes")

    def __init__(self, memory: AuthorizationCacheMemory) -> None:
        super().__init__()
        self._memory = memory
        self.kept_bytes = 0

    def keep(self, name: str) -> None:
        """Has a name that was allowed known from now on, unless it is long."""
        if len(name) <= NAME_KEPT_MAX and name not in self:
            self.add(name)
            self._memory.added(self, _ENTRY_BYTES + len(name))

    def forget(self) -> None:
        """Drops all names."""
        self._memory.forget(self)


class AuthorizationCacheMemory:
    """The names of all connections together; see the module."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self.kept_bytes = 0
        self._bytes_max = bytes_max
        self._all: OrderedDict[int, Names] = OrderedDict()
        """The sets with names, by identity since a set has no hash; the oldest is first."""

    def added(self, names: Names, size_bytes: int) -> None:
        """One of the sets has a name more."""
        if not names.kept_bytes:
            self._all[id(names)] = names
        names.kept_bytes += size_bytes
        self.kept_bytes += size_bytes
        while self.kept_bytes > self._bytes_max:
            self.forget(next(iter(self._all.values())))

    def forget(self, names: Names) -> None:
        """Empties one of the sets."""
        if names.kept_bytes:
            del self._all[id(names)]
            self.kept_bytes -= names.kept_bytes
            names.kept_bytes = 0
            names.clear()


class AuthorizationCache:
    """The operations allowed to a connection's principal, at one epoch of the authorizer."""

    __slots__ = ("epoch", "names", "principal")

    def __init__(self, epoch: int, principal: Principal) -> None:
        self.epoch = epoch
        self.principal = principal
        self.names: dict[int, Names] = {}
        """By the right: a number for an operation on a type of resource."""

    def forget(self) -> None:
        """Drops its names: the connection is closed, or permissions may have changed."""
        for names in self.names.values():
            names.forget()
