"""The new and changed entries of a journal that must be saved for the next run of the broker.

`take` returns each of these entries once, in its last state, even if the entry has changed several
times since the previous `take`. A journal that is not saved has no `Unsaved`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import islice

from journal.entry import Entry
from protocol.now import Now

UNSAVED_MAX = 20_000
"""The maximum number of entries that wait to be saved. Further entries are dropped and counted in
`Unsaved.lost`."""


class Unsaved:
    """The new and changed entries of one journal that wait to be saved."""

    __slots__ = ("_entries", "lost", "wake", "young")

    def __init__(self, wake: Callable[[], None] = lambda: None) -> None:
        """``wake`` is called in three cases: an entry must be saved and no other entry waits;
        `young` gets its first entry; the journal has queued events, which may become entries."""
        self.wake = wake
        self.lost = 0
        """The number of entries that were dropped because `UNSAVED_MAX` entries waited."""
        self.young: dict[str, tuple[Hashable, Entry, int]] = {}
        """Entries that must not be saved yet, by the name of their page, oldest first. Each value
        has the entry's key, the entry, and the monotonic time in ms from which the entry may be
        saved."""
        self._entries: dict[tuple[str, str, Hashable], Entry] = {}
        """The entries that wait to be saved, by (name of the page, type of entry, key). The key is
        unique among the entries of that type."""

    def __len__(self) -> int:
        return len(self._entries)

    def mark(self, name: str, key: Hashable, entry: Entry) -> None:
        """Adds a new or changed entry. ``key`` distinguishes the entry from other entries of the
        same name and type."""
        place = (name, type(entry).__name__, key)
        entries = self._entries
        if place in entries or len(entries) < UNSAVED_MAX:
            entries[place] = entry
            if len(entries) == 1:
                self.wake()
        else:
            self.lost += 1

    def mark_old(self, name: str, key: Hashable, entry: Entry, old_ms: int) -> None:
        """Adds an entry that must not be saved before the monotonic time ``old_ms``."""
        self.young[name] = key, entry, old_ms
        if len(self.young) == 1:
            self.wake()

    def ripen(self, now: Now | None) -> None:
        """Calls `mark` for each entry in `young` that may be saved at ``now``. If ``now`` is None,
        calls `mark` for all entries in `young`."""
        while self.young:
            name = next(iter(self.young))
            key, entry, old_ms = self.young[name]
            if now is not None and now.mono_ms < old_ms:
                return
            del self.young[name]
            self.mark(name, key, entry)

    def take(self, at_most: int) -> list[tuple[str, Entry]]:
        """Removes the first ``at_most`` entries. Returns their names, each with a copy of the entry
        in its current state."""
        places = list(islice(self._entries, at_most))
        return [(place[0], self._entries.pop(place).copied()) for place in places]
