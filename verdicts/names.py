"""The names of the verdicts. They are sorted from the worst verdict, which an operator should check
first."""

from __future__ import annotations

from enum import StrEnum

OLD_NAMES = {"DEAD_LETTER": "STUCK_RECORD"}
"""Former names of verdicts. Commands accept them until the release after 0.1."""


class Verdict(StrEnum):
    """A verdict about the health of a group or of one of its partitions. docs/use/verdicts.md has
    the rules."""

    OUT_OF_RANGE = "OUT_OF_RANGE"
    """The committed offset is above the log end offset, or below the log start offset."""
    BLOCKED = "BLOCKED"
    """A rebalance waits for a member that does not rejoin."""
    REFUSED = "REFUSED"
    """The coordinator rejects the JoinGroup requests of clients until a setting is changed."""
    NOT_READY = "NOT_READY"
    """A streams group assigns no tasks, because a topic of its application is missing."""
    HELD_BACK = "HELD_BACK"
    """The group's read_committed consumers wait for the end of an open transaction."""
    STALLED = "STALLED"
    """A member is alive and owns a partition with unread records, but its committed offset does not
    move."""
    STUCK_RECORD = "STUCK_RECORD"
    """The group is stuck at a record of one partition, while its committed offsets in other
    partitions of the topic advance."""
    LOCKS_EXPIRE = "LOCKS_EXPIRE"
    """A member of a share group does not acknowledge its records before their acquisition locks
    expire."""
    FLAPPING = "FLAPPING"
    """A client rejoins repeatedly, or the whole group rebalances repeatedly."""
    ABANDONED = "ABANDONED"
    """The group has no members but has unread records."""
    LAGGING = "LAGGING"
    """The oldest unread record is older than group.verdict.lagging.ms."""
    OK = "OK"
    """The group has no problem."""

    @classmethod
    def _missing_(cls, value: object) -> Verdict | None:
        name = OLD_NAMES.get(str(value))
        return None if name is None else cls(name)

    @property
    def rank(self) -> int:
        """The severity of the verdict. 0 is the worst."""
        return _RANKS[self]


def rank_of(verdict: str | None) -> int:
    """Returns the severity of a verdict. 0 is the worst, and None ranks last."""
    return Verdict(verdict).rank if verdict else len(Verdict)


_RANKS = {verdict: rank for rank, verdict in enumerate(Verdict)}
