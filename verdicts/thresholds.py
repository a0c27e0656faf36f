"""The thresholds of the rules, each with the broker setting that changes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The thresholds of docs/use/verdicts.md; times are in milliseconds."""

    blocked_ms: int = 10_000
    """How long a rebalance may wait for a member."""
    refused_ms: int = 600_000
    """How long the last rejected join of a client counts, unless the client has joined since."""
    not_ready_ms: int = 10_000
    """How long a streams group may lack topics of its application."""
    held_back_ms: int = 30_000
    """How long readers may wait for an open transaction."""
    stalled_ms: int = 30_000
    """How long a committed offset may stay unchanged although unread records wait."""
    stuck_record_ms: int = 30_000
    """How long a committed offset may stay unchanged although unread records wait, for a partition
    whose owner reads other partitions of the topic."""
    locks_expire_ms: int = 300_000
    """The period in which the expired locks of a member of a share group are counted."""
    flapping_ms: int = 300_000
    """The period in which returns and rebalances are counted."""
    flapping_returns: int = 3
    """The number of returns at which a client flaps."""
    flapping_rebalances: int = 8
    """The number of rebalances at which a group flaps; joins of new members do not count."""
    abandoned_ms: int = 60_000
    """How long a group may have unread records but no members."""
    lagging_ms: int = 60_000
    """The maximum age of the oldest unread record."""

    @classmethod
    def of(cls, settings: Mapping[str, int]) -> Thresholds:
        """Returns the thresholds in ``settings``, a mapping from setting name to value; a missing
        setting has its default."""
        given = {field: settings[name] for name, field in SETTINGS.items() if name in settings}
        for old, name in OLD_SETTINGS.items():
            field = SETTINGS[name]
            if old in settings and given.get(field, getattr(cls(), field)) == getattr(cls(), field):
                given[field] = settings[old]
        return cls(**given)


SETTINGS: Mapping[str, str] = {
    "group.verdict.blocked.ms": "blocked_ms",
    "group.verdict.refused.ms": "refused_ms",
    "group.verdict.not.ready.ms": "not_ready_ms",
    "group.verdict.held.back.ms": "held_back_ms",
    "group.verdict.stalled.ms": "stalled_ms",
    "group.verdict.stuck.record.ms": "stuck_record_ms",
    "group.verdict.locks.expire.ms": "locks_expire_ms",
    "group.verdict.flapping.ms": "flapping_ms",
    "group.verdict.flapping.returns": "flapping_returns",
    "group.verdict.flapping.rebalances": "flapping_rebalances",
    "group.verdict.abandoned.ms": "abandoned_ms",
    "group.verdict.lagging.ms": "lagging_ms",
}
"""The field of `Thresholds` for each setting."""

OLD_SETTINGS: Mapping[str, str] = {"group.verdict.dead.letter.ms": "group.verdict.stuck.record.ms"}
"""Old name to new name; old names are accepted until the release after 0.1, with lower precedence.
"""
