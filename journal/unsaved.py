"""Entries of a journal that are to be written down for the next run: those that have changed.

An entry that changes again before it was taken is taken once, as it is then. Without somebody who
takes them there are none of these.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from protocol.now import Now

UNSAVED_MAX = 20_000
"""More are not written down, and counted."""
SAVED_AGAIN_MS = 60_000
"""What happens again and again is written down no more often."""

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


@dataclass(slots=True, kw_only=True)
class Recurring:
    """An entry of what happens again and again: how often, and how much of that is written down."""

    count: int = 0
    saved_count: int = 0
    saved_ms: int = 0
    """How often it had happened when it was written down last, and when that was (wall)."""

    def is_due(self, now: Now) -> bool:
        """Whether it is to be written down: the 1st, 2nd, 4th ... time, and now and then."""
        return self.count & (self.count - 1) == 0 or now.wall_ms - self.saved_ms >= SAVED_AGAIN_MS

    def saved(self, now_ms: int) -> None:
        """It is written down as it is now."""
        self.saved_count, self.saved_ms = self.count, now_ms
