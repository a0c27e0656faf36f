"""Entries: what all of them can do, and those of what happens again and again."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Protocol

from protocol.now import Now

SAVED_AGAIN_MS = 60_000
"""What happens again and again is written down no more often."""

Fields = dict[str, Any]
"""A line, before it is JSON."""


class Entry(Protocol):
    """One thing that happened, as a journal keeps it."""

    def size(self) -> int:
        """Estimated bytes of its own objects and of its texts."""

    def fields(self) -> Fields:
        """Its line, with its `kind` and without the name of its page."""

    def copied(self) -> Entry:
        """The entry for another thread, while the original goes on changing."""


@dataclass(slots=True, kw_only=True)
class Recurring:
    """An entry of what happens again and again: how often, and how much of that is written down."""

    count: int = 0
    saved_count: int = 0
    saved_ms: int = 0
    """How often it had happened when it was written down last, and when that was (wall)."""

    @property
    def key(self) -> Hashable:
        """By what it is told apart from others of its kind."""
        raise NotImplementedError

    def is_due(self, now: Now) -> bool:
        """Whether it is to be written down: the 1st, 2nd, 4th ... time, and now and then."""
        return self.count & (self.count - 1) == 0 or now.wall_ms - self.saved_ms >= SAVED_AGAIN_MS

    def saved(self, now_ms: int) -> None:
        """It is written down as it is now."""
        self.saved_count, self.saved_ms = self.count, now_ms
