"""When a committed offset expires: Kafka's rules since KIP-211, as one pure function.

- A group with a protocol type that is Empty: ``retention_ms`` after it became empty, or, where that
  is unknown, after the commit.
- A Stable group of type "consumer" whose subscriptions are known: ``retention_ms`` after the
  commit, if no member subscribes to the topic.
- A group without protocol type (assign() users): ``retention_ms`` after the commit, even while its
  consumer is alive; or after the last fetch of its offsets, where the broker counts that.
- Any other group: never.

An expire timestamp from the client (OffsetCommit v2 to v4) replaces the time in the first three
cases. If the wall clock is set back, offsets only live longer.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

NO_TIMESTAMP_MS = -1
CONSUMER_PROTOCOL_TYPE = "consumer"


class GroupCondition(NamedTuple):
    """The properties of a group that expiry depends on.

    A group with only offsets is ``GroupCondition()``.
    """

    protocol_type: str | None = None
    """None or "" for a simple group, which no member ever joined."""
    empty: bool = True
    stable: bool = False
    state_timestamp_ms: int = NO_TIMESTAMP_MS
    """Wall time of the last state transition; -1 where the record lacks it (value versions 0, 1).
    """
    subscribed_topics: Collection[str] | None = None
    """Topics that any member subscribes to; None when a subscription could not be read."""
    read_ms: int = NO_TIMESTAMP_MS
    """Wall time of the last fetch of a simple group's offsets, where that extends their life."""


class ExpiryRule(NamedTuple):
    """The case that applies to a group now."""

    since_ms: int
    """The start of the retention; -1 for each offset's own commit time."""
    kept_topics: Collection[str]
    """Offsets in these topics do not expire."""
    read_ms: int = NO_TIMESTAMP_MS
    """The earliest start of the retention."""


def rule_for(group: GroupCondition) -> ExpiryRule | None:
    """The case that applies; None where no offset expires."""
    if not group.protocol_type:
        return ExpiryRule(NO_TIMESTAMP_MS, (), group.read_ms)
    if group.empty:
        return ExpiryRule(group.state_timestamp_ms, ())
    if (
        group.stable
        and group.protocol_type == CONSUMER_PROTOCOL_TYPE
        and group.subscribed_topics is not None
    ):
        return ExpiryRule(NO_TIMESTAMP_MS, group.subscribed_topics)
    return None


def expires_at(
    rule: ExpiryRule, commit_timestamp_ms: int, expire_timestamp_ms: int, *, retention_ms: int
) -> int:
    """When an offset in a topic that is not kept expires, in wall milliseconds."""
    if expire_timestamp_ms != NO_TIMESTAMP_MS:
        return expire_timestamp_ms
    since_ms = commit_timestamp_ms if rule.since_ms == NO_TIMESTAMP_MS else rule.since_ms
    return max(since_ms, rule.read_ms) + retention_ms
