"""Bounded rings of what happened, by name and kind: what a journal of a cluster keeps.

Of each name the last few entries of each kind are kept; all together take so many bytes, and the
name that has been quiet for longest is forgotten first. What is new goes to an `Unsaved`, from
which it is written down.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from itertools import count
from typing import Generic, TypeVar

from journal.entry import Entry
from journal.unsaved import Unsaved

_NAME_BYTES = 500

EntryT = TypeVar("EntryT", bound=Entry)


class Rings(Generic[EntryT]):
    """See the module. Entries do not change once they are in."""

    def __init__(
        self,
        kind_of: Callable[[EntryT], Hashable],
        kept: int,
        bytes_kept: int,
        unsaved: Unsaved | None = None,
    ) -> None:
        """``kept`` is how many of a kind."""
        self.bytes = 0
        """Estimated."""
        self._kind_of = kind_of
        self._kept = kept
        self._bytes_kept = bytes_kept
        self._unsaved = unsaved
        self._numbers = count()
        self._names: dict[str, dict[Hashable, deque[EntryT]]] = {}
        """The one whose last entry is longest ago first."""

    def add(self, name: str, entry: EntryT) -> None:
        """Something has happened."""
        self.restore(name, entry)
        if self._unsaved is not None:
            self._unsaved.mark(name, next(self._numbers), entry)

    def restore(self, name: str, entry: EntryT) -> None:
        """Something had happened, and is written down; the oldest first."""
        kinds = self._names.pop(name, None)
        if kinds is None:
            kinds = {}
            self.bytes += _NAME_BYTES + len(name)
        self._names[name] = kinds
        ring = kinds.setdefault(self._kind_of(entry), deque())
        if len(ring) == self._kept:
            self.bytes -= ring.popleft().size()
        ring.append(entry)
        self.bytes += entry.size()
        while self.bytes > self._bytes_kept and len(self._names) > 1:
            self.forget(next(iter(self._names)))

    def forget(self, name: str) -> None:
        """Nothing is kept of a name."""
        kinds = self._names.pop(name, None)
        if kinds is not None:
            self.bytes -= _NAME_BYTES + len(name)
            self.bytes -= sum(each.size() for ring in kinds.values() for each in ring)

    def of(self, name: str) -> list[EntryT]:
        """What is kept of a name: kind by kind, the oldest of each first."""
        return [each for ring in self._names.get(name, {}).values() for each in ring]

    def last(self, name: str, kind: Hashable) -> EntryT | None:
        """The last entry of a kind."""
        ring = self._names.get(name, {}).get(kind)
        return ring[-1] if ring else None

    def latest(self) -> Iterator[tuple[str, list[EntryT]]]:
        """The names with their entries, the one to which something happened last first."""
        for name in reversed([*self._names]):
            yield name, self.of(name)
