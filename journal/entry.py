"""The methods of all entries, and the entries of repeated events."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Protocol

from protocol.now import Now

SAVED_AGAIN_MS = 60_000
"""The minimum time between two saves of a repeated event's entry."""

Fields = dict[str, Any]
"""The fields of a line, before they are encoded as JSON."""


class Entry(Protocol):
    """One past event, as a journal keeps it."""

    def size(self) -> int:
        """Estimated memory of the entry in bytes: its objects and its texts."""

    def fields(self) -> Fields:
        """The fields of the entry's line, with `kind` and without the name of the page."""

    def copied(self) -> Entry:
        """A copy for another thread, since the original may change."""


@dataclass(slots=True, kw_only=True)
class Recurring:
    """An entry of a repeated event: how often the event happened, and which count is saved."""

    count: int = 0
    saved_count: int = 0
    saved_ms: int = 0
    """``saved_count`` is the count at the last save, ``saved_ms`` the time of that save (wall)."""

    @property
    def key(self) -> Hashable:
        """The key that distinguishes this entry from others of the same kind."""
        raise NotImplementedError

    def is_due(self, now: Now) -> bool:
        """Whether to save the entry: at the 1st, 2nd, 4th, 8th ... event, and once in
        `SAVED_AGAIN_MS`."""
        return self.count & (self.count - 1) == 0 or now.wall_ms - self.saved_ms >= SAVED_AGAIN_MS

    def saved(self, now_ms: int) -> None:
        """Record that the present count is saved."""
        self.saved_count, self.saved_ms = self.count, now_ms
