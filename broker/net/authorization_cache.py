"""The operations known to be allowed on a connection, so that handlers query the authorizer only
once per name.

If all names of a request are in the cache, the authorization costs one set lookup and no call of
the authorizer. The sets of all connections together use at most `BYTES_MAX`; the oldest sets are
dropped first.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from security.principal import Principal

NAME_KEPT_MAX = 256
"""The maximum length of a cached name, in characters. Longer names, such as group ids of up to
32,767 characters, are checked for each request."""
BYTES_MAX: Final = 32 << 20
"""The maximum size in bytes of all sets together: enough for 250,000 names of 30 characters, or
90,000 topics of 245."""
_ENTRY_BYTES: Final = 110
"""The number of bytes that a set uses for each name in addition to the characters of the name."""


class Names(set[str]):
    """The allowed names of one connection for one operation on one resource type."""

    __slots__ = ("_memory", "kept_bytes")

    def __init__(self, memory: AuthorizationCacheMemory) -> None:
        super().__init__()
        self._memory = memory
        self.kept_bytes = 0

    def keep(self, name: str) -> None:
        """Adds an allowed name, unless it is longer than `NAME_KEPT_MAX`."""
        if len(name) <= NAME_KEPT_MAX and name not in self:
            self.add(name)
            self._memory.added(self, _ENTRY_BYTES + len(name))

    def forget(self) -> None:
        """Removes all names."""
        self._memory.forget(self)


class AuthorizationCacheMemory:
    """Limits the memory of the name sets of all connections together to ``bytes_max``."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self.kept_bytes = 0
        self._bytes_max = bytes_max
        self._all: OrderedDict[int, Names] = OrderedDict()
        """The sets that are not empty, oldest first. The key is ``id()`` of the set, since a set
        can't be hashed."""

    def added(self, names: Names, size_bytes: int) -> None:
        """Counts a name that was added to ``names``; as long as the total exceeds the limit,
        empties the oldest set."""
        if not names.kept_bytes:
            self._all[id(names)] = names
        names.kept_bytes += size_bytes
        self.kept_bytes += size_bytes
        while self.kept_bytes > self._bytes_max:
            self.forget(next(iter(self._all.values())))

    def forget(self, names: Names) -> None:
        """Empties one set and subtracts its size."""
        if names.kept_bytes:
            del self._all[id(names)]
            self.kept_bytes -= names.kept_bytes
            names.kept_bytes = 0
            names.clear()


class AuthorizationCache:
    """The operations that one epoch of the authorizer allows the principal of a connection."""

    __slots__ = ("epoch", "names", "principal")

    def __init__(self, epoch: int, principal: Principal) -> None:
        self.epoch = epoch
        self.principal = principal
        self.names: dict[int, Names] = {}
        """The allowed names by right; a right is a number that combines an operation and a resource
        type."""

    def forget(self) -> None:
        """Removes all names, since the connection has closed or the ACLs may have changed."""
        for names in self.names.values():
            names.forget()
