"""The offsets that retention will drop soon, with times and reasons, and the warnings about these
offsets.

The functions change no offset. The retention check calls these functions for one group after
another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from coordinator.classic.group import Group
from coordinator.config import GroupConfig
from coordinator.events import OffsetsExpiring
from coordinator.read_only import GroupView
from coordinator.step import CommittingGroup, ShardState, Step
from offsets.expiry import CONSUMER_PROTOCOL_TYPE, NO_TIMESTAMP_MS, GroupCondition

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
WARNING_TIMES_MS = (DAY_MS, HOUR_MS)
"""Times in milliseconds before the expiry of an offset. At each of them, the offset is counted and
a warning is emitted. A time that is not below offsets.retention.minutes has no effect."""


class ExpiringOffset(NamedTuple):
    """One offset that will expire unless a new commit or a member prevents the expiry. Times are
    wall milliseconds."""

    group_id: str
    topic: str
    partition: int
    expires_ms: int
    why: str


def condition_of(group: GroupView | CommittingGroup) -> GroupCondition:
    """Returns the properties of a group on which the expiry of its offsets depends.

    A consumer or streams group counts as Stable while it has members. The time at which such a
    group became empty is the time at which its epoch was last raised, because the removal of the
    last member raises the epoch.
    """
    if isinstance(group, CommittingGroup):
        return GroupCondition(
            CONSUMER_PROTOCOL_TYPE,
            not group.members,
            bool(group.members),
            group.epoch_ms,
            group.subscribed_names() if group.knows_subscriptions() else None,
        )
    return GroupCondition(
        group.protocol_type,
        not group.members and group.is_empty,
        group.is_assigned,
        group.state_timestamp_ms,
        group.subscribed_topics if group.is_assigned else None,
        group.offsets_read_ms,
    )


def expiring(
    state: ShardState, group: Group | CommittingGroup, until_ms: int
) -> Iterator[ExpiringOffset]:
    """Yields the offsets of a group that may expire by the wall time ``until_ms``, each with the
    reason."""
    condition = condition_of(group)
    found = state.cache.expiring(
        group.group_id, condition, state.config.offsets_retention_ms, until_ms
    )
    for topic, partition, expires_ms, _, asked_ms in found:
        why = why_it_expires(group, asked=asked_ms != NO_TIMESTAMP_MS)
        yield ExpiringOffset(group.group_id, topic, partition, expires_ms, why)


def why_it_expires(group: Group | CommittingGroup, *, asked: bool = False) -> str:
    """Returns a text that states why an offset of the group will expire. ``asked`` is true if the
    commit set the offset's retention."""
    if asked:
        return "the commit request set the retention time"
    condition = condition_of(group)
    if not condition.protocol_type:
        if condition.read_ms != NO_TIMESTAMP_MS:
            return "no offsets of the group were committed or fetched, and the group has no members"
        return "no new commits, and the group has no members (its clients use assign())"
    if condition.empty:
        if condition.state_timestamp_ms == NO_TIMESTAMP_MS:
            return "no new commits, and the group has no members"
        return "the group has no members"
    return "no new commits, and no member subscribes to the topic"


def times_of_warnings(config: GroupConfig) -> list[int]:
    """Returns the times in ms before the expiry of an offset at which a warning is emitted, the
    longest first. All of them are shorter than the retention."""
    return [each for each in WARNING_TIMES_MS if each < config.offsets_retention_ms]


def warn_of_expiry(
    step: Step, group: Group | CommittingGroup, counts: Mapping[int, int], soonest_ms: int
) -> None:
    """Records how many offsets of a group will expire soon. Emits OffsetsExpiring if an offset is
    within a warning time for the first time, or within a shorter warning time than at the last
    check.

    ``counts`` maps each warning time, the longest first, to the number of offsets that may expire
    within this time.
    """
    nearest_ms = 0
    for within_ms, count in counts.items():
        by_group = step.state.expiring.setdefault(within_ms, {})
        if count:
            by_group[group.group_id] = count
            nearest_ms = within_ms
        else:
            by_group.pop(group.group_id, None)
    if nearest_ms and (not group.expiry_warned_ms or nearest_ms < group.expiry_warned_ms):
        count = counts[nearest_ms]
        why = why_it_expires(group)
        step.events.append(OffsetsExpiring(group.group_id, count, nearest_ms, soonest_ms, why))
    group.expiry_warned_ms = nearest_ms
