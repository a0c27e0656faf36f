"""The names of the verdicts, the worst first: the order in which an operator should check them."""

from __future__ import annotations

from enum import StrEnum

OLD_NAMES = {"DEAD_LETTER": "STUCK_RECORD"}
"""Accepted until the release after 0.1."""


class Verdict(StrEnum):
    """The verdict on a group, and on each of its partitions.

    docs/use/verdicts.md has the rules.
    """

    OUT_OF_RANGE = "OUT_OF_RANGE"
    """The committed offset is above the log end offset, or below the log start offset."""
    BLOCKED = "BLOCKED"
    """A rebalance waits for a member that does not rejoin."""
    REFUSED = "REFUSED"
    """Clients are rejected when they join, until a setting is changed."""
    HELD_BACK = "HELD_BACK"
    """Its readers wait for an open transaction to end."""
    STALLED = "STALLED"
    """A member is alive, owns the partition, and makes no progress with its unread records."""
    STUCK_RECORD = "STUCK_RECORD"
    """One partition is stuck at a record while the owner's other partitions of the topic move."""
    FLAPPING = "FLAPPING"
    """A client, or the whole group, rejoins again and again."""
    ABANDONED = "ABANDONED"
    """The group has no members, and records wait for it."""
    LAGGING = "LAGGING"
    """The oldest unread record is old."""
    OK = "OK"
    """None of these."""

    @classmethod
    def _missing_(cls, value: object) -> Verdict | None:
        name = OLD_NAMES.get(str(value))
        return None if name is None else cls(name)

    @property
    def rank(self) -> int:
        """0 for the worst."""
        return _RANKS[self]


def rank_of(verdict: str | None) -> int:
    """0 for the worst; an unknown verdict comes last."""
    return Verdict(verdict).rank if verdict else len(Verdict)


_RANKS = {verdict: rank for rank, verdict in enumerate(Verdict)}
