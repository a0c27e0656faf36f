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
    """One past event that a journal keeps."""

    def size(self) -> int:
        """Estimated memory of the entry in bytes: its objects and its texts."""

    def fields(self) -> Fields:
        """The fields of the entry's line, with `kind` and without the name of the page."""

    def copied(self) -> Entry:
        """A copy for another thread, since the original may change."""


@dataclass(slots=True, kw_only=True)
class Recurring:
    """An entry of a repeated event: it counts the occurrences of the event, and stores which count
    was saved last."""

    count: int = 0
    saved_count: int = 0
    saved_ms: int = 0
    """The wall time in ms of the last save; ``saved_count`` is the count at this save."""

    @property
    def key(self) -> Hashable:
        """The key that distinguishes this entry from others of the same kind."""
        raise NotImplementedError

    def is_due(self, now: Now) -> bool:
        """Returns whether the entry must be saved: after the 1st, 2nd, 4th, 8th ... event, and
        otherwise at most once in `SAVED_AGAIN_MS`."""
        return self.count & (self.count - 1) == 0 or now.wall_ms - self.saved_ms >= SAVED_AGAIN_MS

    def saved(self, now_ms: int) -> None:
        """Record that the present count is saved."""
        self.saved_count, self.saved_ms = self.count, now_ms
