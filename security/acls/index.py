"""The index of the ACL entries, so that a decision reads only a few entries.

Literal patterns are indexed by type and name, prefixed patterns by type and prefix, and the entries
of a pattern by principal. A decision about a name looks up one prefix of the name for each length
that a prefixed pattern has. So the time of a decision depends on the number of different lengths,
not on the number of entries.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from operator import itemgetter

from security.acls.filters import AclFilter
from security.acls.model import (
    ANYTHING,
    AclEntry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)

AT_A_TIME = 100
"""The number of entries of a pattern that `AclIndex.walk` yields in one step. Reading and encoding
them takes half a millisecond."""

_Of = dict[str, dict[AclEntry, None]]
"""The entries of one pattern, by principal."""


class AclIndex:
    """All ACL entries. ``epoch`` increases with each change, so that decisions can be cached."""

    __slots__ = (
        "_count", "_lengths", "_lengths_sorted", "_patterns", "_prefixes", "_principals", "epoch",
    )  # fmt: skip

    def __init__(self, entries: Iterable[AclEntry] = ()) -> None:
        self._patterns: dict[Pattern, _Of] = {}
        self._principals: dict[tuple[ResourceType, str, Operation], dict[AclEntry, None]] = {}
        """The entries by resource type, principal and operation."""
        self._prefixes: dict[ResourceType, dict[str, Pattern]] = {}
        """The prefixed patterns, by resource type and prefix. The key is a string, because a lookup
        by a `Pattern` takes ten times as long."""
        self._lengths: dict[ResourceType, Counter[int]] = {}
        """By resource type, the number of prefixes of each length."""
        self._lengths_sorted: dict[ResourceType, list[int]] = {}
        self._count = 0
        self.epoch = 0
        for entry in entries:
            self.add(entry)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[AclEntry]:
        for of in self._patterns.values():
            for entries in of.values():
                yield from entries

    def __contains__(self, entry: AclEntry) -> bool:
        return entry in self._patterns.get(entry.pattern, {}).get(entry.principal, ())

    def add(self, entry: AclEntry) -> bool:
        """Adds an entry. Returns False if the entry already exists."""
        pattern, principal = entry.pattern, entry.principal
        of = self._patterns.get(pattern)
        if of is None:
            of = self._patterns[pattern] = {}
            if pattern.pattern_type == PatternType.PREFIXED:
                self._count_prefix(pattern, 1)
        entries = of.setdefault(principal, {})
        if entry in entries:
            return False
        entries[entry] = None
        key = pattern.resource_type, principal, entry.operation
        self._principals.setdefault(key, {})[entry] = None
        self._count += 1
        self.epoch += 1
        return True

    def remove(self, entry: AclEntry) -> bool:
        """Removes an entry. Returns False if the entry does not exist."""
        if entry not in self:
            return False
        pattern, principal = entry.pattern, entry.principal
        of = self._patterns[pattern]
        del of[principal][entry]
        if not of[principal]:
            del of[principal]
        if not of:
            del self._patterns[pattern]
            if pattern.pattern_type == PatternType.PREFIXED:
                self._count_prefix(pattern, -1)
        key = pattern.resource_type, principal, entry.operation
        del self._principals[key][entry]
        if not self._principals[key]:
            del self._principals[key]
        self._count -= 1
        self.epoch += 1
        return True

    def matching(self, wanted: AclFilter) -> list[AclEntry]:
        """Returns the entries that match a filter, sorted by their patterns."""
        found = [entry for _, entries in self.walk(wanted) for entry in entries]
        return sorted(found, key=itemgetter(0))

    def walk(self, wanted: AclFilter) -> Iterator[tuple[Pattern, list[AclEntry]]]:
        """Yields the entries that match a filter: lists of at most `AT_A_TIME` entries of one
        pattern. A list may be empty. The entries of the index may change between two steps."""
        for pattern in self._candidates(wanted):
            of = self._patterns.get(pattern)
            if of is None:
                continue  # the pattern was removed between two steps
            if not wanted.takes_pattern(pattern):
                yield pattern, []
                continue
            of_pattern = [entry for entries in of.values() for entry in entries]
            for first in range(0, len(of_pattern), AT_A_TIME):
                some = of_pattern[first : first + AT_A_TIME]
                yield pattern, [entry for entry in some if wanted.takes(entry)]

    def _candidates(self, wanted: AclFilter) -> Iterable[Pattern]:
        """Returns the patterns whose entries must be checked: all patterns, or those that may match
        the name in the filter."""
        if wanted.name is None or wanted.resource_type == ResourceType.ANY:
            return list(self._patterns)
        kind, name = wanted.resource_type, wanted.name
        exact = [Pattern(kind, name, PatternType.PREFIXED), Pattern(kind, name)]
        if wanted.pattern_type == PatternType.MATCH:
            exact += self.covering(kind, name)
        return dict.fromkeys(exact)

    def covering(self, kind: ResourceType, name: str) -> list[Pattern]:
        """Returns the existing patterns that match a resource name: the literal name, the wildcard,
        and prefixes of the name."""
        patterns = self._patterns
        found = [
            each for each in (Pattern(kind, name), Pattern(kind, ANYTHING)) if each in patterns
        ]
        lengths = self._lengths_sorted.get(kind)
        if lengths:
            prefixes = self._prefixes[kind]
            for length in lengths[: bisect_right(lengths, len(name))]:
                prefix = prefixes.get(name[:length])
                if prefix is not None:
                    found.append(prefix)
        return found

    def entries_of(self, pattern: Pattern, principal: str) -> Iterable[AclEntry]:
        """Returns the entries of a pattern for a principal. Principals are compared as strings."""
        return self._patterns[pattern].get(principal, ())

    def entries_for(
        self, kind: ResourceType, principal: str, operation: Operation
    ) -> Iterable[AclEntry]:
        """Returns the entries of a principal for an operation or for ALL, on resources of a
        type."""
        return chain(
            self._principals.get((kind, principal, operation), ()),
            self._principals.get((kind, principal, Operation.ALL), ()),
        )

    def _count_prefix(self, pattern: Pattern, by: int) -> None:
        kind, length = pattern.resource_type, len(pattern.name)
        prefixes = self._prefixes.setdefault(kind, {})
        if by > 0:
            prefixes[pattern.name] = pattern
        else:
            del prefixes[pattern.name]
        lengths = self._lengths.setdefault(kind, Counter())
        lengths[length] += by
        if not lengths[length]:
            del lengths[length]
        if by > 0 and lengths[length] > 1:
            return
        self._lengths_sorted[kind] = sorted(lengths)


def is_about(entry: AclEntry, host: str, operation: Operation) -> bool:
    """Returns True if an entry is for exactly this operation or for ALL, from this host."""
    return entry.host in (ANYTHING, host) and entry.operation in (operation, Operation.ALL)


def denies(entry: AclEntry) -> bool:
    return entry.permission == Permission.DENY
