"""The thresholds of the rules for verdicts. Each threshold has a broker setting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The thresholds in docs/use/verdicts.md. All times are in milliseconds."""

    blocked_ms: int = 10_000
    """The time for which a rebalance may wait for a member."""
    refused_ms: int = 600_000
    """The time in ms for which a client's rejected JoinGroup affects the verdict, unless the client
    joins earlier."""
    not_ready_ms: int = 10_000
    """The time for which topics of a streams group's application may be missing."""
    held_back_ms: int = 30_000
    """The time for which a transaction may hold back the readers of a partition before their group
    gets a finding."""
    stalled_ms: int = 30_000
    """The time for which a committed offset may stay unchanged while the partition has unread
    records."""
    stuck_record_ms: int = 30_000
    """The time for which a committed offset may stay unchanged although the partition has unread
    records and its owner reads other partitions of the same topic."""
    locks_expire_ms: int = 300_000
    """The period in which the expired acquisition locks of a member are counted."""
    flapping_ms: int = 300_000
    """The length in ms of the period in which two numbers are counted: the rebalances of a group,
    and the returns of each client to the group under a new member id."""
    flapping_returns: int = 3
    """If a client has returned to a group at least this number of times in the period, the group is
    FLAPPING."""
    flapping_rebalances: int = 8
    """A group with at least this number of rebalances within ``flapping_ms`` is FLAPPING. A
    rebalance because of a new member does not count."""
    abandoned_ms: int = 60_000
    """How long a group without members may have unread records before its verdict gets worse."""
    lagging_ms: int = 60_000
    """The maximum age of the oldest unread record."""

    @classmethod
    def of(cls, settings: Mapping[str, int]) -> Thresholds:
        """Returns the thresholds that ``settings`` defines. A missing setting has its default."""
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
"""Maps the name of each setting to a field of `Thresholds`."""

OLD_SETTINGS: Mapping[str, str] = {"group.verdict.dead.letter.ms": "group.verdict.stuck.record.ms"}
"""Maps former names of settings to their new names. Former names are accepted until the release
after 0.1. A new name overrides the former one."""
