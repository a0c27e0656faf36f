"""Entries of a journal that are to be written down for the next run: those that have changed.

An entry that changes again before it was taken is taken once, as it is then. Without somebody who
takes them there are none of these.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import islice
from typing import Generic, TypeVar

UNSAVED_MAX = 20_000
"""More are not written down, and counted."""

EntryT = TypeVar("EntryT")


class Unsaved(Generic[EntryT]):
    """See the module; ``copied`` makes an entry for another thread, while the original goes on
    changing."""

    __slots__ = ("_copied", "_entries", "lost")

    def __init__(self, copied: Callable[[EntryT], EntryT]) -> None:
        self._copied = copied
        self._entries: dict[tuple[str, str, Hashable], EntryT] = {}
        """By name, kind and what tells entries of a kind apart."""
        self.lost = 0
        """Entries that were not taken in time."""

    def __len__(self) -> int:
        return len(self._entries)

    def mark(self, name: str, key: Hashable, entry: EntryT) -> None:
        """An entry is new, or has changed; ``key`` tells it from others of its kind."""
        place = (name, type(entry).__name__, key)
        if place in self._entries or len(self._entries) < UNSAVED_MAX:
            self._entries[place] = entry
        else:
            self.lost += 1

    def take(self, at_most: int) -> list[tuple[str, EntryT]]:
        """The first of them with their names, as they are now."""
        places = list(islice(self._entries, at_most))
        return [(place[0], self._copied(self._entries.pop(place))) for place in places]
