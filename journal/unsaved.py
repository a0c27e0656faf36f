"""Entries of a journal that are to be written down for the next run: those that have changed.

An entry that changes again before it was taken is taken once, as it is then. Without somebody who
takes them there are none of these.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import islice

from journal.entry import Entry
from protocol.now import Now

UNSAVED_MAX = 20_000
"""More are not written down, and counted."""


class Unsaved:
    """See the module."""

    __slots__ = ("_entries", "lost", "wake", "young")

    def __init__(self, wake: Callable[[], None] = lambda: None) -> None:
        """``wake`` is called when there is something, or something young, and was nothing; and
        when a journal has observed what may come to be written down."""
        self.wake = wake
        self.lost = 0
        """Entries that were not taken in time."""
        self.young: dict[str, tuple[Hashable, Entry, int]] = {}
        """By name: the key of an entry that is written down only when it is old, the entry, and
        when it is old (monotonic); the oldest first."""
        self._entries: dict[tuple[str, str, Hashable], Entry] = {}
        """By name, kind and what tells entries of a kind apart."""

    def __len__(self) -> int:
        return len(self._entries)

    def mark(self, name: str, key: Hashable, entry: Entry) -> None:
        """An entry is new, or has changed; ``key`` tells it from others of its kind."""
        place = (name, type(entry).__name__, key)
        entries = self._entries
        if place in entries or len(entries) < UNSAVED_MAX:
            entries[place] = entry
            if len(entries) == 1:
                self.wake()
        else:
            self.lost += 1

    def mark_old(self, name: str, key: Hashable, entry: Entry, old_ms: int) -> None:
        """`mark` an entry when it is old, which is at that time (monotonic)."""
        self.young[name] = key, entry, old_ms
        if len(self.young) == 1:
            self.wake()

    def ripen(self, now: Now | None) -> None:
        """Mark what is old enough by now; without a time all that is young."""
        while self.young:
            name = next(iter(self.young))
            key, entry, old_ms = self.young[name]
            if now is not None and now.mono_ms < old_ms:
                return
            del self.young[name]
            self.mark(name, key, entry)

    def take(self, at_most: int) -> list[tuple[str, Entry]]:
        """The first of them with their names, as they are now."""
        places = list(islice(self._entries, at_most))
        return [(place[0], self._entries.pop(place).copied()) for place in places]
