"""The new and changed entries of a journal, to be saved for the next run.

An entry that changes again before it is taken is taken once, in its last state. A journal that is
not saved has no `Unsaved`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import islice

from journal.entry import Entry
from protocol.now import Now

UNSAVED_MAX = 20_000
"""Entries beyond this number are not saved, but counted in `lost`."""


class Unsaved:
    """See the module."""

    __slots__ = ("_entries", "lost", "wake", "young")

    def __init__(self, wake: Callable[[], None] = lambda: None) -> None:
        """``wake`` is called when the first entry, or the first young entry, is added, and when a
        journal has queued events that may produce one."""
        self.wake = wake
        self.lost = 0
        """The number of entries that were not taken in time."""
        self.young: dict[str, tuple[Hashable, Entry, int]] = {}
        """By name, the oldest first: the key of an entry that is saved only when it is old, the
        entry, and the time from which it is old (monotonic)."""
        self._entries: dict[tuple[str, str, Hashable], Entry] = {}
        """By name, type of entry, and the key among entries of that type."""

    def __len__(self) -> int:
        return len(self._entries)

    def mark(self, name: str, key: Hashable, entry: Entry) -> None:
        """Add a new or changed entry; ``key`` distinguishes it from others of its type."""
        place = (name, type(entry).__name__, key)
        entries = self._entries
        if place in entries or len(entries) < UNSAVED_MAX:
            entries[place] = entry
            if len(entries) == 1:
                self.wake()
        else:
            self.lost += 1

    def mark_old(self, name: str, key: Hashable, entry: Entry, old_ms: int) -> None:
        """`mark` an entry later, once the monotonic time reaches ``old_ms``."""
        self.young[name] = key, entry, old_ms
        if len(self.young) == 1:
            self.wake()

    def ripen(self, now: Now | None) -> None:
        """Mark the young entries that are old enough at ``now``; with None, all of them."""
        while self.young:
            name = next(iter(self.young))
            key, entry, old_ms = self.young[name]
            if now is not None and now.mono_ms < old_ms:
                return
            del self.young[name]
            self.mark(name, key, entry)

    def take(self, at_most: int) -> list[tuple[str, Entry]]:
        """Remove the first entries; returns their names with copies in their present state."""
        places = list(islice(self._entries, at_most))
        return [(place[0], self._entries.pop(place).copied()) for place in places]
