"""The verdicts by name, the worst first: what an operator should look at first comes first."""

from __future__ import annotations

from enum import StrEnum

OLD_NAMES = {"DEAD_LETTER": "STUCK_RECORD"}
"""Accepted until the release after 0.1."""


class Verdict(StrEnum):
    """What is said of a group, and of each of its partitions.

    docs/use/verdicts.md has the rules.
    """

    OUT_OF_RANGE = "OUT_OF_RANGE"
    """The committed offset is above the end of its log, or below its start."""
    BLOCKED = "BLOCKED"
    """A rebalance waits for a member that does not rejoin."""
    REFUSED = "REFUSED"
    """Clients are refused when they join, until somebody changes a setting."""
    HELD_BACK = "HELD_BACK"
    """Its readers wait for an open transaction to end."""
    STALLED = "STALLED"
    """A member is alive, owns the partition, and makes no progress with its unread records."""
    STUCK_RECORD = "STUCK_RECORD"
    """One partition is stuck at a record while its neighbours move."""
    FLAPPING = "FLAPPING"
    """A client, or the whole group, rejoins again and again."""
    ABANDONED = "ABANDONED"
    """Nobody is in the group, and records wait for it."""
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
    """0 for the worst; what is not known comes last."""
    return Verdict(verdict).rank if verdict else len(Verdict)


_RANKS = {verdict: rank for rank, verdict in enumerate(Verdict)}
