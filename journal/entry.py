"""The interface of all journal entries, and the base class of entries about repeated events."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Protocol

from protocol.now import Now

SAVED_AGAIN_MS = 60_000
"""The minimum time in ms between two saves of the entry of a repeated event."""

Fields = dict[str, Any]
"""The fields of a line of the journal's file, before they are encoded as JSON."""


class Entry(Protocol):
    """One past event that a journal keeps."""

    def size(self) -> int:
        """Returns the estimated memory of the entry in bytes, including its texts."""

    def fields(self) -> Fields:
        """Returns the fields of the entry's line, with `kind` and without the name of the page."""

    def copied(self) -> Entry:
        """Returns a copy for another thread, because the original may change."""


@dataclass(slots=True, kw_only=True)
class Recurring:
    """An entry about a repeated event. ``count`` is the number of occurrences, ``saved_count``
    their number at the last save."""

    count: int = 0
    saved_count: int = 0
    saved_ms: int = 0
    """The wall time in ms at which the entry was last saved to disk. ``saved_count`` is the value
    that `count` had then."""

    @property
    def key(self) -> Hashable:
        """Returns the key that distinguishes this entry from other entries of the same kind."""
        raise NotImplementedError

    def is_due(self, now: Now) -> bool:
        """Returns whether the entry must be saved. It is saved after the 1st, 2nd, 4th, 8th ...
        event, and otherwise at most once in `SAVED_AGAIN_MS`."""
        return self.count & (self.count - 1) == 0 or now.wall_ms - self.saved_ms >= SAVED_AGAIN_MS

    def saved(self, now_ms: int) -> None:
        """Records that the entry was saved with its current count."""
        self.saved_count, self.saved_ms = self.count, now_ms
