"""From when on a rule speaks: the thresholds, each with the broker setting that changes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Thresholds:
    """See docs/use/verdicts.md; times in milliseconds."""

    blocked_ms: int = 10_000
    """A rebalance may wait for a member so long."""
    refused_ms: int = 600_000
    """So long after its last refused join a client counts, unless it has joined since."""
    held_back_ms: int = 30_000
    """Readers may wait for an open transaction so long."""
    stalled_ms: int = 30_000
    """A committed offset may stand so long while unread records wait."""
    stuck_record_ms: int = 30_000
    """The same where the owner goes on with other partitions of the topic."""
    flapping_ms: int = 300_000
    """So far back returns and rebalances count."""
    flapping_returns: int = 3
    """A client flaps that has come back so often."""
    flapping_rebalances: int = 8
    """A group flaps that has rebalanced so often, joins of new members left out."""
    abandoned_ms: int = 60_000
    """A group may be empty so long with unread records."""
    lagging_ms: int = 60_000
    """The oldest unread record may be so old."""

    @classmethod
    def of(cls, settings: Mapping[str, int]) -> Thresholds:
        """From settings by their names; the defaults for those that are not there."""
        given = {field: settings[name] for name, field in SETTINGS.items() if name in settings}
        for old, name in OLD_SETTINGS.items():
            field = SETTINGS[name]
            if old in settings and given.get(field, getattr(cls(), field)) == getattr(cls(), field):
                given[field] = settings[old]
        return cls(**given)


SETTINGS: Mapping[str, str] = {
    "group.verdict.blocked.ms": "blocked_ms",
    "group.verdict.refused.ms": "refused_ms",
    "group.verdict.held.back.ms": "held_back_ms",
    "group.verdict.stalled.ms": "stalled_ms",
    "group.verdict.stuck.record.ms": "stuck_record_ms",
    "group.verdict.flapping.ms": "flapping_ms",
    "group.verdict.flapping.returns": "flapping_returns",
    "group.verdict.flapping.rebalances": "flapping_rebalances",
    "group.verdict.abandoned.ms": "abandoned_ms",
    "group.verdict.lagging.ms": "lagging_ms",
}
"""Setting -> field of `Thresholds`."""

OLD_SETTINGS: Mapping[str, str] = {"group.verdict.dead.letter.ms": "group.verdict.stuck.record.ms"}
"""Names that are accepted until the release after 0.1; the new one is stronger."""
