"""Entries of the journal that are to be written down for the next run: those that have changed.

An entry that changes again before it was taken is taken once, as it is then. Without somebody who
takes them there are none of these.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from itertools import islice

from coordinator.journal_entries import Entry, MovedBack, Note, Rebalance

UNSAVED_MAX = 20_000
"""More are not written down, and counted."""


class Unsaved:
    """See the module."""

    __slots__ = ("_entries", "lost")

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str, Hashable], Entry] = {}
        """By group, kind and what tells entries of a kind apart."""
        self.lost = 0
        """Entries that were not taken in time."""

    def __len__(self) -> int:
        return len(self._entries)

    def mark(self, group_id: str, key: Hashable, entry: Entry) -> None:
        """An entry is new, or has changed; ``key`` tells it from others of its kind."""
        place = (group_id, type(entry).__name__, key)
        if place in self._entries or len(self._entries) < UNSAVED_MAX:
            self._entries[place] = entry
        else:
            self.lost += 1

    def take(self, at_most: int) -> list[tuple[str, Entry]]:
        """The first of them with their groups, as they are now."""
        places = list(islice(self._entries, at_most))
        return [(place[0], _copied(self._entries.pop(place))) for place in places]


def _copied(entry: Entry) -> Entry:
    """The entry for another thread, while the original goes on changing."""
    if isinstance(entry, Note | MovedBack):
        return entry
    if isinstance(entry, Rebalance):
        return replace(entry, changes=list(entry.changes))
    return replace(entry)
